"""Calls that torch refuses: bad inputs of special functions."""

from __future__ import annotations

from .refusals import Refusal, X, at, each, mask, real

COMPLEX = real(2, dtype="complex64")

SPECIAL = [
    *each(
        "special.ndtr special.ndtri special.log_ndtr special.erfcx special.entr special.i1 special.i0e "
        "special.bessel_j0 special.bessel_y1 special.scaled_modified_bessel_k0 special.airy_ai",
        "not implemented for complex",
        COMPLEX,
    ),
    *each(
        "special.chebyshev_polynomial_t special.hermite_polynomial_h special.laguerre_polynomial_l",
        "the sizes of the operands must match",
        X,
        real(4),
    ),
    *each("special.ndtr special.erfcx", "expected a value of type 'Tensor'", [1.0]),
    *each("special.xlog1py special.zeta", "not implemented for complex", COMPLEX, COMPLEX),
    *each("special.xlog1py special.zeta igamma igammac", "the sizes of the operands must match", X, real(4)),
    *each("igamma special.gammaincc", "not implemented for int", at(1, 2), at(1, 2)),
    Refusal("igamma", "not implemented for bool", mask(2), mask(2)),
    Refusal("polygamma", "does not support negative n", -1, X),
    Refusal("Tensor.polygamma_", "does not support negative n", X, -1),
    *each("mvlgamma special.multigammaln", "p has to be greater than or equal to 1", X, 0),
]
