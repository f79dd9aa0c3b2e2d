"""A placement: a sharding rule fitted to the arrays of one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from oplib.errors import describe
from oplib.frozen import frozen
from oplib.library.arguments.layout import EntryKind, Layout, count_arrays
from oplib.library.arguments.structure import Structure
from oplib.library.arguments.trees import TreeEntry
from oplib.library.schema import FunctionSchema

from .levels import Levels
from .sharding_rule import ELLIPSIS, Axes, ShardingRule, read_sharding_rule, refuse_rule


@frozen
class Placement:
    """A rule fitted to the arrays of one call.

    Attributes:
        operands: for each array the names of its axes, batch axes in front.
        results: the same for each flat result.
        reduced: the axes over which the results of the parts are summed.
        kept: axes of arguments and results that are nevertheless kept whole.
        sizes: the length of each axis.
    """

    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    reduced: frozenset[str]
    kept: frozenset[str]
    sizes: dict[str, int]

    @property
    def whole(self) -> frozenset[str]:
        """Returns the axes that every device must hold whole."""
        named = frozenset(name for axes in self.operands for name in axes)
        made = frozenset(name for axes in self.results for name in axes)
        return ((named ^ made) - self.reduced) | self.kept

    def assign(self, specs: Sequence[Any], extents: dict[str, int]) -> dict[str, Any]:
        """Chooses mesh axes for the axes of the arrays; the first array partitioned along an axis decides."""
        chosen: dict[str, Any] = {}
        used: set[str] = set()
        for name, over in self._read(specs):
            names = list_mesh_axes(over)
            parts = prod(extents[each] for each in names)
            if names and name not in chosen and used.isdisjoint(names) and self.sizes[name] % parts == 0:
                chosen[name] = over
                used.update(names)
        return chosen

    def _read(self, specs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Yields the mesh axes of each axis that may be partitioned, array by array."""
        whole = self.whole
        for axes, spec in zip((*self.operands, *self.results), specs, strict=False):
            yield from ((name, over) for name, over in zip(axes, spec, strict=False) if name not in whole)

    def list_sources(self, result: int) -> list[int]:
        """Returns the operands that a result reads by the rule.

        It does not read an operand if every axis of that may be partitioned, and the result has none of them:
        then it is the same for each part.
        """
        return [
            index
            for index, axes in enumerate(self.operands)
            if not axes or not (self.whole | self.reduced | {*self.results[result]}).isdisjoint(axes)
        ]

    def find_summed(self, chosen: dict[str, Any]) -> tuple[str, ...]:
        """Returns the mesh axes over which the results of the parts are summed."""
        return tuple(
            name for axis in sorted(self.reduced & chosen.keys()) for name in list_mesh_axes(chosen[axis])
        )

    def spread(self, axes: Axes, chosen: dict[str, Any]) -> PartitionSpec:
        """Returns the sharding of an array with these axes."""
        return PartitionSpec(*map(chosen.get, axes))

    def measure(self, axes: Axes, chosen: dict[str, Any], extents: dict[str, int]) -> tuple[int, ...]:
        """Returns the shape of the part of an array with these axes."""
        return tuple(
            self.sizes[name] // prod(extents[each] for each in list_mesh_axes(chosen.get(name)))
            for name in axes
        )

    def write(self) -> str:
        """Returns the rule in the notation of ``custom_partitioning``."""
        sides = (", ".join(map(" ".join, side)) for side in (self.operands, self.results))
        return " -> ".join(sides)


def list_mesh_axes(over: Any) -> tuple[str, ...]:
    """Returns the mesh axes in one entry of a spec."""
    return over if isinstance(over, tuple) else () if over is None else (over,)


class _Entry(NamedTuple):
    """The axes of one flat array, its argument if it has one, and its name in errors."""

    axes: Axes
    subject: str
    argument: str = ""


