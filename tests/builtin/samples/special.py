"""Samples of special functions."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, binary, draw, unary, with_number

WHOLE = np.array([[2, 3, 4], [5, 6, 2]], np.int32)  # by these there is no gradient, as torch has none
GROWN = {"low": 1.3, "high": 4.0}

CHEBYSHEV = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS = (
    *CHEBYSHEV,
    *(f"hermite_polynomial_{kind}" for kind in ("h", "he")),
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)

POSITIVE_ONLY = (  # they are nan below 0
    *(f"bessel_y{order}" for order in (0, 1)),
    *(f"{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in (0, 1)),
)
WIDE = np.array([[-30.5, -22.0, -3.2, -1.4], [0.3, 2.5, 3.3, 25.0]])  # torch keeps 8 digits from 4 to 15

SPECIAL: dict[str, list[Sample]] = {
    "special_ndtri": unary(low=0.05, high=0.95),
    "special_entr": unary(**POSITIVE),
    **{f"special_{name}": [*unary(), Sample((WIDE,))] for name in ("bessel_j0", "bessel_j1", "airy_ai")},
    **{f"special_{name}": [*unary(**POSITIVE), Sample((abs(WIDE),))] for name in POSITIVE_ONLY},
    "special_xlog1py.Tensor": binary(**POSITIVE)[:4],
    "special_xlog1py.Scalar": with_number(**POSITIVE),
    "special_xlog1py.Scalar_Tensor": [Sample((1.7, draw(2, 3, **POSITIVE))), Sample((2, draw()))],
    "special_zeta.Tensor": [Sample((WHOLE, draw(2, 3, **POSITIVE))), Sample((WHOLE[0], draw(2, 1, **GROWN)))],
    "special_zeta.Scalar": with_number(**GROWN),
    "special_zeta.Scalar_Tensor": [Sample((2.5, draw(2, 3, **POSITIVE))), Sample((3, draw(**POSITIVE)))],
    **{
        f"special_{name}.{kind}": samples
        for name in POLYNOMIALS
        for kind, samples in (
            ("Tensor", [Sample((draw(2, 3), WHOLE)), Sample((draw(2, 1), WHOLE[0]))]),
            ("Scalar", [Sample((draw(2, 3), 3)), Sample((draw(3), 0)), Sample((draw(), 5))]),
            ("Scalar_Tensor", [Sample((0.7, WHOLE + 0.0)), Sample((-1.2, WHOLE[0] + 0.0))]),
        )
    },
    "polygamma": [Sample((draw(2, 3, **POSITIVE), n)) for n in (0, 1, 3)],
    "mvlgamma": [Sample((draw(2, 3, **GROWN), 3)), Sample((draw(**GROWN), 1))],
    **{
        name: [Sample((WHOLE, draw(2, 3, **POSITIVE))), Sample((WHOLE[:1], draw(2, 1, **GROWN)))]
        for name in ("igamma", "igammac")
    },
}
