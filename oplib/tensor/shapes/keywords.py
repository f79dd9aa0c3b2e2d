"""Arguments that functions take one by one, in a sequence, or by keyword: sizes, dims and bounds."""

from __future__ import annotations

from typing import Any

from oplib.errors import ArgumentTypeError, describe


def take_named(op: str, name: str, named: Any, given: tuple[Any, ...]) -> Any:
    """Returns the numbers that a function was given by keyword, where it takes them one by one too.

    Args:
        op: the function asked, for the message.
        name: the keyword.
        named: what it was given, not None.
        given: the positional arguments, of which there may be none beside it.

    Raises:
        ArgumentTypeError: there are, or what the keyword was given is no sequence.
    """
    if given:
        raise ArgumentTypeError(
            f"{op}: argument '{name}' is given once, by position or by keyword. Got {describe(given)} and "
            f"{name}={describe(named)}. Leave one out."
        )
    if not isinstance(named, (tuple, list)):
        raise ArgumentTypeError(
            f"{op}: argument '{name}', by keyword, is a tuple or a list. Got {name}={describe(named)}. Write "
            f"{name}=(...)."
        )
    return named


def read_bounds(op: str, given: tuple[Any, ...], **named: Any) -> tuple[Any, ...]:
    """Returns the arguments of a function whose first one, ``low``, may be left out.

    Args:
        op: the function asked, for the message.
        given: its positional arguments.
        **named: those by keyword, in the order of their positions, ``low`` first; None for those not given.

    Returns:
        As many as there are names, with 0 for a ``low`` that was left out.

    Raises:
        ArgumentTypeError: there are too many or too few, or one is given twice.
    """
    names = tuple(named)
    found = {name: value for name, value in named.items() if value is not None}
    count = len(given) + len(found)
    taken = names if count == len(names) else names[1:]
    if count != len(taken) or not found.keys() <= set(taken[len(given) :]):
        parts = [*map(describe, given), *(f"{name}={describe(value)}" for name, value in found.items())]
        raise ArgumentTypeError(
            f"{op}: the arguments are {', '.join(names[1:])} or {', '.join(names)}, each given once. Got "
            f"{', '.join(parts) or 'none'}. Give {names[-1]} last, or by keyword."
        )
    values = {**dict(zip(taken, given, strict=False)), **found}
    return tuple(values.get(name, 0) for name in names)