def place_call(
    rule: str,
    layout: Layout,
    levels: Levels,
    structure: Structure,
    *,
    shapes: tuple[Sequence[Any], Sequence[Any]],
) -> Placement:
    """Fits a rule to the arrays of a call.

    Raises:
        RegistrationValueError: an array has another rank than its entry, or axes with one name differ in
            size.
    """
    depths = range(len(levels))[::-1]  # the outermost batch axis is the first
    fronts = [
        tuple([f"batch{at}" for at in depths if levels[at].batched[index]])
        for index in range(layout.array_count)
    ]
    front = tuple(f"batch{at}" for at in depths)
    read = read_sharding_rule(layout.schema, rule)
    arguments = _spread_arguments(layout, read.text, read.operands)
    results = _spread_results(layout, structure, arguments, read)
    fitter = _Fitter(layout.schema, read)
    operands = [
        fitter.fit(entry.axes, shape, before, entry.subject)
        for entry, shape, before in zip(arguments, shapes[0], fronts, strict=True)
    ]
    made = [
        fitter.fit(entry.axes, shape, front, entry.subject)
        for entry, shape in zip(results, shapes[1], strict=True)
    ]
    return Placement(tuple(operands), tuple(made), read.reduced, read.kept, fitter.sizes)


class _Fitter:
    """Fits entries to shapes one after the other, and records the length of each axis."""

    def __init__(self, schema: FunctionSchema, rule: ShardingRule) -> None:
        self.schema = schema
        self.rule = rule
        self.sizes: dict[str, int] = {}

    def fit(self, entry: Axes, shape: Any, front: Axes, subject: str) -> Axes:
        """Returns the names of all axes of an array."""
        rank = len(shape.shape) - len(front)
        named = entry[1:] if entry[:1] == (ELLIPSIS,) else entry
        open_axes = rank - len(named)
        if open_axes < 0 or (open_axes and named is entry):
            told = f"{subject} has {rank} axes, {describe(shape)}, and its entry names {len(named)}"
            raise refuse_rule(
                self.schema, self.rule.text, told, "Write one name per axis, or '...' for any number"
            )
        # Counted from the last axis, so that arrays of different rank are aligned as in broadcasting.
        axes = (*front, *(f"open{index}" for index in reversed(range(open_axes))), *named)
        for index, (name, size) in enumerate(zip(axes, shape.shape, strict=True)):
            if self.sizes.setdefault(name, size) != size:
                other = self.sizes[name]
                told = f"axis {index} of {subject} is '{name}' and {size} long, where another is {other}"
                raise refuse_rule(
                    self.schema, self.rule.text, told, "Give axes of different sizes different names"
                )
        return axes


def _spread_arguments(layout: Layout, text: str, entries: Sequence[Axes]) -> list[_Entry]:
    """Returns the entry of each flat array; a number operand has no axes."""
    spread: list[_Entry] = []
    rest = iter(enumerate(entries))
    for argument, form in zip(layout.schema.arguments, layout.entries, strict=True):
        index, axes = next(rest) if argument.has_tensor else (0, ())
        entry = _Entry(axes, f"argument {index} ('{argument.name}')", argument.name)
        if isinstance(form, TreeEntry):
            told = f"argument '{argument.name}' is a tree of arrays"
            raise refuse_rule(
                layout.schema, text, told, "Give arrays that are partitioned arguments of their own"
            )
        if isinstance(form, tuple):
            spread.extend([entry] * sum(form))
        elif form in (EntryKind.array, EntryKind.key):
            spread.append(entry)
    return spread


def _spread_results(
    layout: Layout, structure: Structure, arguments: list[_Entry], rule: ShardingRule
) -> list[_Entry]:
    """Returns the entry of each flat result; the new value of a written argument has the argument's entry."""
    entries = rule.results
    names = [layout.schema.arguments[index].name for index in layout.written_indices]
    spread = [entry for name in names for entry in arguments if entry.argument == name]
    forms = structure.entries[structure.written :]
    total = sum(map(count_arrays, forms))
    if len(entries) != len(layout.schema.returns):  # a tree has an entry for each of its arrays
        if len(entries) != total:
            told = f"it has {len(entries)} entries for results, and there are {total} arrays: {structure}"
            cure = "Write one entry per result, or one per array in them"
            raise refuse_rule(layout.schema, rule.text, told, cure)
        return spread + [_Entry(axes, f"result {index}") for index, axes in enumerate(entries)]
    own = [
        _Entry(axes, f"result {index}")
        for index, (axes, returned) in enumerate(zip(entries, layout.schema.returned_arguments, strict=True))
        if returned is None
    ]
    for entry, form in zip(own, forms, strict=True):
        spread.extend([entry] * count_arrays(form))
    return spread
