"""Samples of the pointwise ops whose schema does not determine them."""

from __future__ import annotations

import numpy as np

from .drawing import NOT_ZERO, POSITIVE, Sample, X, binary, draw, draw_mask, shift, unary, with_number

INSIDE = {"low": -0.9, "high": 0.9}
ABOVE_ONE = {"low": 1.2, "high": 3.0}
INTEGERS = np.array([[1, -2, 5], [7, -3, 4]], np.int32)
SMALL = np.array([[1, 2, 1], [3, 2, 0]], np.int32)
BITWISE = ("and", "or", "xor", "left_shift", "right_shift")
BITWISE = ("and", "or", "xor", "left_shift", "right_shift")
COMPLEX = X + 1j * shift(X[::-1])


def integers() -> list[Sample]:
    """Returns pairs of integers and of bools."""
    return [
        Sample((INTEGERS, SMALL)),
        Sample((INTEGERS, SMALL[0])),
        Sample((draw_mask(2, 3), ~draw_mask(2, 3))),
    ]


def shifts() -> list[Sample]:
    return integers()[:2]


def with_integer() -> list[Sample]:
    return [Sample((INTEGERS, 3)), Sample((SMALL, 1))]


def of_integer() -> list[Sample]:
    return [Sample((3, SMALL)), Sample((1, SMALL))]


POINTWISE: dict[str, list[Sample]] = {
    **{name: unary(**POSITIVE) for name in ("log2", "log10", "log1p", "rsqrt", "lgamma", "digamma")},
    **{name: unary(**INSIDE) for name in ("asin", "acos", "atanh", "erfinv")},
    "reciprocal": unary(**NOT_ZERO),
    "acosh": unary(**ABOVE_ONE),
    "frexp": [*unary()[:3], Sample((np.array([5.1, -9.0, 0.3, 0.7]),))],
    "nextafter": binary(),
    "logit": [Sample((draw(2, 3, low=0.1, high=0.9),)), Sample((draw(3, low=-0.2, high=1.2), 0.1))],
    "round": [Sample((X,)), Sample((X,), {"decimals": 1}), Sample((X * 30,), {"decimals": -1})],
    "sgn": [*unary(), Sample((COMPLEX,))],
    "copysign.Tensor": binary(),
    "copysign.Scalar": with_number(-1.0),
    "heaviside": [Sample((X, draw(3))), Sample((X, draw()))],
    "atan2": binary(**NOT_ZERO),
    "hypot": binary(**NOT_ZERO),
    # Activations
    "leaky_relu": [Sample((X,)), Sample((X, 0.2))],
    "elu": [Sample((X,)), Sample((X, 1.5)), Sample((X, 1.5, 2.0, 0.5))],
    "celu": [Sample((X,)), Sample((X, 1.5))],
    "gelu": [Sample((X,)), Sample((X,), {"approximate": "tanh"})],
    "softplus": [Sample((X,)), Sample((X, 2.0, 1.0))],
    "hardtanh": [Sample((X,)), Sample((X, -0.5, 1.5))],
    # Bounds
    "maximum": binary(),
    "minimum": binary(),
    "clamp.Scalar": [Sample((X, -0.5, 1.0)), Sample((X, -1, 1)), Sample((X, 1.0, -1.0))],
    "clamp.Tensor": [
        Sample((X, draw(3) - 1.0, draw(2, 1) + 1.0)),
        Sample((X, draw(3), shift(draw(3)) - 0.5)),
    ],
    "clamp_min.Scalar": [Sample((X, -0.5)), Sample((X, 1))],
    "clamp_max.Scalar": [Sample((X, -0.5)), Sample((X, 1))],
    "clamp_min.Tensor": [Sample((X, shift(draw(3))))],
    "clamp_max.Tensor": [Sample((X, shift(draw(3))))],
    "div.Scalar_mode": [
        Sample((X, 0.7), {"rounding_mode": "floor"}),
        Sample((X, 0.7), {"rounding_mode": "trunc"}),
        Sample((INTEGERS, 3), {"rounding_mode": "floor"}),
    ],
    "div.Tensor_mode": [
        Sample((X, draw(3, **NOT_ZERO)), {"rounding_mode": "floor"}),
        Sample((X, draw(3, **NOT_ZERO)), {"rounding_mode": "trunc"}),
        Sample((INTEGERS, SMALL[0]), {"rounding_mode": "trunc"}),
    ],
    **{f"{name}.Scalar": with_number(0.7) for name in ("floor_divide", "remainder", "fmod")},
    **{
        f"{name}.Scalar_Tensor": [Sample((2.3, draw(2, 3))), Sample((2, draw(3) + 0.2))]
        for name in ("floor_divide", "remainder", "fmod")
    },
    **{f"{name}.Tensor": binary(**NOT_ZERO) for name in ("floor_divide", "remainder", "fmod")},
    "lerp.Scalar": [Sample((X, shift(draw(3)), 0.3)), Sample((X, draw(2, 1), 0.8))],
    "lerp.Tensor": [Sample((X, draw(3), draw(2, 1, low=0.1, high=0.9)))],
    "addcmul": [Sample((X, draw(3), draw(2, 1)), {"value": value}) for value in (0.5, 2)],
    "addcmul.unscaled": [Sample((X, draw(3), draw(2, 1)))],
    "addcdiv": [Sample((X, draw(3), draw(2, 1, **NOT_ZERO)), {"value": value}) for value in (0.5, 2)],
    "addcdiv.unscaled": [Sample((X, draw(3), draw(2, 1, **NOT_ZERO)))],
    "nan_to_num": [
        Sample((np.array([1.5, np.nan, np.inf, -np.inf]), 0.5, 9.0, -7.0)),
        Sample((np.array([np.nan, 2.0, -1.0]),)),
    ],
    # Logic
    **{f"logical_{name}": [*binary(), *integers()] for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Tensor": integers() for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Scalar": with_integer() for name in BITWISE},
    **{f"bitwise_{name}.Scalar_Tensor": of_integer() for name in BITWISE},
    **{f"bitwise_{name}.Tensor": shifts() for name in ("left_shift", "right_shift")},
    "bitwise_not": [Sample((INTEGERS,)), Sample((draw_mask(2, 3),))],
    "isclose": [
        Sample((X, X + 1e-6)),
        Sample((X, shift(X), 0.01, 0.001)),
        Sample((np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, 2.0])), {"equal_nan": True}),
        Sample((INTEGERS, INTEGERS)),
    ],
    # Complex numbers
    "conj": [*unary(), Sample((COMPLEX,))],
    "angle": [*unary(**NOT_ZERO), Sample((COMPLEX,))],
    "complex": [Sample((X, shift(X))), Sample((X, draw(3)))],
    "polar": [Sample((draw(2, 3, **POSITIVE), X)), Sample((draw(2, 3, **POSITIVE), draw(3)))],
}
