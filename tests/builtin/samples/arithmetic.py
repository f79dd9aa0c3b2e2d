"""Samples of further arithmetic, and of shrinkage, thresholds and gates."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, X, binary, draw, with_number

WHOLE = np.array([[12, 18, 5], [0, 7, 9]], np.int32)
OTHERS = np.array([[8, 27, 15], [4, 7, 0]], np.int32)

ARITHMETIC: dict[str, list[Sample]] = {
    "xlogy.Tensor": binary(**POSITIVE),
    "xlogy.Scalar": with_number(),
    "xlogy.Scalar_Tensor": [Sample((1.7, draw(2, 3, **POSITIVE)))],
    **{name: [Sample((WHOLE, OTHERS)), Sample((WHOLE, OTHERS[0]))] for name in ("gcd", "lcm")},
    "threshold": [Sample((X, 0.1, 20.0)), Sample((draw(), 0.5, -1.0))],
    **{name: [Sample((X,)), Sample((X, 0.3))] for name in ("hardshrink", "softshrink")},
    "hardsigmoid": [Sample((X * 3,)), Sample((draw(),))],
    **{name: [Sample((X,)), Sample((draw(),)), Sample((draw(2, 0),))] for name in ("softsign", "tanhshrink")},
    "glu": [Sample((draw(2, 4),)), Sample((draw(2, 4), 0)), Sample((draw(2, 3, 4), -1))],
    "prelu": [Sample((X, draw(1))), Sample((draw(2, 3, 4), draw(3))), Sample((draw(4), draw()))],
}
