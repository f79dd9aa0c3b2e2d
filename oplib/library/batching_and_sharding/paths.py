"""The paths from the operands of a kernel or formula to its results, and the steps on each path.

Inside ``shard_map`` a result that does not vary over an axis can be a sum over the devices (``psum``), or a
value that every device computes alike. The cotangent of the first belongs to the values of all devices, that
of the second to one value. The types of the results are the same; the paths tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from oplib.autograd.array_functions.array_types import find_varying
from oplib.protocols import Values

from .bodies import OPAQUE, find_bodies

Axes = frozenset[Any]

_EACH = frozenset({"psum", "psum_invariant", "pmax", "pmin", "pvary", "optimization_barrier"})
_SUMS = frozenset({"psum", "psum_invariant", "all_gather", "all_to_all", "reduce_scatter"})
"""Collectives that give each device a part of the values of the others; their transposes are in the set."""

_FACTORS = {
    **dict.fromkeys(("add", "add_any", "sub", "concatenate", "pad"), slice(0)),
    **dict.fromkeys(("select_n", "cond"), slice(1)),
    **dict.fromkeys(("scatter", "scatter-add"), slice(1, 2)),
    "dynamic_update_slice": slice(2, None),
}
"""The operands by which a primitive multiplies or selects the other ones; all operands if it is not a key."""


class Path(NamedTuple):
    """A path to one value.

    Attributes:
        operand: the index of the operand from which it comes; None for a value that is no operand.
        reduced: the axes over which a step reduces: its operand varies over them, and its result does not.
        sums: how many steps sum or gather over an axis, for each axis, counted up to :data:`MANY`.
        scaled: the axes over which a step multiplies by, or selects by, a value that differs between devices.
    """

    operand: int | None
    reduced: Axes = frozenset()
    sums: frozenset[tuple[Any, int]] = frozenset()
    scaled: Axes = frozenset()

    def count_sums(self, axis: Any) -> int:
        """Returns how many steps sum over an axis."""
        return dict(self.sums).get(axis, 0)


MANY = 3
Paths = frozenset[Path]
_ELSEWHERE: Paths = frozenset({Path(None)})


def find_paths(closed: Any, count: int, varying: Sequence[Axes]) -> list[Paths]:
    """Returns the paths to each result of a closed jaxpr from its last ``count`` operands.

    Args:
        closed: the closed jaxpr.
        count: the number of operands that are not captured values.
        varying: for each of these, the axes over which it differs between devices. A value that the devices
            share may have been cast to vary.
    """
    captured = len(closed.jaxpr.invars) - count
    start: list[Paths] = [frozenset({Path(index)}) for index in range(count)]
    return _Walk(varying).follow(closed, [_ELSEWHERE] * captured + start)


class _Walk:
    """A walk through a jaxpr whose operands differ between devices along some axes."""

    def __init__(self, varying: Sequence[Axes]) -> None:
        self._varying = varying

    def follow(self, body: Any, paths: Sequence[Paths]) -> list[Paths]:
        """Returns the paths to each result of a jaxpr, from those to its operands."""
        jaxpr = getattr(body, "jaxpr", body)
        known: dict[Any, Paths] = dict(zip(jaxpr.invars, paths, strict=True))
        known.update((variable, _ELSEWHERE) for variable in jaxpr.constvars)

        def read(variables: Iterable[Any]) -> list[Paths]:
            return [Paths() if hasattr(each, "val") else known.get(each, Paths()) for each in variables]

        for equation in jaxpr.eqns:
            made = self._follow_equation(equation, read(equation.invars))
            known.update(zip(equation.outvars, made, strict=True))
        return read(jaxpr.outvars)

    def _follow_equation(self, equation: Any, operands: list[Paths]) -> list[Paths]:
        name, bodies = equation.primitive.name, find_bodies(equation)
        if name == "cond":
            chosen = self._scale(equation, operands)[1:]
            branches = [self.follow(branch, chosen) for branch in bodies]
            return [frozenset().union(*paths) for paths in zip(*branches, strict=True)]
        if name == "while":
            body, carried = equation.params["body_jaxpr"], len(equation.outvars)
            inner = operands[len(operands) - len(body.in_avals) :]
            return self._follow_loop(body, inner, slice(len(inner) - carried, len(inner)))
        if name == "scan":
            return self._follow_loop(bodies[0], operands, find_carry(equation, bodies[0]))
        if len(bodies) == 1 and _is_call(equation, bodies[0]):
            return self.follow(bodies[0], operands)
        if name in _EACH:
            sides = zip(operands, equation.invars, equation.outvars, strict=True)
            return [_pass(equation, paths, operand, result) for paths, operand, result in sides]
        if name in OPAQUE:  # one device runs it, whatever the types of its results
            return [frozenset().union(*operands)] * len(equation.outvars)
        if not operands:  # such as axis_index
            return [_ELSEWHERE] * len(equation.outvars)
        scaled = list(zip(self._scale(equation, operands), equation.invars, strict=True))
        return [
            frozenset().union(*(_pass(equation, paths, operand, result) for paths, operand in scaled))
            for result in equation.outvars
        ]

    def _follow_loop(self, body: Any, operands: list[Paths], carry: slice) -> list[Paths]:
        """Follows the body of a loop, whose first results are its carry, until no path is added."""
        while True:
            made = self.follow(body, operands)
            after = [old | new for old, new in zip(operands[carry], made, strict=False)]
            if after == operands[carry]:
                return made
            operands = [*operands[: carry.start], *after, *operands[carry.stop :]]

    def _scale(self, equation: Any, operands: list[Paths]) -> list[Paths]:
        """Adds to the paths of each operand the axes over which a factor of the equation differs."""
        differs = list(map(self._find_differing, operands, equation.invars))
        factors = range(len(operands))[_FACTORS.get(equation.primitive.name, slice(None))]
        made: list[Paths] = []
        for index, paths in enumerate(operands):
            axes = frozenset().union(*(differs[other] for other in factors if other != index))
            made.append(frozenset(path._replace(scaled=path.scaled | axes) for path in paths))
        return made

    def _find_differing(self, paths: Paths, variable: Any) -> Axes:
        """Returns the axes over which a value differs between devices, as far as its paths tell."""
        typed = find_varying(variable.aval)
        if any(path.operand is None for path in paths):
            return typed
        own = (self._varying[path.operand] - path.reduced for path in paths if path.operand is not None)
        return typed & frozenset().union(*own)


def find_carry(equation: Any, body: Any) -> slice:
    """Finds the carry of a scan by its shapes: the names of its parameters differ between versions of JAX.

    Args:
        equation: of the scan.
        body: its jaxpr, open or closed.

    Returns:
        The places of the carry among the operands; the constants come before it.
    """
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


def _pass(equation: Any, paths: Paths, operand: Any, result: Any) -> Paths:
    """Adds to paths the step from one operand of an equation to one result."""
    reduced = find_varying(operand.aval) - find_varying(result.aval)
    summed = _name_axes(equation) if equation.primitive.name in _SUMS else ()
    return frozenset(
        path._replace(reduced=path.reduced | reduced, sums=_count(path, summed)) for path in paths
    )


def _name_axes(equation: Any) -> Values:
    axes = equation.params.get("axes", equation.params.get("axis_name", ()))
    return axes if isinstance(axes, tuple) else (axes,)


def _count(path: Path, axes: Values) -> frozenset[tuple[Any, int]]:
    more = {axis: min(path.count_sums(axis) + 1, MANY) for axis in axes}
    return frozenset({**dict(path.sums), **more}.items())
