"""Carrying sharding rules out: kernels that run on the part of their arrays that a device has.

In a jitted function over sharded arrays XLA decides late how values are spread, so the kernel is wrapped in
``custom_partitioning``, which tells XLA the rule and is asked for the program of one part. On an explicit
mesh the types of the arrays say how they are spread, and ``shard_map`` does it. Inside ``shard_map`` and on
one device there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
from jax.core import Tracer
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding

from oplib.autograd.array_functions.array_function import shape_of
from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Structure
from oplib.library.records.record import Record

from .levels import Levels
from .placement import Placement, place_call

Results = tuple[Structure, tuple[Any, ...]]
_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})


class ShardedCall(Protocol):
    """What is known here of a bound call."""

    layout: Layout

    @property
    def record(self) -> Record:
        """The record in force."""
        ...

    def map(self, levels: Levels) -> Callable[..., Results]:
        """The kernel mapped over levels of vmap."""
        ...

    def trace(self, levels: Levels, arrays: Sequence[Any], *, in_parts: bool = True) -> Any:
        """The closed jaxpr of the call."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """The program of one part of a call, as ``custom_partitioning`` asks for it.

    Attributes:
        call: the op.
        levels: of vmap.
        placement: which axes are cut together.
        run: the kernel on parts; None for the one of the call.
    """

    call: ShardedCall
    levels: Levels
    placement: Placement
    run: Callable[..., tuple[Any, ...]] | None = None

    def __call__(self, mesh: Any, arguments: Any, results: Any) -> tuple[Any, ...]:
        """Returns the mesh, the program of a part, and how results and arguments are to be spread."""
        specs = [value.sharding.spec for value in (*arguments, *results)]
        chosen = self.placement.assign(specs, dict(mesh.shape))
        operands, made = (
            tuple(NamedSharding(mesh, self.placement.spread(axes, chosen)) for axes in side)
            for side in (self.placement.operands, self.placement.results)
        )
        return mesh, self.bind(chosen, dict(mesh.shape)), made, operands

    def bind(self, chosen: dict[str, Any], extents: dict[str, int]) -> Callable[..., tuple[Any, ...]]:
        """Returns the kernel on parts; where a summed axis is cut, the parts' results are added up.

        Args:
            chosen: the mesh axes for the axes of the arrays.
            extents: how many devices each mesh axis has.
        """
        names = self.placement.find_summed(chosen)
        due = [self.placement.measure(axes, chosen, extents) for axes in self.placement.results]

        def run_part(*parts: Any) -> tuple[Any, ...]:
            run = self.run or self._run
            outputs = tuple(run(*parts))
            if [output.shape for output in outputs] != due:
                raise ResultError(
                    f"{self.call.record.name}: on parts the kernel gives other shapes than the rule says. "
                    f"From {describe(parts)} it gave {describe(outputs)}, due are the shapes {due}. Name an "
                    "axis that the kernel needs whole in need_replication={...}, or correct the rule."
                )
            return tuple(jax.lax.psum(output, names) for output in outputs) if names else outputs

        return run_part

    def _run(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(self.call.map(cut_levels(self.levels, parts))(*parts)[1])

    def offer(self) -> Callable[..., tuple[Any, ...]]:
        """Returns the call as a function that XLA may have done in parts."""
        whole = custom_partitioning(lambda *arrays: tuple(self.call.map(self.levels)(*arrays)[1]))
        placement = self.placement
        # in the order in which the rule names them, in which Shardy counts
        keep, reduced = (
            tuple(name for name in placement.sizes if name in kind)
            for kind in (placement.whole, placement.reduced)
        )
        whole.def_partition(
            self,
            sharding_rule=placement.write(),
            reduction_factors=reduced,
            need_replication_factors=keep,
        )
        return whole

    def run_on_mesh(self, mesh: Any, arrays: Sequence[Any], *, derivable: bool = False) -> tuple[Any, ...]:
        """Runs the parts on a mesh whose axes stand in the types of the arrays."""
        kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
        is_host = self.call.record.kind == "host"  # a callback runs where every axis is manual
        names = {name for name, kind in kinds if is_host or kind == AxisType.Explicit}
        chosen = self.placement.assign([_read_spec(array) for array in arrays], dict(mesh.shape))
        operands, made = (
            tuple(self.placement.spread(axes, chosen) for axes in side)
            for side in (self.placement.operands, self.placement.results)
        )
        spread = [
            jax.sharding.reshard(array, NamedSharding(mesh, spec))
            for array, spec in zip(arrays, operands, strict=True)
        ]
        # Where its derivative is never asked for, since the carrier has the op's rules or looks at the kernel
        # alone, nothing needs to be known of what varies over the mesh, which a callback could not tell.
        run = jax.shard_map(
            self.bind(chosen, dict(mesh.shape)),
            mesh=mesh,
            in_specs=operands,
            out_specs=made,
            axis_names=names,
            check_vma=derivable,
        )
        return run(*spread)


def cut_levels(levels: Levels, parts: Sequence[Any]) -> Levels:
    """The levels of vmap for parts of the arrays, of which the batch may have been cut."""
    cut: list[Any] = []
    for place, level in enumerate(levels):
        at = level.batched.index(True)
        outer = sum(other.batched[at] for other in levels[place + 1 :])
        cut.append(replace(level, size=parts[at].shape[outer], spmd_name=None))
    return tuple(cut)


def run_in_parts(call: ShardedCall, levels: Levels, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a call that has a sharding rule; its arrays are traced.

    Raises:
        RegistrationValueError: the rule does not fit them.
    """
    mapped = call.map(levels)
    structure, shapes = jax.eval_shape(mapped, *map(shape_of, arrays))
    placement = place_call(call.record.sharding, call.layout, levels, structure, shapes=(arrays, shapes))
    if _is_inside_shard_map() or _is_on_one_device():
        return mapped(*arrays)[1]
    part = Part(call, levels, placement)
    mesh = _find_explicit_mesh(arrays)
    if mesh is not None:
        return part.run_on_mesh(mesh, arrays)
    # The program of a part has no callbacks; those of host kernels are cared for when the op is lowered.
    if call.record.kind != "host" and calls_any(
        jax.jit(mapped).trace(*map(shape_of, arrays)).jaxpr, _CALLBACKS
    ):
        return mapped(*arrays)[1]
    return part.offer()(*arrays)


