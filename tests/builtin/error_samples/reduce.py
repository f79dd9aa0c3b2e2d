"""Calls that torch refuses: bad inputs of reductions, scans and orders."""

from __future__ import annotations

import numpy as np

from .refusals import Refusal, X, at, each, mask, real

OVER_DIMS = "sum mean amax logsumexp var std all any nansum count_nonzero amin nanmean"
OVER_ONE_DIM = "prod cumsum cumprod logcumsumexp cummax cummin sort argsort median mode"
DIMS_OPTIONAL = "sum mean var std all any nansum count_nonzero nanmean"
DIMS_REQUIRED = "amax logsumexp amin"

REDUCE = [
    *each(f"{OVER_DIMS} {OVER_ONE_DIM} max min argmax argmin softmax", "dimension out of range", X, 2),
    *each(OVER_DIMS, "dimension out of range", X, -3),
    *each(OVER_DIMS, "a dim appears multiple times in the list of dims", X, [0, 0]),
    *each(DIMS_OPTIONAL, "expected a value of type 'int[1]?'", X, "x"),
    *each(DIMS_OPTIONAL, "expected a value of type 'int[1]?'", X, 0.5),
    *each(DIMS_OPTIONAL, "expected a value of type 'int[1]?'", X, [0, 0.5]),
    *each(DIMS_REQUIRED, "expected a value of type 'int[1]'", X, "x"),
    *each(DIMS_REQUIRED, "expected a value of type 'int[1]'", X, 0.5),
    *each(DIMS_REQUIRED, "expected a value of type 'int[1]'", X, [0, 0.5]),
    *each(f"{OVER_ONE_DIM} softmax", "expected a value of type 'int'", X, 0.5),
    *each(OVER_ONE_DIM, "expected a value of type 'int'", X, "x"),
    *each("max min", "Expected a value of type 'Tensor'", X, 0.5),
    *each("max min", "expected a value of type 'Tensor'", X, "x"),
    *each("argmax argmin", "expected a value of type 'int?'", X, 0.5),
    *each("argmax argmin", "expected a value of type 'int?'", X, "x"),
    Refusal("kthvalue", "dimension out of range", X, 1, 5),
    Refusal("diff", "dimension out of range", X, 1, 2),
    Refusal("diff", "n not to be negative", X, -1),
    *each("trapezoid cumulative_trapezoid", "dimension out of range", X, dim=2),
    *each("max prod median", "argument 'keepdim' goes with a dim", X, keepdim=True),
    Refusal("sum", "expected a value of type 'ScalarType?'", X, 0, dtype="float"),
    Refusal("sum", "expected a value of type 'ScalarType?'", X, dtype=3),
    Refusal("max", "argument 'keepdim' goes with a dim", X, X, 0),
    *each("max dist", "the sizes of the operands must match, or be", X, real(4)),
    *each("mean var linalg.vector_norm norm", "not implemented for int", at(0, 1, 2)),
    Refusal("mean", "not implemented for int", X, dtype=np.dtype("int64")),
    Refusal("std", "expected a value of type 'Scalar?'", X, correction="a"),
    Refusal("var", "only one of unbiased and correction can be given", X, 0, unbiased=True, correction=1),
    *each(
        "max min amax amin aminmax argmax argmin",
        "expected reduction dim to be specified for a tensor",
        real(0),
    ),
    *each("max amax argmax median mode", "expected reduction dim", real(2, 0), 1),
    Refusal("kthvalue", "expected reduction dim", real(2, 0), 1, 1),
    *each("argmax max sort", "not implemented for complex", real(2, dtype="complex64")),
    Refusal("argmax", "not implemented for bool", mask(2)),
    Refusal("topk", "selected index k out of range", X, 4),
    Refusal("topk", "selected index k out of range", X, -1),
    Refusal("topk", "expected a value of type 'int'", X, 1.5),
    Refusal("topk", "dimension out of range", X, 1, 3),
    Refusal("kthvalue", "selected number k out of range for dimension", X, 0),
    Refusal("kthvalue", "selected number k out of range for dimension", X, 4),
    Refusal("kthvalue", "expected a value of type 'int'", X, 1.0),
    Refusal("linalg.vector_norm", "expected a value of type 'Scalar'", X, "a"),
    Refusal("linalg.vector_norm", "cannot compute the inf norm on an empty dimension,", real(0), np.inf),
    Refusal("linalg.vector_norm", "dimension out of range", X, 2, 5),
    Refusal("norm", "this order is not supported", X, "abc"),
    Refusal("cumsum", "expected a value of type 'ScalarType?'", X, 0, dtype="a"),
    Refusal("sum", "expected a value of type 'Tensor'", None),
    Refusal("sum", "expected a value of type 'Tensor'", [1.0]),
    Refusal("aminmax", "dimension out of range", X, dim=4),
    Refusal("aminmax", "expected a value of type 'int?'", X, dim=[0, 1]),
    Refusal("softmax", "not implemented for int", at(0, 1, 2), 0),
    Refusal("log_softmax", "dimension out of range", X, -4),
    Refusal("softmax", "expected a value of type 'int'", X, "a"),
    Refusal("softmax", "not implemented for int", X, 0, dtype=np.dtype("int64")),
]
