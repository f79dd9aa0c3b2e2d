"""Calls that torch refuses: bad inputs of statistics, runs, scattered views and equations by factors."""

from __future__ import annotations

import numpy as np

from .refusals import Refusal, X, at, mask, real

EYE = np.eye(2, dtype=np.float32)

STATISTICS = [
    *(Refusal(op, "expected input to have two or fewer", real(2, 3, 4)) for op in ("cov", "corrcoef")),
    *(Refusal(op, "not implemented for bool", mask(2, 3)) for op in ("cov", "corrcoef")),
    Refusal("cov", "weights cannot be negative", X, fweights=at(1, -1, 2)),
    Refusal("cov", "weights cannot be negative, or sum to zero", X, fweights=at(0, 0, 0)),
    Refusal("cov", "one integral number for each observation", X, fweights=real(3) ** 2),
    Refusal("cov", "one floating point number for each", X, aweights=at(1, 2, 3)),
    Refusal("cov", "for each observation", X, aweights=real(2) ** 2),
    Refusal("histogram", "bins must be > 0", X, 0),
    Refusal("histogram", "min should not exceed max", X, 3, range=(1.0, 0.0)),
    Refusal("histogram", "not implemented for int", at(1, 2), 3),
    Refusal("histogram", "should have the shape and dtype of the input", X, 3, weight=real(3)),
    Refusal("histogram", "of the dtype of the input", X, at(0, 1)),
    Refusal("histc", "bins must be > 0", X, 0),
    Refusal("histc", "max must be larger than min", X, 3, 2, 1),
    Refusal("histc", "not implemented for int", at(1, 2)),
    Refusal("nanmedian", "not implemented for bool", mask(3)),
    Refusal("nanmedian", "dimension out of range", X, 2),
    Refusal("unique_consecutive", "dimension out of range", X, dim=2),
    Refusal("combinations", "expect a 1D vector", X),
    Refusal("combinations", "and a non-negative number", real(3), -1),
    Refusal("tril_indices", "row and col must be non-negative", -1, 2),
    Refusal("triu_indices", "indices are integers", 2, 2, dtype=np.dtype("float32")),
    Refusal("broadcast_shapes", "the sizes must match", (2,), (3,)),
    Refusal("broadcast_shapes", "a negative length", (-1,)),
    Refusal("select_scatter", "index 2 is out of range", X, real(3), 0, 2),
    Refusal("select_scatter", "a size equal to the slice of self", X, real(2), 0, 1),
    Refusal("select_scatter", "dimension out of range", X, real(3), 2, 0),
    Refusal("slice_scatter", "a size equal to the slice of self", X, real(2, 2)),
    Refusal("slice_scatter", "slice step must be positive", X, X, 0, 0, 2, 0),
    Refusal("diagonal_scatter", "a size equal to the slice of self", X, real(3)),
    Refusal("diagonal_scatter", "cannot be identical", X, real(2), 0, 1, -1),
    Refusal("index_reduce", "one of prod, mean, amax or amin", X, 1, at(0, 1), real(2, 2), "sum"),
    Refusal("index_reduce", "must be either sum, prod", X, 1, at(0, 1), real(2, 2), "max"),
    Refusal("index_reduce", "index 3 is out of bounds", X, 1, at(0, 3), real(2, 2), "amax"),
    Refusal("index_reduce", "number of indices should be equal", X, 1, at(0, 1), real(2, 3), "amax"),
    Refusal("index_reduce", "index is supposed to be a vector", X, 1, at([0, 1]), real(2, 2), "amax"),
    Refusal("index_reduce", "expected dtype int32 or int64", X, 1, real(2), real(2, 2), "amax"),
    Refusal("index_reduce", "expected self.dtype to be equal", X, 1, at(0, 1), at([0, 1], [2, 3]), "amax"),
    Refusal("cholesky_solve", "b should have at least 2 dimensions", real(2), EYE),
    Refusal("cholesky_solve", "as many rows as the factor", real(3, 1), EYE),
    Refusal("cholesky_solve", "and be square", real(2, 1), X),
    Refusal("cholesky_inverse", "and be square", X),
    Refusal("cholesky_inverse", "must have at least 2 dimensions", real(3)),
    Refusal("cholesky_inverse", "a diagonal element is zero", 0 * EYE),
    Refusal("linalg.tensorinv", "to have one product", real(2, 3, 4)),
    Refusal("linalg.tensorinv", "a strictly positive integer", EYE, 0),
    Refusal("linalg.tensorsolve", "the product of the first", EYE, X),
]
