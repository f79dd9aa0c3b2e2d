"""``oplib._check`` and its kin: a condition that a program asserts, with the kind of error it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    DimensionError,
    UnsupportedArgumentError,
)


def _make_check(name: str, kind: type[ArgumentError]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        if not isinstance(cond, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise ArgumentTypeError(
                f"{name}: cond must be a bool. Got {type(cond).__name__}. Convert it: bool(cond)."
            )
        if cond:
            return
        if message is not None and not callable(message):
            raise ArgumentTypeError(
                f"{name}: message must be a callable. Got {type(message).__name__}. Write lambda: message."
            )
        raise kind(
            f"{name}: Expected cond to be True, but got False. Give a message for the reason."
            if message is None
            else str(message())
        )

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Raises {kind.__name__} unless a condition holds.

    Args:
        cond: a bool.
        message: makes the text of the error; it is called only then.

    Raises:
        {kind.__name__}: the condition is False.
        ArgumentTypeError: the condition is not a bool, or the message cannot be called.

    Source:
        torch.{name}
    """
    return check


_check = _make_check("_check", ArgumentError)
_check_index = _make_check("_check_index", DimensionError)
_check_not_implemented = _make_check("_check_not_implemented", UnsupportedArgumentError)
_check_type = _make_check("_check_type", ArgumentTypeError)
_check_value = _make_check("_check_value", ArgumentValueError)
