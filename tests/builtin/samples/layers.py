"""Samples of layers: sampling by grids, bags of embeddings, alignment, pooling by norms and unpooling."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, X, draw

IMAGE = draw(1, 2, 3, 4)
GRID = 0.713 * draw(1, 2, 3, 2)
VOLUME = draw(1, 1, 2, 3, 2)
LATTICE = 0.613 * draw(1, 1, 2, 2, 3)
TABLE = draw(4, 2)
PLACES = np.array([0, 2, 1, 3, 2, 0], np.int32)
STARTS = np.array([0, 2, 2, 5], np.int32)
SIGNAL = draw(1, 2, 6)
CHANCES = np.log(draw(5, 2, 4, low=0.1, high=0.9))
LABELS = np.array([[1, 1, 2], [3, 2, 0]], np.int32)
LENGTHS = np.array([5, 4], np.int32), np.array([3, 2], np.int32)
WHERE = np.array([[[0, 3], [4, 2]]], np.int32)

LAYERS: dict[str, list[Sample]] = {
    "grid_sample": [
        Sample((IMAGE, GRID), {"align_corners": False}),
        Sample((IMAGE, GRID, "bicubic", "reflection", False)),
        Sample((VOLUME, LATTICE, "bilinear", "border", True)),
        Sample((IMAGE, 2.3 * GRID, "bilinear", "reflection", True)),
        Sample((IMAGE, GRID, "nearest", "zeros", False)),
        Sample((IMAGE, GRID, "bicubic", "zeros", True)),
    ],
    "affine_grid": [
        Sample((draw(2, 2, 3), [2, 1, 3, 2], False)),
        Sample((draw(1, 3, 4), [1, 2, 1, 2, 3], True)),
    ],
    "embedding_bag": [
        Sample((TABLE, PLACES, STARTS)),
        Sample((TABLE, PLACES, STARTS, draw(6)), {"mode": "sum", "include_last_offset": True}),
        Sample((TABLE, PLACES, STARTS), {"mode": "max", "padding_idx": 2}),
        Sample((TABLE, PLACES, STARTS), {"mode": "mean", "padding_idx": 3}),
    ],
    "ctc_loss": [
        Sample((CHANCES, LABELS, *LENGTHS)),
        Sample((CHANCES, LABELS, *LENGTHS, 3), {"reduction": "none"}),
        Sample((CHANCES, LABELS[0], LENGTHS[0], LENGTHS[1][::-1].copy() - 1), {"reduction": "sum"}),
        Sample((CHANCES[:, 0], LABELS[1], *(np.asarray(one[0]) for one in LENGTHS))),
    ],
    "local_response_norm": [Sample((SIGNAL, 2)), Sample((IMAGE, 3, 0.5, 1.5, 2.0))],
    "pdist": [Sample((draw(3, 2),)), Sample((draw(3, 2), 1.5))],
    "lp_pool1d": [Sample((np.abs(SIGNAL), 2.0, 2)), Sample((np.abs(SIGNAL), 1.5, 3, 2, True))],
    "lp_pool2d": [
        Sample((draw(1, 2, 4, 4, **POSITIVE), 3.0, [2, 1])),
        Sample((draw(1, 3, 4, **POSITIVE), 2.0, 2)),
        Sample((draw(1, 2, 4), np.inf, 2)),
    ],
    "lp_pool3d": [Sample((draw(1, 2, 2, 2, **POSITIVE), 2.0, 2))],
    "max_unpool1d": [Sample((draw(1, 2, 2), WHERE, [5])), Sample((X[:, :2], WHERE[0], [5]))],
    "max_unpool2d": [Sample((draw(1, 2, 1, 2), WHERE[:, :, None], [2, 3]))],
    "max_unpool3d": [Sample((draw(1, 2, 1, 1, 2), WHERE[:, :, None, None], [2, 2, 3]))],
    "channel_shuffle": [Sample((draw(1, 4, 2, 1), 2)), Sample((draw(2, 6, 2), 3))],
}
