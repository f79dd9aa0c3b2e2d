"""Calls that torch refuses: bad inputs of further pointwise ops."""

from __future__ import annotations

from .refusals import Refusal, X, at, real

ARITHMETIC = [
    *(
        Refusal(op, "the sizes of the operands must match, or be", X, real(4))
        for op in ["fmax", "fmin", "logaddexp", "logaddexp2", "nextafter", "xlogy", "ldexp"]
    ),
    *(
        Refusal(op, "expected a value of type 'Tensor'", X, None)
        for op in [
            "fmax",
            "fmin",
            "gcd",
            "lcm",
            "logaddexp",
            "logaddexp2",
            "nextafter",
            "xlogy",
            "ldexp",
            "nn.functional.prelu",
        ]
    ),
    *(
        Refusal(op, "the sizes of the operands must match, or be", at([0, 1, 2], [3, 4, 5]), at(0, 1, 2, 3))
        for op in ["gcd", "lcm"]
    ),
    *(Refusal(op, "not implemented for float", X, X) for op in ["gcd", "lcm"]),
    Refusal("fmax", "not implemented for complex", real(2, dtype="complex64"), real(2, dtype="complex64")),
    *(
        Refusal(op, "not implemented for complex", real(2, dtype="complex64"))
        for op in ["signbit", "deg2rad", "isneginf"]
    ),
    *(Refusal(op, "not implemented for int", at(0, 1, 2), at(0, 1, 2)) for op in ["logaddexp", "nextafter"]),
    Refusal("nn.functional.glu", "halving dimension must be even, and the tensor have", real(3)),
    Refusal("nn.functional.glu", "dimension out of range", real(2, 4), 3),
    Refusal("nn.functional.hardshrink", "expected a value of type 'float'", X, "a"),
    Refusal("nn.functional.softshrink", "lambda must be greater or equal to", X, -1.0),
    *(
        Refusal(f"nn.functional.{op}", "not implemented for int", at(0, 1, 2))
        for op in ["hardsigmoid", "softshrink"]
    ),
    Refusal("nn.functional.prelu", "the weight has one number, or one for each channel", X, real(2)),
    Refusal("nn.functional.threshold", "expected a value of type 'Scalar'", X, "a", 0.0),
    Refusal("nn.functional.glu", "halving dimension must be even, and the tensor have", real()),
]
