"""Calls that torch refuses: bad inputs of losses of distances, margins, labels, distributions, alignments."""

from __future__ import annotations

from .refusals import Refusal, X, at, each, functional, real

SQUARE = real(3, 3)
_OF_TWO = ("hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss")

LOSSES = [
    *(Refusal(f"nn.functional.{op}", "the sizes of the operands must match", X, real(4)) for op in _OF_TWO),
    *each(
        functional("hinge_embedding_loss soft_margin_loss poisson_nll_loss"),
        "is not a valid value for reduction",
        X,
        X,
        reduction="avg",
    ),
    Refusal(
        "nn.functional.hinge_embedding_loss", "not implemented for complex", real(3, dtype="complex64"), X
    ),
    Refusal("nn.functional.pairwise_distance", "the sizes of the operands must match", X, real(4)),
    Refusal("nn.functional.pairwise_distance", "expected a value of type 'float'", X, X, "fro"),
    Refusal("nn.functional.pairwise_distance", "not implemented for bool", X > 0, X > 0),
    Refusal("nn.functional.triplet_margin_loss", "margin must be greater than 0", X, X, X, margin=0.0),
    Refusal("nn.functional.triplet_margin_loss", "the same number of dimensions", X, real(3), X),
    Refusal("nn.functional.triplet_margin_loss", "the sizes of the operands must match", X, X, real(2, 4)),
    Refusal(
        "nn.functional.triplet_margin_with_distance_loss",
        "margin must be greater than 0",
        X,
        X,
        X,
        margin=-1.0,
    ),
    Refusal(
        "nn.functional.triplet_margin_with_distance_loss",
        "is not a valid value for reduction",
        X,
        X,
        X,
        reduction="avg",
    ),
    Refusal(
        "nn.functional.triplet_margin_with_distance_loss", "the same number of dimensions", X, real(3), X
    ),
    Refusal("nn.functional.margin_ranking_loss", "the same number of dimensions", X, X, real(3)),
    Refusal("nn.functional.margin_ranking_loss", "the sizes of the operands must match", X, X, real(1, 4)),
    Refusal("nn.functional.cosine_embedding_loss", "0D or 1D target tensor expected", X, X, X),
    Refusal("nn.functional.cosine_embedding_loss", "0D or 1D target tensor expected", X, X, real()),
    Refusal("nn.functional.cosine_embedding_loss", "the sizes of the operands must match", X, X, real(3)),
    Refusal(
        "nn.functional.soft_margin_loss", "the target must broadcast to the shape of the input", real(3), X
    ),
    Refusal("nn.functional.multi_margin_loss", "only p == 1 and p == 2 are supported", X, at(0, 1), p=3),
    Refusal("nn.functional.multi_margin_loss", "index 3 is out of bounds", X, at(0, 3)),
    Refusal("nn.functional.multi_margin_loss", "expected one label for each example", X, at(0)),
    Refusal("nn.functional.multi_margin_loss", "expected integers for labels", X, real(2)),
    Refusal("nn.functional.multi_margin_loss", "expected a vector, or a matrix", real(2, 3, 4), at(0, 1)),
    Refusal("nn.functional.multi_margin_loss", "inconsistent weight size", X, at(0, 1), weight=real(2)),
    Refusal(
        "nn.functional.multi_margin_loss", "weight must be one-dimensional", X, at(0, 1), weight=real(1, 3)
    ),
    Refusal(
        "nn.functional.multi_margin_loss",
        "expected all operands to have the same dtype",
        X,
        at(0, 1),
        weight=real(3, dtype="float64"),
    ),
    Refusal("nn.functional.multilabel_margin_loss", "inconsistent target size", X, at(0, 1, 2)),
    Refusal("nn.functional.multilabel_margin_loss", "index 5 is out of bounds", real(3), at(0, 5, 1)),
    Refusal("nn.functional.multilabel_margin_loss", "index -2 is out of bounds", real(3), at(0, -2, 1)),
    Refusal("nn.functional.multilabel_margin_loss", "expected integers for labels", real(3), real(3)),
    Refusal("nn.functional.multilabel_soft_margin_loss", "needs a dimension of classes", real(), real()),
    Refusal("nn.functional.gaussian_nll_loss", "var has negative entry", X, X, X),
    Refusal("nn.functional.gaussian_nll_loss", "var has negative entry", X, X, -1.0),
    Refusal("nn.functional.gaussian_nll_loss", "var is of incorrect size", X, X, real(3) ** 2),
    Refusal("nn.functional.gaussian_nll_loss", "a value of type 'Tensor'", X, X, 1),
    Refusal("nn.functional.gaussian_nll_loss", "the sizes of the operands must match", X, real(4), X**2),
]
