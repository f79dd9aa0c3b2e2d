"""Why a program is new: what differs between a structure and the known ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from .loggers import cpp_verbose_log_fn
from .program_cache import programs

_MOST_COMPARED = 32


def explain_miss(key: Sequence[Any], names: Sequence[str]) -> None:
    """Logs why no program is known for a key.

    Args:
        key: the structure.
        names: the names of its nodes.
    """
    known = programs.keys()[-_MOST_COMPARED:]
    if not known:
        cpp_verbose_log_fn(f"cache miss: this is the first program. It starts at {names[0]} (NodeCall 0).")
        return
    if programs.find(key) is not None:
        cpp_verbose_log_fn(
            f"cache miss: a host step gave other results than the program of {names[0]} expects."
        )
        return
    nearest = max(known, key=lambda other: _count_equal(key, other))
    others = programs.names(nearest)
    sizes = sorted({len(one) for one in known})
    for number, (name, other) in enumerate(zip_longest(names, others)):
        if name != other:
            cpp_verbose_log_fn(
                f"cache miss: {name or 'the end of the graph'} (NodeCall {number}) is new. The nearest known "
                f"program has {other or 'no node'} there. Size of the key {len(key)}, of known keys {sizes}."
            )
            return
    differing = [(mine, its) for mine, its in zip_longest(key, nearest) if mine != its]
    cpp_verbose_log_fn(
        f"cache miss: the nodes are known, {len(differing)} facts differ from the nearest program: shapes, "
        f"dtypes, hooks, grads or edges. The first is {differing[0][0]!r}, it was {differing[0][1]!r}, in a "
        f"graph that starts at {names[0]} (NodeCall 0)."
    )


def _count_equal(key: Sequence[Any], other: Sequence[Any]) -> int:
    """Returns the number of equal facts at the beginning of two keys."""
    for number, (mine, its) in enumerate(zip(key, other, strict=False)):
        if mine != its:
            return number
    return min(len(key), len(other))
