"""Windows by their number of items, under torch's names; all are made from one table.

Example:
    >>> import oplib
    >>> oplib.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from oplib.builtin.composed.signals.window_functions import (
    Fill,
    compute_window,
    fill_blackman,
    fill_hann,
    fill_kaiser,
    fill_triangle,
    fix_cosines,
    spread_numbers,
    sum_cosines,
)
from oplib.errors import ArgumentTypeError, ArgumentValueError, describe
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.factories.from_data import tensor
from oplib.torch_names import make_dir as _make_dir
from oplib.tracebacks import entry_point

_DOC = """Makes {what}.

Args:
    M: the number of items.{numbers}
    sym: True for a symmetric window, False for one period of a periodic window.
    dtype: float32 or float64; by default the default dtype.
    device: the device of the result.
    requires_grad: whether the result requires grad.

Returns:
    A vector, with 1 as the largest item of a window of one item.

Raises:
    ArgumentValueError: a negative count, a number out of its range, or another dtype.{errors}

Gradient:
    None: no argument is differentiable.

Source:
    torch.signal.windows.{name}

Example:
    >>> import oplib
    >>> oplib.signal.windows.{name}(1{given})
    tensor([1.])
"""


def _sum_cosines(positions: Any, span: float, a: Any) -> Any:
    if not isinstance(a, Iterable):
        raise ArgumentTypeError(
            f"signal.windows.general_cosine: coefficients must be a list or tuple. Got {describe(a)}. Give "
            "one number for each cosine."
        )
    factors = list(a)
    if not factors and positions.size > 1:
        raise _refuse("general_cosine", f"coefficients must have at least one element. Got {factors}")
    return sum_cosines(positions, span, factors)


def _fill_exponential(positions: Any, span: float, center: float | None, tau: float) -> Any:
    _require_positive("exponential", "tau", tau)
    is_symmetric = span == positions.size - 1
    if is_symmetric and center is not None:
        raise _refuse("exponential", f"center must be None for symmetric windows. Got {center}")
    return np.exp(-np.abs(positions - (span / 2 if center is None else center)) / tau)


def _fill_gaussian(positions: Any, span: float, std: float) -> Any:
    _require_positive("gaussian", "standard deviation", std)
    return np.exp(-(((positions - span / 2) / std) ** 2) / 2)


def _fill_kaiser(positions: Any, span: float, beta: float) -> Any:
    if beta < 0:
        raise _refuse("kaiser", f"beta must be non-negative. Got {beta}")
    return fill_kaiser(positions, span, beta)


def _require_positive(name: str, what: str, value: float) -> None:
    if value <= 0:
        raise _refuse(name, f"{what} must be positive. Got {value}")


def _refuse(name: str, why: str) -> ArgumentValueError:
    return ArgumentValueError(f"signal.windows.{name}: {why}. Give another.")


def _make_window(name: str, what: str, fill: Fill, **further: tuple[Any, str]) -> Callable[..., Tensor]:
    """Makes the function of a window.

    Args:
        name: the name of the function.
        what: the kind of window, for the docstring.
        fill: computes the items, as for :func:`compute_window`.
        **further: the default and the meaning of further arguments; those without a default are required.
    """

    def window(
        M: int,  # noqa: N803  torch's name
        *,
        numbers: Any,
        sym: bool = True,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        kind = get_default_dtype() if dtype is None else np.dtype(dtype)
        if M < 0 or kind not in (dtypes.float32, dtypes.float64):
            raise _refuse(name, f"expects a non-negative M, and float32 or float64. Got {M} and {kind}")
        items = compute_window(f"signal.windows.{name}", fill, M, sym, numbers)
        return tensor(items, dtype=kind, device=device, requires_grad=requires_grad)

    made = spread_numbers(window, further)
    made.__name__ = made.__qualname__ = name
    told = "".join(f"\n    {number}: {meaning}." for number, (_, meaning) in further.items())
    has_factors = "a" in further
    example = ", a=[1.0]" if has_factors else ""
    errors = "\n    ArgumentTypeError: the factors are no sequence." if has_factors else ""
    made.__doc__ = _DOC.format(what=what, name=name, numbers=told, given=example, errors=errors)
    return entry_point(made)


bartlett = _make_window("bartlett", "a triangle", fill_triangle)
blackman = _make_window("blackman", "a sum of two cosines", fill_blackman)
cosine = _make_window(
    "cosine",
    "half a period of a sine",
    lambda positions, span: np.sin(np.pi * (positions + 0.5) / (span + 1)),
)
exponential = _make_window(
    "exponential",
    "an exponential decay to both sides",
    _fill_exponential,
    center=(None, "the place of the largest item of a periodic window; by default the middle"),
    tau=(1.0, "the length of the decay"),
)
gaussian = _make_window(
    "gaussian", "a bell curve", _fill_gaussian, std=(1.0, "the standard deviation, in items")
)
general_cosine = _make_window(
    "general_cosine",
    "a sum of cosines",
    _sum_cosines,
    a=(inspect.Parameter.empty, "the factors of the cosines, alternately subtracted"),
)
general_hamming = _make_window(
    "general_hamming",
    "a raised cosine",
    lambda positions, span, alpha: sum_cosines(positions, span, (alpha, 1 - alpha)),
    alpha=(0.54, "the constant term"),
)
hamming = _make_window("hamming", "a raised cosine above 0", fix_cosines(0.54, 0.46))
hann = _make_window("hann", "a raised cosine", fill_hann)
kaiser = _make_window(
    "kaiser",
    "a window of Bessel functions",
    _fill_kaiser,
    beta=(12.0, "the shape; a larger one makes it narrower"),
)
nuttall = _make_window(
    "nuttall", "a sum of three cosines", fix_cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)
)

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
__dir__ = _make_dir(globals())
