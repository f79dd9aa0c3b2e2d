"""Calls that torch refuses: bad inputs of grids, bags, alignment, pooling by norms and unpooling."""

from __future__ import annotations

from .refusals import Refusal, X, at, real

IMAGE, GRID = real(1, 2, 3, 4), real(1, 2, 3, 2)
TABLE = real(4, 2)
_F = "nn.functional."
CHANCES = -(real(5, 2, 4) ** 2)

SAMPLING = [
    Refusal(f"{_F}grid_sample", "expected mode to be", IMAGE, GRID, "cubic", align_corners=False),
    Refusal(
        f"{_F}grid_sample", "padding_mode 'zeros'", IMAGE, GRID, padding_mode="same", align_corners=False
    ),
    Refusal(f"{_F}grid_sample", "the same batch", IMAGE, real(2, 2, 3, 2), align_corners=False),
    Refusal(
        f"{_F}grid_sample", "one coordinate per spatial axis", IMAGE, real(1, 2, 3, 3), align_corners=False
    ),
    Refusal(f"{_F}grid_sample", "expected a 4D or 5D input", X, GRID, align_corners=False),
    Refusal(
        f"{_F}grid_sample",
        "expected all operands to have the same dtype",
        IMAGE,
        real(1, 2, 3, 2, dtype="float64"),
        align_corners=False,
    ),
    Refusal(
        f"{_F}grid_sample",
        "only supports 4D input",
        real(1, 1, 2, 2, 2),
        real(1, 1, 1, 1, 3),
        "bicubic",
        align_corners=False,
    ),
    Refusal(f"{_F}affine_grid", "only 4D and 5D sizes", real(1, 2, 3), (1, 2, 3), align_corners=False),
    Refusal(f"{_F}affine_grid", "a batch of affine matrices", real(2, 3), (1, 1, 2, 2), align_corners=False),
    Refusal(f"{_F}affine_grid", "positive output size", real(1, 2, 3), (1, 1, 0, 2), align_corners=False),
    Refusal(
        f"{_F}affine_grid", "one matrix for each example", real(1, 2, 3), (2, 1, 2, 2), align_corners=False
    ),
    Refusal(f"{_F}embedding_bag", "offsets, a vector, go with", at(0, 1), TABLE),
    Refusal(f"{_F}embedding_bag", "offsets, a vector, go with", at([0, 1]), TABLE, at(0)),
    Refusal(f"{_F}embedding_bag", "mode has to be one of", at([0, 1]), TABLE, mode="min"),
    Refusal(f"{_F}embedding_bag", "weight has to be a matrix", at([0, 1]), real(4)),
    Refusal(f"{_F}embedding_bag", "weight has to be a matrix", at([[0, 1]]), TABLE),
    Refusal(f"{_F}embedding_bag", "offsets[0] has to be 0", at(0, 1), TABLE, at(1)),
    Refusal(f"{_F}embedding_bag", "index 4 is out of bounds", at([0, 4]), TABLE),
    Refusal(f"{_F}embedding_bag", "must be within the number", at([0, 1]), TABLE, padding_idx=4),
    Refusal(
        f"{_F}embedding_bag",
        "the same shape as the input",
        at([0, 1]),
        TABLE,
        mode="sum",
        per_sample_weights=real(2),
    ),
    Refusal(
        f"{_F}embedding_bag",
        "only supported for mode='sum'",
        at([0, 1]),
        TABLE,
        per_sample_weights=real(1, 2),
    ),
    Refusal(f"{_F}ctc_loss", "blank must be in label range", CHANCES, at([1], [2]), (5, 5), (1, 1), 4),
    Refusal(f"{_F}ctc_loss", "to have value at most 5", CHANCES, at([1], [2]), (6, 5), (1, 1)),
    Refusal(f"{_F}ctc_loss", "at most the number of labels", CHANCES, at([1], [2]), (5, 5), (1, 2)),
    Refusal(f"{_F}ctc_loss", "lengths of 2 sequences", CHANCES, at([1], [2]), (5,), (1, 1)),
    Refusal(f"{_F}ctc_loss", "expected log-probabilities", real(5), at(1), (5,), (1,)),
    Refusal(f"{_F}local_response_norm", "expected 3D or higher", X, 2),
    Refusal(f"{_F}pdist", "only supports 2D tensors", real(3)),
    Refusal(f"{_F}lp_pool1d", "there is no window", real(1, 1, 3), 2.0, 4),
    Refusal(f"{_F}lp_pool2d", "expected 3D or 4D input", real(1, 1, 1, 2, 2), 2.0, 2),
    Refusal(f"{_F}max_unpool1d", "invalid output_size", real(1, 1, 2), at([[0, 3]]), 2, output_size=(9,)),
    Refusal(f"{_F}max_unpool1d", "is out of bounds", real(1, 1, 2), at([[0, 9]]), 2),
    Refusal(f"{_F}max_unpool2d", "and indices of the same shape", real(1, 1, 2, 2), at([[0, 3]]), 2),
    Refusal(f"{_F}gumbel_softmax", "dimension out of range", X, dim=2),
    Refusal(f"{_F}channel_shuffle", "divisible by groups", real(1, 4, 2), 3),
    Refusal(f"{_F}channel_shuffle", "groups must be positive", real(1, 4, 2), 0),
    Refusal(f"{_F}channel_shuffle", "at least 3 dimensions", X, 2),
]
