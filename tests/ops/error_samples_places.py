"""Calls that torch refuses: bad inputs of gathering and scattering."""

from __future__ import annotations

from .refusals import Refusal, X, at, mask, real

PLACES = [
    Refusal("gather", "dimension out of range", X, 2, at([0, 1, 0], [1, 0, 1])),
    Refusal("gather", "expected dtype int", X, 1, X),
    Refusal("gather", "index must have the same number of dimensions as", X, 1, at(0, 1)),
    Refusal("gather", "index must have the same number of dimensions as", X, 1, at([0], [1], [0])),
    Refusal("gather", "index 5 is out of bounds for a dimension of size 3", X, 1, at([0, 5])),
    Refusal("gather", "index -1 is out of bounds for a dimension of size 3", X, 1, at([-1, 0])),
    Refusal("gather", "expected dtype int", X, 1, mask(2, 3)),
    Refusal("gather", "expected a value of type 'Tensor'", X, 1, [[0, 1]]),
    Refusal("gather", "expected a value of type 'int'", X, 0.5, at([0, 1])),
    Refusal("gather", "expected dtype int", X, 1, at([0], dtype="int16")),
    Refusal("index_select", "index is supposed to be a vector", X, 0, at([0])),
    Refusal("index_select", "index 2 is out of bounds for a dimension of size 2", X, 0, at(2)),
    Refusal("index_select", "dimension out of range", X, 2, at(0)),
    Refusal("index_select", "expected dtype int", X, 0, real(2)),
    Refusal("index_select", "index -1 is out of bounds for a dimension of size 2", X, 0, at(-1)),
    Refusal("index_select", "expected a value of type 'Tensor'", X, 0, [0]),
    Refusal("index_select", "Expected a value of type 'Tensor'", X, 0, 1),
    Refusal("take", "index 6 is out of bounds for a dimension of size 6", X, at(6)),
    Refusal("take", "index -7 is out of bounds for a dimension of size 6", X, at(-7)),
    Refusal("take", "expected dtype int", X, real(1)),
    Refusal("take", "Expected a value of type 'Tensor'", X, 0),
    Refusal("take", "tried to take from an empty tensor", real(0), at(0)),
    Refusal("take_along_dim", "dimension out of range", X, at([0, 1, 2]), 5),
    Refusal("take_along_dim", "expected dtype int", X, X, 1),
    Refusal("take_along_dim", "input and indices should have the same number of", X, at(0, 1), 1),
    Refusal("take_along_dim", "input and indices should have the same number of", X, at([0], [0], [0]), 1),
    *(
        Refusal(op, "dimension out of range", X, 2, at([0, 1, 0], [1, 0, 1]), X)
        for op in ["scatter", "scatter_add"]
    ),
    *(
        Refusal(op, "index 3 is out of bounds for a dimension of size 3", X, 1, at([0, 3]), real(1, 2))
        for op in ["scatter", "scatter_add"]
    ),
    *(
        Refusal(op, "index must have the same number of dimensions as src,", X, 1, at([0, 1, 2]), real(1, 2))
        for op in ["scatter", "scatter_add"]
    ),
    *(
        Refusal(
            op, "expected self.dtype to be equal to src.dtype", X, 1, at([0, 1]), real(1, 2, dtype="float64")
        )
        for op in ["scatter", "scatter_add"]
    ),
    *(Refusal(op, "expected dtype int", X, 1, X, X) for op in ["scatter", "scatter_add"]),
    *(
        Refusal(op, "index must have the same number of dimensions as", X, 1, at(0, 1), real(2))
        for op in ["scatter", "scatter_add"]
    ),
    *(
        Refusal(op, "index -1 is out of bounds for a dimension of size 3", X, 1, at([-1, 1]), real(1, 2))
        for op in ["scatter", "scatter_add"]
    ),
    *(
        Refusal(op, "index must have the same number of dimensions as", X, 1, at([0], [0], [0]), real(3, 1))
        for op in ["scatter", "scatter_add"]
    ),
    Refusal("scatter", "expected a value of type 'Tensor'", X, 1, at([0]), "a"),
    Refusal("scatter", "reduce argument must be either add or multiply", X, 1, at([0]), X, reduce="mean"),
    Refusal("scatter", "expected a value of type 'Tensor'", X, 1, at([0]), None),
    Refusal("scatter_add", "Expected a value of type 'Tensor'", X, 1, at([0]), 1.0),
    Refusal(
        "scatter_reduce", "reduce argument must be either sum, prod, mean, amax", X, 1, at([0]), X, "avg"
    ),
    Refusal("scatter_reduce", "expected a value of type 'str'", X, 1, at([0]), X, 1),
    Refusal("index_add", "number of indices should be equal to source.size", X, 0, at(0), real(1, 4)),
    Refusal("index_add", "number of indices should be equal to source.size", X, 0, at(0, 1), real(1, 3)),
    Refusal("index_add", "index 2 is out of bounds for a dimension of size 2", X, 0, at(2), real(1, 3)),
    Refusal("index_add", "expected dtype int", X, 0, real(1), real(1, 3)),
    Refusal(
        "index_add", "expected self.dtype to be equal to src.dtype", X, 0, at(0), real(1, 3, dtype="float64")
    ),
    Refusal("index_add", "dimension out of range", X, 2, at(0), real(1, 3)),
    Refusal("index_add", "index is supposed to be a vector", X, 0, at([0]), real(1, 3)),
    Refusal("index_copy", "index 5 is out of bounds for a dimension of size 2", X, 0, at(5), real(1, 3)),
    Refusal("index_copy", "number of indices should be equal to source.size", X, 0, at(0), X),
    Refusal("index_copy", "number of indices should be equal to source.size", X, 0, at(0), real(3)),
    Refusal("index_fill", "index 3 is out of bounds for a dimension of size 2", X, 0, at(3), 1.0),
    Refusal("index_fill", "expected dtype int", X, 0, real(1), 1.0),
    Refusal("index_fill", "index has to be a vector, or without axes", X, 0, at([0]), 1.0),
    Refusal("index_fill", "expected a value of type 'Scalar'", X, 0, at(0), real(2)),
    Refusal("index_fill", "expected a value of type 'Scalar'", X, 0, at(0), "a"),
    Refusal("Tensor.put_", "index 9 is out of bounds for a dimension of size 6", X, at(9), real(1)),
    Refusal("Tensor.put_", "expected source and index to have the same number of", X, at(0), real(2)),
    Refusal("Tensor.put_", "expected dtype int", X, real(1), real(1)),
    Refusal("Tensor.put_", "expected self.dtype to be equal to src.dtype", X, at(0), at(0)),
    Refusal("masked_fill", "it only supports boolean masks", X, at([0, 1, 2], [3, 4, 5]), 0.0),
    Refusal("masked_fill", "the sizes of the operands must match, or be", X, mask(4), 0.0),
    Refusal("masked_fill", "only supports a", X, mask(2, 3), real(2)),
    Refusal("masked_fill", "expected a value of type 'Tensor'", X, mask(2, 3), "a"),
    Refusal("masked_fill", "a complex value cannot be stored in a tensor that is", X, mask(2, 3), 1j),
    Refusal("masked_select", "expected BoolTensor for mask", X, at([0, 1, 2], [3, 4, 5])),
    Refusal("masked_select", "the sizes of the operands must match, or be", X, mask(4)),
    Refusal("masked_select", "argument 'mask' is a Tensor", X, None),
    Refusal("masked_scatter", "expected a mask of bools", X, at([0, 1, 2], [3, 4, 5]), X),
    Refusal("masked_scatter", "the source has fewer items than the mask has places", X, mask(2, 3), real(1)),
    Refusal("masked_scatter", "the sizes of the operands must match, or be", X, mask(4), X),
    Refusal(
        "masked_scatter", "expected self.dtype to be equal to src.dtype", X, mask(2, 3), at(0, 1, 2, 3, 4, 5)
    ),
    Refusal("index_put", "index 5 is out of bounds for dimension 0 with size 2", X, (at(5),), real(3)),
    Refusal("index_put", "the value does not broadcast to the shape it is", X, (at(0),), real(4)),
    Refusal("index_put", "the values and the tensor must have the same dtype", X, (at(0),), at(0, 1, 2)),
    Refusal("index_put", "argument 'indices' is a tuple of tensors", X, at(0), real(3)),
    Refusal("index_put", "only integers, slices", X, (real(1),), real(3)),
    Refusal("index_put", "too many indices for tensor of dimension", X, (at(0), at(0), at(0)), real(1)),
    Refusal("searchsorted", "the sequences and the values must have the same axes", X, real(3, 2)),
    Refusal("searchsorted", "the boundaries must have an axis", real(), real(2)),
    Refusal("searchsorted", "side can only be", real(3), X, right=True, side="left"),
    Refusal("searchsorted", "side can only be", real(3), X, side="middle"),
    Refusal("bucketize", "the boundaries must have one dimension", X, real(2, 2)),
    Refusal("bucketize", "expected a value of type 'Tensor'", X, None),
    Refusal("nn.functional.one_hot", "class values must be non-negative", at(0, -1)),
    Refusal("nn.functional.one_hot", "class values must be smaller than num_classes", at(0, 5), 3),
    Refusal("nn.functional.one_hot", "class values must be non-negative", real(2)),
    Refusal("nn.functional.one_hot", "can not infer total number of classes from empty", at()),
    Refusal("nn.functional.embedding", "index out of range", at(4), real(4, 2)),
    Refusal("nn.functional.embedding", "index out of range", at(-1), real(4, 2)),
    Refusal("nn.functional.embedding", "index out of range", real(2), real(4, 2)),
    Refusal("nn.functional.embedding", "argument 'weight' is a Tensor", at(0), None),
    Refusal("nonzero", "it takes a Tensor", None),
    Refusal("unique", "dimension out of range", X, dim=3),
]
