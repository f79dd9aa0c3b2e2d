"""The meaning of the parameters of built-in ops, as ``explanations.txt`` has them.

A line there is ``name name: meaning``, or ``name of op op: meaning`` for ops that need other words.
"""

from __future__ import annotations

from functools import cache
from pkgutil import get_data


@cache
def read_meanings() -> dict[tuple[str, str], str]:
    """Returns the meanings by op and parameter; the op is empty where a meaning fits all others."""
    meanings: dict[tuple[str, str], str] = {}
    text = (get_data(__name__, "explanations.txt") or b"").decode()
    for line in text.replace("\n  ", " ").splitlines():
        key, _, meaning = line.partition(": ")
        names, _, ops = key.partition(" of ")
        meanings |= {(op, name): meaning for name in names.split() for op in ops.split() or ("",)}
    return meanings


def explain_op(op: str, name: str) -> str:
    """Returns the meaning of a parameter of an op; empty if its type suffices or no text exists.

    Args:
        op: the op's name.
        name: the name of the parameter in the op's function.

    Example:
        >>> explain_op("topk", "k")
        'the number of items'
    """
    meanings = read_meanings()
    return meanings.get((op, name)) or meanings.get(("", name), "")
