"""Lowering of an op in a program for several devices.

XLA builds the program of a part separately and drops its list of callbacks, so a kernel on the host runs on
gathered arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.errors import CompilationWarning, TracingError
from oplib.library.axes.bodies import OPAQUE, calls_any
from oplib.library.axes.levels import Levels
from oplib.library.axes.partition import Part, ShardedCall
from oplib.tracebacks import find_user_level

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
    if not any(isinstance(equation.params.get("partition"), Part) for equation in jaxpr.eqns):
        if not calls_any(jaxpr, {"shard_map"}):
            _warn_of_gathering(call, jaxpr)
        return None
    if not module.lowering_parameters.for_export:
        return None
    # A program on disk cannot request the program of a part.
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    return bind_jaxpr(call.trace(levels, shapes, in_parts=False))


def _refuse_devices(name: str, context: Any) -> None:
    """Raises TracingError in a program for several devices, also inside of ``shard_map``."""
    mesh = getattr(context, "mesh", None)
    count = (getattr(context, "num_devices", None) or 1) if mesh is None else mesh.size
    if count > 1:
        raise TracingError(
            f"{name}: an op with Tag.ordered cannot run in a program for several devices. Got {count}, "
            "which have no common order. Call it in a program for one device."
        )


def _warn_of_gathering(call: ShardedCall, jaxpr: Any) -> None:
    record = call.record
    if record.name in _warned or not calls_any(jaxpr, OPAQUE):
        return
    _warned.add(record.name)
    has_rule = record.sharding is not None or record.kind == "host"
    cure = (
        "Call it inside jax.shard_map, where each device runs it on its part."
        if has_rule
        else "Say with register_sharding which axes may be cut."
    )
    warnings.warn(
        f"{record.name}: its arrays will be gathered on each device. The program is for several devices, and "
        f"XLA cannot look into the kernel to cut it. {cure}",
        CompilationWarning,
        stacklevel=find_user_level(),
    )
