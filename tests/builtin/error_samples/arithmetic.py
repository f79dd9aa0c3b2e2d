"""Calls that torch refuses: bad inputs of further pointwise ops."""

from __future__ import annotations

from .refusals import Refusal, X, at, each, functional, real

ARITHMETIC = [
    *each(
        "fmax fmin logaddexp logaddexp2 nextafter xlogy ldexp",
        "the sizes of the operands must match, or be",
        X,
        real(4),
    ),
    *each(
        "fmax fmin gcd lcm logaddexp logaddexp2 nextafter xlogy ldexp nn.functional.prelu",
        "expected a value of type 'Tensor'",
        X,
        None,
    ),
    *each("gcd lcm", "the sizes of the operands must match, or be", at([0, 1, 2], [3, 4, 5]), at(0, 1, 2, 3)),
    *each("gcd lcm", "not implemented for float", X, X),
    Refusal("fmax", "not implemented for complex", real(2, dtype="complex64"), real(2, dtype="complex64")),
    *each("signbit deg2rad isneginf", "not implemented for complex", real(2, dtype="complex64")),
    *each("logaddexp nextafter", "not implemented for int", at(0, 1, 2), at(0, 1, 2)),
    Refusal("nn.functional.glu", "halving dimension must be even, and the tensor have", real(3)),
    Refusal("nn.functional.glu", "dimension out of range", real(2, 4), 3),
    Refusal("nn.functional.hardshrink", "expected a value of type 'float'", X, "a"),
    Refusal("nn.functional.softshrink", "lambda must be greater or equal to", X, -1.0),
    *each(functional("hardsigmoid softshrink"), "not implemented for int", at(0, 1, 2)),
    Refusal("nn.functional.prelu", "the weight has one number, or one for each channel", X, real(2)),
    Refusal("nn.functional.threshold", "expected a value of type 'Scalar'", X, "a", 0.0),
    Refusal("nn.functional.glu", "halving dimension must be even, and the tensor have", real()),
]
