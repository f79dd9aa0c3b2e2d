"""Calls that torch refuses: bad inputs of pointwise ops."""

from __future__ import annotations

from .refusals import Refusal, X, at, each, functional, mask, real

POINTWISE = [
    *each(
        (
            "add sub mul div pow atan2 maximum eq lt logical_and fmod remainder floor_divide hypot "
            "copysign heaviside isclose"
        ),
        "the sizes of the operands must match, or be",
        X,
        real(4),
    ),
    *each("add mul maximum logical_and", "expected a value of type 'Tensor'", X, None),
    *each("add mul maximum logical_and", "expected a value of type 'Tensor'", X, [1.0, 2.0, 3.0]),
    *each("exp relu", "expected a value of type 'Tensor'", None),
    *each("exp relu", "expected a value of type 'Tensor'", [1.0, 2.0]),
    Refusal("exp", "expected a value of type 'Tensor'", "x"),
    Refusal("add", "expected a value of type 'Tensor'", X, "x"),
    *each("maximum atan2", "Expected a value of type 'Tensor'", X, 1.0),
    Refusal("logical_and", "Expected a value of type 'Tensor'", X, True),
    Refusal("add", "for integral input tensors, argument", at(0, 1), at(0, 1), alpha=0.5),
    Refusal("add", "expected a value of type 'Scalar'", X, X, alpha="x"),
    Refusal("sub", "not implemented for bool", mask(2), mask(2)),
    Refusal("sub", "not implemented for bool", mask(2), True),
    *each("neg abs", "not implemented for bool", mask(2)),
    Refusal("add", "for integral input tensors, argument", mask(2), mask(2), alpha=0.5),
    Refusal("bitwise_and", "not implemented for float", X, X),
    Refusal("bitwise_and", "not implemented for float", at(0, 1, 2), 1.5),
    Refusal("bitwise_not", "not implemented for float", X),
    Refusal("bitwise_left_shift", "not implemented for bool", mask(3), mask(3)),
    *each(
        "lt maximum", "not implemented for complex", real(2, dtype="complex64"), real(2, dtype="complex64")
    ),
    *each("floor erf", "not implemented for complex", real(2, dtype="complex64")),
    Refusal("clamp", "not implemented for complex", real(2, dtype="complex64"), 0, 1),
    Refusal("clamp", "at least one of", X),
    Refusal("clamp", "the bounds are two numbers or two tensors", X, 0.0, X),
    Refusal("clamp", "expected a value of type 'Tensor'", X, "a"),
    Refusal("clamp", "the sizes of the operands must match, or be", X, real(4), real(4)),
    Refusal("lerp", "expected both ends to have the same dtype", X, real(2, 3, dtype="float64"), 0.5),
    Refusal("lerp", "not implemented for integers", at(0, 1), at(0, 1), 0.5),
    Refusal("lerp", "the sizes of the operands must match, or be", X, real(4), 0.5),
    Refusal("addcmul", "the sizes of the operands must match, or be", X, real(4), X),
    Refusal("addcdiv", "not implemented for int", at(0, 1), at(0, 1), at(0, 1)),
    Refusal("addcdiv", "integer division is not supported", X, at(0, 1, 2), at(0, 1, 2)),
    Refusal("div", "expected rounding_mode to be one of None,", X, X, rounding_mode="round"),
    Refusal("div", "expected a value of type 'str'", X, X, rounding_mode=1),
    Refusal("pow", "integers to negative integer powers are not allowed", at(0, 1), -1),
    Refusal("where", "argument 'condition' is expected to be a boolean", X, X, X),
    Refusal("where", "the sizes of the operands must match, or be", mask(3), X, real(4)),
    Refusal("where", "expected a value of type 'Tensor'", mask(3), X, None),
    Refusal("round", "expected a value of type 'int'", X, decimals=0.5),
    Refusal("logit", "expected a value of type 'float?'", X, "a"),
    Refusal("nan_to_num", "expected a value of type 'float'", X, nan="a"),
    Refusal("nn.functional.gelu", "approximate must be either", X, approximate="exact"),
    Refusal("nn.functional.leaky_relu", "not implemented for int", at(0, 1, 2)),
    Refusal("nn.functional.hardtanh", "min_val cannot be greater than max_val", X, 2.0, 1.0),
    *each(functional("elu hardtanh"), "expected a value of type 'float'", X, "a"),
    Refusal("nn.functional.softplus", "not implemented for int", at(0, 1)),
    Refusal("complex", "expected both inputs to be float", X, real(2, 3, dtype="float64")),
    Refusal("complex", "not implemented for int", at(0, 1), at(0, 1)),
    Refusal("polar", "expected both inputs to be float", X, at([0, 1, 2], [3, 4, 5])),
    Refusal("view_as_complex", "it is only supported for float", real(3)),
    *each("view_as_real imag", "it is only supported for complex tensors", X),
    Refusal("heaviside", "expected all operands to have the same dtype", X, at(0, 1, 2)),
    Refusal("isclose", "the operands have different dtypes", X, at(0, 1, 2)),
    Refusal("isclose", "rtol and atol must be greater than or equal to zero", X, X, rtol=-1.0),
    Refusal("isclose", "rtol and atol must be greater than or equal to zero", X, X, atol=-1.0),
]
