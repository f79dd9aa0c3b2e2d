"""Execution of sharding rules: a kernel runs on the part of its arrays that a device holds.

In a jitted function over sharded arrays XLA decides late how values are spread. So the kernel is wrapped in
``custom_partitioning``, which passes the rule to XLA and supplies the program of one part. On an explicit
mesh the types of the arrays hold their sharding, and ``shard_map`` runs the parts. Inside ``shard_map`` and
on one device no rule is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding

from oplib.autograd.array_functions.array_function import shape_of
from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Results
from oplib.library.op_records.record import Record
from oplib.protocols import Values
from oplib.tensor.devices.layout import find_explicit_mesh

from .bodies import calls_any
from .levels import Levels
from .placement import Placement, place_call
from .varying import is_inside_shard_map

_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})


class ShardedCall(Protocol):
    """The interface of a bound call that this module uses."""

    layout: Layout

    @property
    def record(self) -> Record:
        """The record in force."""
        ...

    def map(self, levels: Levels) -> Callable[..., Results]:
        """Returns the kernel mapped over levels of vmap."""
        ...

    def trace(self, levels: Levels, arrays: Sequence[Any], *, in_parts: bool = True) -> Any:
        """Returns the closed jaxpr of the call."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """The program of one part of a call, as ``custom_partitioning`` requests it.

    Attributes:
        call: the bound call.
        levels: the levels of vmap.
        placement: the axes that are partitioned together.
    """

    call: ShardedCall
    levels: Levels
    placement: Placement

    def __call__(self, mesh: Any, arguments: Any, results: Any) -> Values:
        """Returns the mesh, the program of a part, and the shardings of results and arguments."""
        specs = [value.sharding.spec for value in (*arguments, *results)]
        chosen = self.placement.assign(specs, dict(mesh.shape))
        operands, made = (
            tuple(NamedSharding(mesh, self.placement.spread(axes, chosen)) for axes in side)
            for side in (self.placement.operands, self.placement.results)
        )
        return mesh, self.bind(chosen, dict(mesh.shape)), made, operands

    def bind(self, chosen: dict[str, Any], extents: dict[str, int]) -> Callable[..., Values]:
        """Returns the kernel on parts; it sums the results of the parts if a summed axis is partitioned."""
        names = self.placement.find_summed(chosen)
        due = [self.placement.measure(axes, chosen, extents) for axes in self.placement.results]

        def run_part(*parts: Any) -> Values:
            outputs = tuple(self.call.map(_cut_levels(self.levels, parts))(*parts)[1])
            if [output.shape for output in outputs] != due:
                raise ResultError(
                    f"{self.call.record.name}: on parts the kernel's shapes differ from the rule's. "
                    f"From {describe(parts)} it returned {describe(outputs)}, expected {due}. Name an "
                    "axis that the kernel needs whole in need_replication={...}, or correct the rule."
                )
            return tuple(jax.lax.psum(output, names) for output in outputs) if names else outputs

        return run_part

    def offer(self) -> Callable[..., Values]:
        """Returns the call as a function that XLA may run in parts."""
        whole = custom_partitioning(lambda *arrays: tuple(self.call.map(self.levels)(*arrays)[1]))
        placement = self.placement
        # In the order in which the rule names them, which is Shardy's order too.
        keep, reduced = (
            tuple(name for name in placement.sizes if name in kind)
            for kind in (placement.whole, placement.reduced)
        )
        whole.def_partition(
            self, sharding_rule=placement.write(), reduction_factors=reduced, need_replication_factors=keep
        )
        return whole

    def run_on_mesh(self, mesh: Any, arrays: Sequence[Any], *, derivable: bool = False) -> Values:
        """Runs the parts on a mesh whose axes are in the types of the arrays."""
        kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
        names = {name for name, kind in kinds if kind == AxisType.Explicit}
        chosen = self.placement.assign(
            [jax.typeof(array).sharding.spec for array in arrays], dict(mesh.shape)
        )
        operands, made = (
            tuple(self.placement.spread(axes, chosen) for axes in side)
            for side in (self.placement.operands, self.placement.results)
        )
        spread = [
            jax.sharding.reshard(array, NamedSharding(mesh, spec))
            for array, spec in zip(arrays, operands, strict=True)
        ]
        # If JAX never differentiates the result, because the carrier has the op's rules or only inspects the
        # kernel, the check of varying mesh axes is not needed.
        run = jax.shard_map(
            self.bind(chosen, dict(mesh.shape)),
            mesh=mesh,
            in_specs=operands,
            out_specs=made,
            axis_names=names,
            check_vma=derivable,
        )
        return run(*spread)


def _cut_levels(levels: Levels, parts: Sequence[Any]) -> Levels:
    """Returns the levels of vmap for parts of the arrays, whose batch axes may be partitioned."""
    cut: list[Any] = []
    for index, level in enumerate(levels):
        at = level.batched.index(True)
        outer = sum(other.batched[at] for other in levels[index + 1 :])
        cut.append(replace(level, size=parts[at].shape[outer], spmd_name=None))
    return tuple(cut)


def run_in_parts(call: ShardedCall, levels: Levels, arrays: Sequence[Any]) -> Sequence[Any]:
    """Runs a call that has a sharding rule, on traced arrays.

    Arrays that do not fit raise RegistrationValueError.
    """
    mapped = call.map(levels)
    placement = _place(call, mapped, levels, arrays)
    if call.record.kind == "host" or is_inside_shard_map() or _is_on_one_device():
        return mapped(*arrays)[1]
    part = Part(call, levels, placement)
    mesh = find_explicit_mesh(arrays)
    if mesh is not None:
        return part.run_on_mesh(mesh, arrays)
    # The program of a part cannot have callbacks: XLA builds it separately, without their list.
    if calls_any(jax.jit(mapped).trace(*map(shape_of, arrays)).jaxpr, _CALLBACKS):
        return mapped(*arrays)[1]
    return part.offer()(*arrays)


def _place(call: ShardedCall, mapped: Any, levels: Levels, arrays: Sequence[Any]) -> Placement:
    structure, shapes = jax.eval_shape(mapped, *map(shape_of, arrays))
    return place_call(call.record.sharding, call.layout, levels, structure, shapes=(arrays, shapes))


def run_derivable(call: ShardedCall, levels: Levels, arrays: Sequence[Any]) -> Sequence[Any]:
    """Runs a call that JAX differentiates: on whole arrays, unless the parts are summed on a mesh.

    In that case a whole kernel could not declare the sharding of its result in the types of the arrays.
    """
    mapped = call.map(levels)
    mesh = find_explicit_mesh(arrays)
    if mesh is None or is_inside_shard_map():
        return mapped(*arrays)[1]
    placement = _place(call, mapped, levels, arrays)
    if not placement.reduced:
        return mapped(*arrays)[1]
    return Part(call, levels, placement).run_on_mesh(mesh, arrays, derivable=True)


def _is_on_one_device() -> bool:
    """Whether the mesh in force has one device; for an absent device only a whole kernel can be lowered."""
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and mesh.size == 1
