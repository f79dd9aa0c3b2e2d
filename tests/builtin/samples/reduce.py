"""Samples of the reductions, scans and sorts whose schema does not determine them."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, X, draw, draw_mask, shift

CUBE = draw(2, 3, 4)
WITH_NAN = np.where(draw_mask(2, 3), X, np.nan)
HALF_NAN = np.array([[np.nan, 1.0, 3.0], [2.0, -1.0, np.nan]])
WITH_ZERO = np.where(draw_mask(2, 3), X, 0.0)
TIED = np.array([[1.0, 3.0, 1.0, 2.0], [2.0, 2.0, 0.5, 0.5]])


def along(*extra: object) -> list[Sample]:
    """Returns calls with a dim, and with ``keepdim``."""
    return [
        Sample((X, *extra, 0)),
        Sample((X, *extra, -1, True)),
        Sample((CUBE, *extra, 1)),
        Sample((draw(), *extra, 0)),
    ]


def over_some() -> list[Sample]:
    """Returns calls without a dim, with one, and with several."""
    return [
        Sample((X,)),
        Sample((X, 0)),
        Sample((X, [-1], True)),
        Sample((CUBE, [0, 2])),
        Sample((draw(),)),
    ]


def moments() -> list[Sample]:
    return [
        Sample((X,)),
        Sample((X, 0), {"correction": 0}),
        Sample((CUBE, [0, -1]), {"keepdim": True}),
    ]


def areas() -> list[Sample]:
    """Returns heights, with distances and with positions."""
    return [
        Sample((X,)),
        Sample((CUBE,), {"dx": 0.5, "dim": 1}),
        Sample((X, draw(3))),
        Sample((X, draw(2, 3)), {"dim": 0}),
    ]


def running() -> list[Sample]:
    return [Sample((X, 0)), Sample((CUBE, -2)), Sample((draw(), 0))]


REDUCE: dict[str, list[Sample]] = {
    "nansum": [Sample((WITH_NAN,)), Sample((WITH_NAN, 0, True)), Sample((np.array([1, 2], np.int32),))],
    "nanmean": [Sample((WITH_NAN,)), Sample((WITH_NAN, 1))],
    "prod": [Sample((X,)), Sample((WITH_ZERO,)), Sample((draw(),))],
    "prod.dim_int": [Sample((X, 1)), Sample((WITH_ZERO, -1, True)), Sample((CUBE, 0))],
    "count_nonzero": [Sample((WITH_ZERO,)), Sample((WITH_ZERO, 1))],
    "logsumexp": [Sample((X, [0])), Sample((X, [0, 1], True)), Sample((CUBE, [-1]))],
    **{name: [Sample((draw(*shape),)) for shape in [(), (3,), (2, 3)]] for name in ("max", "min")},
    **{f"{name}.dim": along() for name in ("max", "min", "median")},
    **{name: over_some() for name in ("amax", "amin")},
    **{name: [Sample((X,)), *along()] for name in ("argmax", "argmin")},
    "aminmax": [Sample((X,)), Sample((CUBE,), {"dim": 1, "keepdim": True})],
    **{
        name: [Sample((draw_mask(2, 3),)), Sample((WITH_ZERO, 0)), Sample((draw_mask(2, 3), [0, 1], True))]
        for name in ("all", "any")
    },
    **{name: moments() for name in ("var", "std", "var_mean", "std_mean")},
    "linalg_vector_norm": [
        Sample((X,)),
        Sample((X, 1, 0)),
        Sample((X, 3.5, [-1], True)),
        Sample((X, np.inf)),
        Sample((CUBE, 0.5, [0, 2])),
        Sample((X, 0)),
    ],
    "renorm": [Sample((X, 2, 0, 1.0)), Sample((CUBE, 1, 1, 4.0)), Sample((X, 2.5, -1, 100.0))],
    "dist": [Sample((X, draw(3))), Sample((X, draw(2, 1) + 0.1, 1))],
    **{name: running() for name in ("cumsum", "logcumsumexp", "cummax", "cummin")},
    "diff": [Sample((X,)), Sample((CUBE, 2, 1)), Sample((X, 1, 0, draw(1, 3), draw(2, 3)))],
    **{name: areas() for name in ("trapezoid", "cumulative_trapezoid")},
    "cumprod": [Sample((X, 0)), Sample((WITH_ZERO, 1)), Sample((draw(), 0))],
    "sort": [Sample((X,)), Sample((CUBE,), {"dim": 1, "descending": True})],
    "argsort": [Sample((X,)), Sample((TIED, 0, True)), Sample((TIED,), {"stable": True})],
    "msort": [Sample((X,)), Sample((draw(4),))],
    "topk": [Sample((X, 2)), Sample((CUBE, 1, 0, False)), Sample((draw(5, **POSITIVE), 5))],
    "slopes.Scalar": [Sample((X, -1.5, 1, 1)), Sample((CUBE, 0.5, 2, 2))],
    "slopes.Tensor": [
        Sample((X, np.array([0.0, 1.0, 1.5]), 1, 2)),
        Sample((CUBE, np.array([0.0, 1.0, 1.5, 4.0]), 2, 1)),
    ],
    "quantiles.Scalar": [
        Sample((draw(5), 0.3, None, False), {"interpolation": "linear", "skips_nan": False}),
        Sample((X, 0.6, 1, True), {"interpolation": "midpoint", "skips_nan": True}),
    ],
    "quantiles.Tensor": [
        Sample((draw(5), np.array([0.3, 0.8]), 0, False), {"interpolation": "linear", "skips_nan": True}),
        Sample((CUBE, np.array(0.45), 0, True), {"interpolation": "linear", "skips_nan": False}),
    ],
    "kthvalue": [Sample((X, 2)), Sample((X, 1, 0, True))],
    "median": [Sample((X,)), Sample((draw(5),)), Sample((draw(),))],
    "nanmedian": [Sample((WITH_NAN,)), Sample((draw(5),))],
    "nanmedian.dim": [Sample((HALF_NAN, 0)), Sample((HALF_NAN, 1, True)), Sample((draw(), 0))],
    "cov": [
        Sample((X,)),
        Sample((X,), {"aweights": draw(3, **POSITIVE), "fweights": np.array([1, 2, 1], np.int32)}),
        Sample((draw(4),), {"correction": 0}),
    ],
    "corrcoef": [Sample((draw(2, 4),)), Sample((draw(4),))],
    "histogram.bin_ct": [
        Sample((X, 4)),
        Sample((CUBE, 3), {"range": [-1.0, 1.5], "weight": shift(CUBE), "density": True}),
    ],
    "histogram_grid": [
        Sample((draw(5, 2), [np.array([-1.5, -0.3, 0.4, 1.2]), np.array([-2.0, 0.0, 2.0])])),
        Sample(
            (draw(3, 2, 1), [np.array([-1.0, 0.1, 1.0])], draw(3, 2, low=0.1, high=2.0)), {"density": True}
        ),
    ],
    "histogram.bins_tensor": [Sample((X, np.array([-1.5, -0.3, 0.4, 1.2])))],
    "histc": [Sample((X, 4)), Sample((CUBE, 3, -1.0, 1.5))],
    "mode": [Sample((TIED,)), Sample((TIED, 0, True))],
}