def run_derivable(call: ShardedCall, levels: Levels, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a call for JAX to differentiate: whole, but where the results of parts are added up on a mesh.

    There the types of the arrays would have to say of a whole kernel how its result is to be spread.
    """
    mapped = call.map(levels)
    mesh = _find_explicit_mesh(arrays)
    if mesh is None or _is_inside_shard_map():
        return mapped(*arrays)[1]
    structure, shapes = jax.eval_shape(mapped, *map(shape_of, arrays))
    placement = place_call(call.record.sharding, call.layout, levels, structure, shapes=(arrays, shapes))
    if not placement.reduced:
        return mapped(*arrays)[1]
    return Part(call, levels, placement).run_on_mesh(mesh, arrays, derivable=True)


def calls_any(jaxpr: Any, names: Collection[str]) -> bool:
    """Whether one of these primitives stands in a jaxpr, closed or not, or in one inside of it."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = jax.tree_util.tree_leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
        if equation.primitive.name in names or any(
            calls_any(each, names) for each in filter(_is_jaxpr, inner)
        ):
            return True
    return False


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns")


def _is_inside_shard_map() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _is_on_one_device() -> bool:
    """Whether the mesh in force says so; only a whole kernel can be lowered for a device that is not here."""
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and mesh.size == 1


def _find_explicit_mesh(arrays: Sequence[Any]) -> Any:
    """The mesh on which types carry the sharding; None where XLA is to find it."""
    for array in arrays:
        mesh = getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None)
        if mesh is not None and AxisType.Explicit in mesh.axis_types:
            return mesh
    return None


def _read_spec(array: Any) -> Any:
    return jax.typeof(array).sharding.spec


def is_spread(value: Any) -> bool:
    """Whether a value is a concrete array of which several devices have parts."""
    return (
        isinstance(value, jax.Array) and not isinstance(value, Tracer) and len(value.sharding.device_set) > 1
    )
