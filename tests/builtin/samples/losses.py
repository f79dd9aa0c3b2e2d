"""Samples of losses of distances, margins, labels, distributions and alignments."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, X, draw, draw_places, shift

SIGNS = np.array([[1, -1, 1], [-1, 1, -1]], np.int32)
OTHER = shift(X[::-1])
THIRD = draw(2, 3, low=-1.0, high=2.5)
LOGITS = 0.97 * draw(3, 5)  # no two are apart by the margin
PLACES = draw_places(3, below=5)
SHARES = draw(2, 3, low=0.1, high=0.9)
LABELS = np.array([[0, 3, -1, 1, 2], [4, -1, -1, 0, 0], [1, 2, 4, 0, 3]], np.int32)


def reduced(*args: object, **options: object) -> list[Sample]:
    """Returns the three reductions of a loss."""
    return [Sample(args, {"reduction": way, **options}) for way in ("mean", "sum", "none")]


LOSSES: dict[str, list[Sample]] = {
    "pairwise_distance": [
        Sample((X, OTHER)),
        Sample((draw(2, 3, 4), draw(4), 3.5, 0.1, True)),
        Sample((draw(3), draw(3, low=-1.0, high=2.5), 1.0)),
        Sample((X, THIRD, np.inf)),
    ],
    "triplet_margin_loss": [
        *reduced(X, OTHER, THIRD),
        Sample((X, THIRD, OTHER, 0.5, 1.5, 0.01, True)),
        Sample((draw(3), draw(3, low=-1.0, high=2.5), draw(3, **POSITIVE), 4.0)),
    ],
    "margin_ranking_loss": [*reduced(X, THIRD, SIGNS), Sample((X, OTHER, 1.0 * SIGNS[:1], 0.4))],
    "hinge_embedding_loss": [
        Sample((X, SIGNS)),
        Sample((X, SIGNS, 1.3)),
        *reduced(X, SIGNS[0])[1:],
    ],
    "cosine_embedding_loss": [
        *reduced(X, OTHER, SIGNS[0, :2]),
        Sample((X, THIRD, SIGNS[0, :2], 0.1)),
        Sample((draw(3), shift(draw(3)), np.asarray(1, np.int32), 0.3)),
    ],
    "soft_margin_loss": [*reduced(X, SIGNS), Sample((X * 30, 1.0 * SIGNS[0]))],
    "multi_margin_loss": [
        *reduced(LOGITS, PLACES),
        Sample((LOGITS, PLACES, 2.0, 0.7, draw(5, **POSITIVE)), {"reduction": "none"}),
        Sample((LOGITS[1], np.asarray(2, np.int32))),
    ],
    "multilabel_margin_loss": [
        *reduced(LOGITS, LABELS),
        Sample((LOGITS[0], LABELS[1])),
        Sample((LOGITS, np.array(LABELS[::-1]))),
    ],
    "multilabel_soft_margin_loss": [
        *reduced(X, SHARES),
        Sample((X, SHARES, draw(3, **POSITIVE))),
        Sample((draw(3), np.array([1, 0, 1], np.int32))),
    ],
    "poisson_nll_loss": [
        *reduced(X, draw(2, 3, low=0.5, high=4.0)),
        Sample((draw(2, 3, **POSITIVE), draw(3, low=0.5, high=4.0), False, True)),
        Sample((X, draw(2, 3, low=0.5, high=4.0), True, True)),
    ],
    "gaussian_nll_loss": [
        *reduced(X, OTHER, draw(2, 3, **POSITIVE)),
        Sample((X, OTHER, draw(2, **POSITIVE), True)),
        Sample((X, OTHER, draw(2, 1, **POSITIVE), False, 0.9)),
    ],
}
