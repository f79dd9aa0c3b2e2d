"""Host kernels in programs for several devices: on parts of arrays, or on gathered arrays.

A callback belongs to an executable, but the program of a part is built separately, and its own list of
callbacks is dropped. So the callback is entered into the whole program when the op is lowered, and the
program of the part calls it by its number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from oplib.errors import CompilationWarning, TracingError
from oplib.library.arguments.structure import Results
from oplib.library.axes.bodies import OPAQUE, calls_any
from oplib.library.axes.levels import Levels
from oplib.library.axes.partition import Part, ShardedCall, cut_levels
from oplib.library.kernels.fake_kernel import run_fake_kernel
from oplib.library.kernels.host_kernel import bind_host_kernel
from oplib.library.kernels.kernel_choice import choose_kernel
from oplib.tracebacks import find_user_level

_TARGETS = {
    "cpu": "xla_ffi_python_cpu_callback",
    "cuda": "xla_ffi_python_gpu_callback",
    "rocm": "xla_ffi_python_gpu_callback",
}
_warned: set[str] = set()


def find_spread_lowering(
    call: ShardedCall, levels: Levels, jaxpr: Any, module: Any
) -> Callable[..., Sequence[Any]] | None:
    """Returns the lowering of an op in a program for several devices; None if its jaxpr is lowered as it is.

    Args:
        call: the bound call.
        levels: the levels of vmap.
        jaxpr: the traced jaxpr of the call.
        module: the program, as JAX describes it to a lowering rule.

    Warns:
        CompilationWarning: the parts of the arrays will be gathered; issued once per op.
    """
    if call.record.is_ordered:
        _refuse_devices(call.record.name, module.axis_context)
    if (getattr(module.axis_context, "num_devices", None) or 1) == 1:
        return None
    part = _find_part(jaxpr)
    if part is None:
        if not calls_any(jaxpr, {"shard_map"}):
            _warn_of_gathering(call, jaxpr)
        return None
    if module.lowering_parameters.for_export:  # a program on disk cannot request the program of a part
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
        return jaxpr_as_fun(call.trace(levels, shapes, in_parts=False))
    if call.record.kind != "host" or module.platforms[0] not in _TARGETS:
        return None
    return _enter_callback(call, part, module).offer()


def _refuse_devices(name: str, context: Any) -> None:
    """Raises TracingError in a program for several devices, also inside of ``shard_map``."""
    mesh = getattr(context, "mesh", None)
    count = (getattr(context, "num_devices", None) or 1) if mesh is None else mesh.size
    if count > 1:
        raise TracingError(
            f"{name}: an op with Tag.ordered cannot run in a program for several devices. Got {count}, "
            "which have no common order. Call it in a program for one device."
        )


def _enter_callback(call: ShardedCall, part: Part, module: Any) -> Part:
    """Enters a host kernel into a program; returns the part that calls it."""
    parts = _HostParts(call)
    module.add_host_callback(parts)
    number = np.uint64(len(module.host_callbacks) - 1)

    def run_part(*arrays: Any) -> Sequence[Any]:
        shapes = parts.expect(cut_levels(part.levels, arrays), arrays)
        return jax.ffi.ffi_call(_TARGETS[module.platforms[0]], shapes)(*arrays, index=number)

    return replace(part, run=run_part)


def _find_part(jaxpr: Any) -> Part | None:
    """Returns the part of ``custom_partitioning`` in the traced call; None if the call has none."""
    for equation in jaxpr.eqns:
        part = equation.params.get("partition")
        if isinstance(part, Part):
            return part
    return None


@dataclass(slots=True, eq=False)
class _HostParts:
    """A host kernel as a callback on parts, whose shapes are known after XLA has partitioned the program.

    Two calls that are lowered once may be partitioned differently, so the expected shapes are kept for each.

    Attributes:
        call: the bound call.
        due: by the shapes of the parts: the levels of vmap, and the results of the fake kernel for one
            example.
    """

    call: ShardedCall
    due: dict[tuple[tuple[int, ...], ...], tuple[Levels, Results]] = field(default_factory=dict[Any, Any])

    def expect(self, levels: Levels, parts: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
        """Records the shapes of the parts; returns the shapes of their results, by the fake kernel."""
        record, layout = self.call.record, self.call.layout
        single = [
            jax.ShapeDtypeStruct(part.shape[sum(level.batched[index] for level in levels) :], part.dtype)
            for index, part in enumerate(parts)
        ]
        due = jax.eval_shape(lambda *values: run_fake_kernel(record, layout, values), *single)
        self.due[_list_shapes(parts)] = levels, due
        front = tuple(level.size for level in reversed(levels))
        return [jax.ShapeDtypeStruct((*front, *shape.shape), shape.dtype) for shape in due[1]]

    def __call__(self, *parts: Any) -> tuple[np.ndarray, ...]:
        record, layout = self.call.record, self.call.layout
        levels, due = self.due[_list_shapes(parts)]
        run = bind_host_kernel(record, choose_kernel(record, parts), layout, due)
        return tuple(_map(run, levels, due[1], parts))


def _list_shapes(parts: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple(part.shape) for part in parts])


def _map(
    run: Callable[..., Sequence[Any]], levels: Levels, shapes: Sequence[Any], parts: Sequence[Any]
) -> Sequence[Any]:
    """Runs the kernel for each example of the outermost level, which is the last, and stacks the results."""
    if not levels:
        return run(*parts)
    inner, level = levels[:-1], levels[-1]
    rows = [
        _map(
            run,
            inner,
            shapes,
            [part[at] if own else part for part, own in zip(parts, level.batched, strict=True)],
        )
        for at in range(level.size)
    ]
    if not rows:
        front = tuple(each.size for each in reversed(inner))
        return [np.zeros((0, *front, *shape.shape), shape.dtype) for shape in shapes]
    return [np.stack(results) for results in zip(*rows, strict=True)]


def _warn_of_gathering(call: ShardedCall, jaxpr: Any) -> None:
    record = call.record
    if record.name in _warned or not calls_any(jaxpr, OPAQUE):
        return
    _warned.add(record.name)
    cure = (
        "Say with register_sharding which axes may be cut."
        if record.sharding is None
        else "Annotate it numpy.ndarray, so that it runs on the host in parts."
    )
    warnings.warn(
        f"{record.name}: its arrays will be gathered on each device. The program is for several devices, and "
        f"XLA cannot look into the kernel to cut it. {cure}",
        CompilationWarning,
        stacklevel=find_user_level(),
    )
