"""The paths from the operands of a kernel to its results, and the mesh axes that they reduce.

Inside ``shard_map`` a result that does not vary over an axis can be a sum over the devices (``psum``), or a
value that every device computes alike. The cotangent of the first belongs to the values of all devices, that
of the second to one value. The types of the results are the same; the paths tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oplib.autograd.array_functions.array_types import find_varying

from .bodies import OPAQUE, find_bodies

Path = tuple[int, frozenset[Any]]
Paths = frozenset[Path]
"""Paths to one value: each is the index of an operand, and the axes that the path reduces."""

_EACH = frozenset({"psum", "psum_invariant", "pmax", "pmin", "pvary", "optimization_barrier"})


def find_paths(closed: Any, count: int) -> list[Paths]:
    """Returns the paths to each result of a closed jaxpr from its last ``count`` operands."""
    captured = len(closed.jaxpr.invars) - count
    start: list[Paths] = [frozenset({(index, frozenset())}) for index in range(count)]
    return _follow(closed, [frozenset()] * captured + start)


def _follow(body: Any, paths: Sequence[Paths]) -> list[Paths]:
    jaxpr = getattr(body, "jaxpr", body)
    known: dict[Any, Paths] = dict(zip(jaxpr.invars, paths, strict=True))

    def read(variables: Iterable[Any]) -> list[Paths]:
        return [frozenset() if hasattr(each, "val") else known.get(each, frozenset()) for each in variables]

    for equation in jaxpr.eqns:
        made = _follow_equation(equation, read(equation.invars))
        known.update(zip(equation.outvars, made, strict=True))
    return read(jaxpr.outvars)


def _follow_equation(equation: Any, operands: list[Paths]) -> list[Paths]:
    name, bodies = equation.primitive.name, find_bodies(equation)
    if name == "cond":
        branches = [_follow(branch, operands[1:]) for branch in bodies]
        return [frozenset().union(*paths) for paths in zip(*branches, strict=True)]
    if name == "while":
        body, carried = equation.params["body_jaxpr"], len(equation.outvars)
        inner = operands[len(operands) - len(body.in_avals) :]
        return _follow_loop(body, inner, slice(len(inner) - carried, len(inner)))
    if name == "scan":
        return _follow_loop(bodies[0], operands, _find_carry(equation, bodies[0]))
    if len(bodies) == 1 and _is_call(equation, bodies[0]):
        return _follow(bodies[0], operands)
    if name in _EACH:
        sides = zip(operands, equation.invars, equation.outvars, strict=True)
        return [_pass(paths, read, made) for paths, read, made in sides]
    if name in OPAQUE:  # one device runs it, whatever the types of its results
        return [frozenset().union(*operands)] * len(equation.outvars)
    return [
        frozenset().union(
            *(_pass(paths, read, made) for paths, read in zip(operands, equation.invars, strict=True))
        )
        for made in equation.outvars
    ]


def _follow_loop(body: Any, operands: list[Paths], carry: slice) -> list[Paths]:
    """Follows the body of a loop, whose first results are its carry, until no path is added."""
    while True:
        made = _follow(body, operands)
        after = [old | new for old, new in zip(operands[carry], made, strict=False)]
        if after == operands[carry]:
            return made
        operands = [*operands[: carry.start], *after, *operands[carry.stop :]]


def _find_carry(equation: Any, body: Any) -> slice:
    """Finds the carry of a scan by its axes: the names of its parameters differ between versions of JAX."""
    inner = getattr(body, "jaxpr", body)
    carried = sum(map(_have_same_shape, equation.outvars, inner.outvars))
    last = sum(map(_have_same_shape, equation.invars, inner.invars))
    return slice(last - carried, last)


def _is_call(equation: Any, body: Any) -> bool:
    """Tells whether an equation passes its operands to its body, and returns the body's results."""
    inner = getattr(body, "jaxpr", body)
    sides = (equation.invars, inner.invars), (equation.outvars, inner.outvars)
    return all(len(own) == len(its) and all(map(_have_same_shape, own, its)) for own, its in sides)


def _have_same_shape(outer: Any, inner: Any) -> bool:
    return outer.aval.shape == inner.aval.shape


def _pass(paths: Paths, read: Any, made: Any) -> Paths:
    """Adds to paths the axes over which an equation reduces one operand for one result."""
    axes = find_varying(read.aval) - find_varying(made.aval)
    return frozenset((index, passed | axes) for index, passed in paths) if axes else paths
