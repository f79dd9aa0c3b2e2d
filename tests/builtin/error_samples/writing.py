"""Calls that torch refuses: bad inputs of writing in place and into out=, and of creation."""

from __future__ import annotations

from .refusals import Refusal, X, at, each, mask, real

WRITING = [
    Refusal("add", "result type Float can", X, X, out=at([0, 1, 2], [3, 4, 5])),
    Refusal("exp", "argument 'out' is written, and only a Tensor can be", X, out=[1.0]),
    Refusal("exp", "argument 'out' is written, and only a Tensor can be", X, out=1.0),
    Refusal("add", "result type Float can", X, X, out=mask(2, 3)),
    Refusal("max", "argument 'out' has one tensor for each result", X, 0, out=real(3)),
    Refusal("exp", "result type Float can", at(0, 1, 2), out=at(0, 1, 2)),
    Refusal("Tensor.add_", "output with shape", X, real(2, 2, 3)),
    Refusal("Tensor.add_", "result type Float can", at(0, 1, 2), real(3)),
    Refusal("Tensor.exp_", "result type Float can", at(0, 1, 2)),
    Refusal("Tensor.mul_", "output with shape", real(3), X),
    Refusal("Tensor.div_", "result type Float can", at(0, 1, 2), 2),
    Refusal("Tensor.copy_", "the value does not broadcast to the shape it is", real(3), X),
    Refusal("Tensor.fill_", "only supports 0-dimension value tensor", X, real(2)),
    Refusal("Tensor.clamp_", "at least one of", X),
    Refusal("Tensor.masked_fill_", "the sizes of the operands must match, or be", X, mask(4), 0.0),
    Refusal("Tensor.pow_", "result type Float can", at(0, 1, 2), 0.5),
    Refusal("Tensor.scatter_", "index 9 is out of bounds for a dimension of size 3", X, 1, at([9]), 1.0),
    Refusal("Tensor.copy_", "expected a value of type 'Tensor'", real(3), None),
    *each("zeros ones empty", "no dimension has a negative length", (-1,)),
    *each("zeros ones empty", "argument 'size' is made of integers", "a"),
    *each("zeros ones empty", "argument 'size' is made of integers", (2.5,)),
    Refusal("full", "this operand has no dtype", (2,), "a"),
    Refusal("full", "no dimension has a negative length", (-2,), 1.0),
    Refusal("arange", "argument 'step' leads from start to end", 0, 5, -1),
    Refusal("arange", "argument 'step' leads from start to end", 0, 5, 0),
    Refusal("linspace", "no dimension has a negative length", 0, 1, -1),
    Refusal("linspace", "argument 'size' is made of integers", 0, 1, 2.5),
    Refusal("eye", "no dimension has a negative length", -1),
    Refusal("eye", "argument 'size' is made of integers", 2.5),
    Refusal("tensor", "the data is not made of numbers that fit a dtype", "a"),
    Refusal("tensor", "nested sequences must have equal lengths at each", [[1.0], [1.0, 2.0]]),
    Refusal("full_like", "the data is not made of numbers that fit a dtype", X, "a"),
]
