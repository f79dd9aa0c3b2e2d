"""How the values of Tensors are printed. As in torch, the options belong to the process."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from oplib.errors import ArgumentTypeError, ArgumentValueError, describe
from oplib.frozen import frozen


@frozen
class PrintOptions:
    """The settings of ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


class _Printing:
    options: PrintOptions = _PROFILES["default"]


printing = _Printing()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how Tensors are printed, for all threads.

    An option that is not given keeps its value, except ``sci_mode``.

    Args:
        precision: the number of digits after the point; 4 at first.
        threshold: the number of items from which a tensor shows only its edges; 1000 at first.
        edgeitems: the number of items at each edge; 3 at first.
        linewidth: the number of characters of a line; 80 at first.
        profile: sets the four above: "default"; "short", with 2 digits and 2 edge items; or "full", without
            a threshold. The others are set afterwards.
        sci_mode: whether floats have an exponent. None, the default, lets the values decide.

    Raises:
        ArgumentTypeError: an option has another type.
        ArgumentValueError: an option is negative, or there is no such profile.

    Source:
        torch.set_printoptions

    Example:
        >>> import oplib
        >>> set_printoptions(precision=2)
        >>> oplib.tensor([1.12345])
        tensor([1.12])
        >>> set_printoptions(profile="default")
    """
    counts = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    numbers = {name: value for name, value in counts.items() if value is not None}
    for name, value in numbers.items():
        _check_count(name, value)
    if not (sci_mode is None or isinstance(sci_mode, bool)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(  # callers without types
            f"set_printoptions: sci_mode is a bool or None. Got {describe(sci_mode)}. Leave it out."
        )
    if profile is not None and profile not in _PROFILES:
        raise ArgumentValueError(
            f"set_printoptions: there is no such profile. Got {profile!r}. Choose 'default', 'short' "
            "or 'full'."
        )
    start = printing.options if profile is None else _PROFILES[profile]
    printing.options = replace(start, sci_mode=sci_mode, **numbers)


def _check_count(name: str, value: Any) -> None:
    is_number = isinstance(value, (int, float) if name == "threshold" else int)
    if not is_number or isinstance(value, bool):
        raise ArgumentTypeError(
            f"set_printoptions: {name} is an integer. Got {describe(value)}. Pass 0 or more."
        )
    if not value >= 0:
        raise ArgumentValueError(
            f"set_printoptions: {name} must not be negative. Got {value}. Give 0 or more."
        )
