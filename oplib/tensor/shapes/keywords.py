"""Arguments that can be given one by one, as a sequence, or by keyword: sizes, dims and bounds."""

from __future__ import annotations

from typing import Any

from oplib.errors import ArgumentTypeError, describe
from oplib.protocols import Values


def take_named(op: str, name: str, named: Any, args: Values) -> Any:
    """Returns numbers given by keyword to a function that also accepts them one by one.

    Raises:
        ArgumentTypeError: there are positional arguments too, or the value of the keyword is not a sequence.
    """
    if args:
        raise ArgumentTypeError(
            f"{op}: argument '{name}' is given once, by position or by keyword. Got {describe(args)} and "
            f"{name}={describe(named)}. Leave one out."
        )
    if not isinstance(named, (tuple, list)):
        raise ArgumentTypeError(
            f"{op}: argument '{name}', by keyword, is a tuple or a list. Got {name}={describe(named)}. Write "
            f"{name}=(...)."
        )
    return named


def read_bounds(op: str, args: Values, **named: Any) -> Values:
    """Returns the arguments of a function whose first one, ``low``, may be omitted.

    Args:
        op: the name of the called function, for errors.
        args: its positional arguments.
        **named: the keyword arguments in the order of their positions, ``low`` first; None if not given.

    Returns:
        One value for each name, with 0 for an omitted ``low``.

    Raises:
        ArgumentTypeError: there are too many or too few arguments, or one is given twice.
    """
    names = tuple(named)
    by_name = {name: value for name, value in named.items() if value is not None}
    count = len(args) + len(by_name)
    taken = names if count == len(names) else names[1:]
    if count != len(taken) or not by_name.keys() <= set(taken[len(args) :]):
        parts = [*map(describe, args), *(f"{name}={describe(value)}" for name, value in by_name.items())]
        raise ArgumentTypeError(
            f"{op}: the arguments are {', '.join(names[1:])} or {', '.join(names)}, each given once. Got "
            f"{', '.join(parts) or 'none'}. Give {names[-1]} last, or by keyword."
        )
    values = {**dict(zip(taken, args, strict=False)), **by_name}
    return tuple(values.get(name, 0) for name in names)
