"""The primitive *op* of the carrier: evaluation, lowering and shapes of a call.

XLA builds the program of a part separately and drops its list of callbacks, so a kernel on the host runs on
gathered arrays in a program for several devices.

``checkify`` reads the parameter ``call_jaxpr`` of a primitive. It then binds the primitive once more, with
the checked code as ``subfuns``, and with the state of the checks as further operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir, xla

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.errors import CompilationWarning, MissingRuleError, TracingError
from oplib.library.batching_and_sharding.bodies import OPAQUE, calls_any
from oplib.library.batching_and_sharding.levels import Levels
from oplib.library.batching_and_sharding.partition import Part
from oplib.library.kernels.kernel_choice import require_kernels
from oplib.protocols import AnyFunction
from oplib.tracebacks import warn_user

from .attachment import Attached, attach
from .bound_call import BoundCall
from .derived_call import Uncompiled, asks_policy
from .own_refs import find_effects, to_function


class CallPrimitive(Primitive):
    """A primitive whose parameter ``call_jaxpr`` is the traced kernel.

    Args:
        name: the qualified name of the op.
        attachment: the primitive that attaches the rules of the op to results.
        show: runs a call in place of the primitive, where a policy is asked about operations.
    """

    multiple_results = True

    def __init__(self, name: str, attachment: Primitive, show: AnyFunction) -> None:
        super().__init__(name)
        self._attachment = attachment
        self._show = show

    def bind(self, *operands: Any, subfuns: Sequence[Any] = (), **params: Any) -> Any:
        """Binds the call; the code of ``checkify`` runs in its place, and the results keep their rules."""
        if not subfuns:
            if asks_policy():
                return self._show(operands, super().bind, **params)
            return super().bind(*operands, **params)
        return self._run_checked(subfuns[0], operands, **params)

    def _run_checked(self, checked: Any, operands: Sequence[Any], *, call: BoundCall, levels: Levels) -> Any:
        if call.record.is_transparent:
            return checked.call_wrapped(*operands)  # JAX differentiates it
        first = len(operands) - call.layout.array_count
        state, inputs = operands[:first], operands[first:]
        outputs = checked.call_wrapped(*state, *map(jax.lax.stop_gradient, inputs))
        last = len(outputs) - len(call.trace(levels, inputs).out_avals)
        if call.record.derivative.constant is not None:
            return outputs
        attached = Attached(call, levels, len(inputs))
        return [*outputs[:last], *attach(self._attachment, attached, inputs, outputs[last:], ())]


def apply_call(
    primitive: Primitive,
    *arrays: Any,
    call: BoundCall,
    levels: Levels,
    call_jaxpr: Any = None,
    body: Uncompiled | None = None,
) -> Any:
    """Runs the primitive *op* on values: compiled, or as plain Python."""
    if body is not None:
        body.structure, outputs = call.run_plain(levels, arrays)
        return list(outputs)
    if not call.applies_itself:
        return xla.apply_primitive(primitive, *arrays, call=call, levels=levels, call_jaxpr=call_jaxpr)
    return call.apply(call_jaxpr, partial(run_call, call=call, call_jaxpr=call_jaxpr))(*arrays)


def run_call(*arrays: Any, call: BoundCall, call_jaxpr: Any, **_: Any) -> list[Any]:
    """Evaluates the primitive *op*."""
    with jax.named_scope(call.record.name):
        return to_function(call_jaxpr)(*arrays)


_PALLAS = frozenset({"pallas_call"})
_warned: set[str] = set()
_lower_kernel = mlir.lower_fun(run_call, multiple_results=True)


def lower_call(
    ctx: Any,
    *args: Any,
    call: BoundCall,
    levels: Levels,
    call_jaxpr: Any = None,
    body: Uncompiled | None = None,
) -> Any:
    """Lowers the kernel, after a check that each platform of the lowering has one."""
    jaxpr = call_jaxpr if body is None else body.trace(call, levels, ctx.avals_in)
    require_kernels(call.record, ctx.module_context.platforms, traced=call.kernel_slots)
    lowering = _find_spread_lowering(call, levels, jaxpr, ctx.module_context)
    if lowering is None:
        try:
            return _lower_kernel(ctx, *args, call=call, call_jaxpr=jaxpr)
        except (NotImplementedError, ValueError) as error:
            _explain_failure(call, jaxpr, ctx.module_context.platforms, error)
            raise
    return mlir.lower_fun(lowering, multiple_results=True)(ctx, *args)


def _find_spread_lowering(
    call: BoundCall, levels: Levels, jaxpr: Any, module: Any
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


def _warn_of_gathering(call: BoundCall, jaxpr: Any) -> None:
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
    warn_user(
        f"{record.name}: its arrays will be gathered on each device. The program is for several devices, and "
        f"XLA cannot look into the kernel to cut it. {cure}",
        CompilationWarning,
    )


def _explain_failure(call: BoundCall, jaxpr: Any, platforms: Sequence[str], error: Exception) -> None:
    """Raises an error for a kernel that JAX cannot lower, and returns if the reason is another one.

    Args:
        call: the bound call.
        jaxpr: its traced kernel.
        platforms: the platforms of the program.
        error: JAX's error.

    Raises:
        TracingError: the program is for several platforms, and has a Pallas kernel for one of them. JAX
            lowers the kernel of each platform for all of them.
        MissingRuleError: JAX has no lowering of an operation for the platform.
    """
    names = ", ".join(platforms)
    if min(len(platforms), len(call.kernel_slots)) > 1 and calls_any(jaxpr, _PALLAS):
        raise TracingError(
            f"{call.record.name}: a program for several platforms cannot contain a Pallas kernel of one of "
            f"them. Got {names}. Export one program for each platform: "
            f'jax.export.export(function, platforms=["{platforms[0]}"]).'
        )
    if isinstance(error, NotImplementedError) and not isinstance(error, MissingRuleError):
        raise MissingRuleError(
            f"{call.record.name}: JAX cannot lower the kernel for {names}. Got: {error}. Register a kernel "
            "for this platform with register_kernel, or move the arguments to another device."
        ) from error


def find_call_avals(
    *avals: Any, call: BoundCall, levels: Levels, call_jaxpr: Any = None, body: Uncompiled | None = None
) -> tuple[list[Any], Any]:
    """Returns the avals and effects of the primitive *op*, which are those of its traced kernel."""
    jaxpr = call_jaxpr if body is None else body.trace(call, levels, avals)
    effects = find_effects(jaxpr)
    if any(hasattr(effect, "input") for effect in effects):
        raise TracingError(
            f"{call}: the kernel uses a Ref that was made outside of it, and JAX cannot remove it from an op "
            "with rules of its own. Make the Ref in the kernel, or pass it as an argument (jax.Ref), or "
            'declare autograd="derive" for a kernel on arrays.'
        )
    return list(jaxpr.out_avals), effects
