"""The carrier: a pair of primitives per op, by which every JAX transformation finds the op's rules.

Only the modules of this package use ``jax.interpreters``. The primitive *op* is the call. *op.lin* is its
derivative, which is linear in the tangents: it lowers to the jvp rule or to the transposed backward formula,
and its transpose is the backward formula. Batching keeps both primitives and adds a *level*. Kernel and rules
stay written for one example and are mapped level by level, because a kernel that is inlined under vmap would
lose its rules. A third primitive carries the rules of an op to the results of a registered forward
(:mod:`.attachment`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import finalize

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from oplib.autograd.array_functions.array_function import Mask, has_gradient
from oplib.autograd.array_functions.compilation import are_concrete, bind_jaxpr
from oplib.autograd.array_functions.masks import mask_given, pick_given, pick_true, spread
from oplib.errors import MissingRuleError, describe
from oplib.library.arguments.structure import Structure
from oplib.library.batching_and_sharding.levels import Level, Levels, move_to_front, needs_axis, to_jax_array
from oplib.library.batching_and_sharding.varying import is_inside_shard_map, match_varying
from oplib.library.derivatives.formula import FormulaPlan
from oplib.library.kernels.tracing import any_traced
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record
from oplib.protocols import AnyFunction, Values
from oplib.tracebacks import rule_of_jax

from .attachment import Attached, attach, make_attachment
from .bound_call import BoundCall, Shapes
from .call_primitive import CallPrimitive, apply_call, find_call_avals, lower_call
from .call_transpose import transpose_call
from .captured import CapturedCall
from .derived_call import (
    Uncompiled,
    derive,
    derive_plain,
    is_inlined,
    mark_results,
    refuse_own_rules,
    run_inlined,
)
from .linear import Linear, make_linear
from .linear_primitive import (
    apply_linear,
    differentiate_linear,
    find_linear_avals,
    find_moving,
    list_zeros,
    lower_linear,
    make_zero,
    run_linear,
    transpose_linear,
)
from .rule_call import push_call, takes_results_of_rule
from .shared_results import take_shared

_carriers: dict[str, Carrier] = {}


_unused: list[Carrier] = []
LOCAL = "local_op"
"""The name of the pair of primitives that all local ops share."""


def find_carrier(overload: OpOverload) -> Carrier:
    """Returns the pair of primitives of an overload.

    JAX's tables keep a primitive for ever. So a pair whose overload is gone is given to another one: a jaxpr
    holds the overload by its parameters, and so none has the primitives any more.
    """
    name = LOCAL if overload.is_local else overload.name()
    carrier = _carriers.get(name)
    if carrier is None and name == LOCAL:
        return _carriers.setdefault(name, Carrier(name))
    if carrier is None:
        carrier = _carriers.setdefault(name, _take_unused(name) or Carrier(name))
        finalize(overload, _release, name).atexit = False
    return carrier


def _take_unused(name: str) -> Carrier | None:
    try:
        carrier = _unused.pop()
    except IndexError:
        return None
    carrier.call.name, carrier.linear.name, carrier.attachment.name = name, f"{name}.lin", name
    return carrier


def _release(name: str) -> None:
    carrier = _carriers.pop(name, None)
    if carrier is not None:
        _unused.append(carrier)


class Carrier:
    """The two primitives of one qualified name.

    Args:
        name: the qualified name, which jaxprs show.
    """

    def __init__(self, name: str) -> None:
        self.attachment = make_attachment(name, self._bind_linear)
        self.call = CallPrimitive(name, self.attachment, self._show)
        self.linear = Primitive(f"{name}.lin")
        self.call.def_effectful_abstract_eval(find_call_avals)
        self.linear.def_abstract_eval(find_linear_avals)
        self.call.def_impl(partial(apply_call, self.call))
        self.linear.def_impl(partial(apply_linear, self.linear))
        for primitive, lower in ((self.call, lower_call), (self.linear, lower_linear)):
            primitive.multiple_results = True
            # Some functions of JAX (searchsorted, expm) are primitives of a higher level.
            # JAX expands them before lowering, and asks each primitive whose jaxpr contains them to do so.
            # Those of oplib trace anew when they are lowered, and the new trace has only expanded primitives.
            primitive.is_high = lambda *_, **__: False
            mlir.register_lowering(primitive, lower)
        batching.fancy_primitive_batchers[self.call] = rule_of_jax(self._batch_call)
        batching.fancy_primitive_batchers[self.linear] = rule_of_jax(self._batch_linear)
        ad.primitive_jvps[self.call] = rule_of_jax(self._differentiate_call)
        ad.primitive_jvps[self.linear] = rule_of_jax(differentiate_linear)
        ad.primitive_transposes[self.call] = rule_of_jax(transpose_call)
        ad.primitive_transposes[self.linear] = rule_of_jax(transpose_linear)

    def bind(self, call: BoundCall, arrays: Sequence[Any]) -> list[Any]:
        """Binds the call in the current trace."""
        if call.captures:
            return CapturedCall(call, self.run_forward, self._bind_derivative).run(arrays)[1]
        body, arrays = _begin(call), _fit_operands(call, arrays)
        if is_inlined(call.record):
            return run_inlined(call, arrays)[1]
        return self._bind(call, (), arrays, body)

    def run(self, call: BoundCall, arrays: Sequence[Any]) -> tuple[Structure, list[Any]]:
        """Binds the call, and returns the structure of its results too."""
        if call.captures:
            return CapturedCall(call, self.run_forward, self._bind_derivative).run(arrays)
        body, arrays = _begin(call), _fit_operands(call, arrays)
        if is_inlined(call.record):
            return run_inlined(call, arrays)
        outputs = self._bind(call, (), arrays, body)
        known = None if body is None else body.structure
        return known or call.structure(arrays), outputs

    def _bind(
        self, call: BoundCall, levels: Levels, arrays: Sequence[Any], body: Uncompiled | None
    ) -> list[Any]:
        """Binds with the traced kernel as parameter: lowering traces nothing, and JAX can read the jaxpr."""
        if body is not None:
            return self.call.bind(*arrays, call=call, levels=levels, body=body)
        return self.call.bind(*arrays, call=call, levels=levels, call_jaxpr=call.trace(levels, arrays))

    def _batch_call(
        self, axis: Any, args: Any, dims: Any, *, call: BoundCall, levels: Levels, **kernel: Any
    ) -> Any:
        if not pick_given(dims) and not _call_needs(axis, args, call, levels, **kernel):
            outputs = self.call.bind(*args, call=call, levels=levels, **kernel)
            return outputs, [None] * len(outputs)
        level = Level.of(axis, mask_given(dims))
        moved = [move_to_front(value, dim) for value, dim in zip(args, dims, strict=True)]
        outputs = self._bind(call, (*levels, level), moved, kernel.get("body"))
        return take_shared(call, levels, level, moved, outputs)

    def _batch_linear(self, axis: Any, args: Any, dims: Any, *, linear: Linear, **life: Any) -> Any:
        run = partial(run_linear, linear=linear)
        if not pick_given(dims) and not needs_axis(axis, lambda: jax.make_jaxpr(run)(*args)):
            outputs = self.linear.bind(*args, linear=linear, **life)
            return outputs, [None] * len(outputs)
        batched = [move_to_front(value, dim, axis.size) for value, dim in zip(args, dims, strict=True)]
        outputs = self.linear.bind(*batched, linear=linear.batched(axis), **life)
        return outputs, [0] * len(outputs)

    def _differentiate_call(
        self,
        primals: Any,
        tangents: Any,
        *,
        call: BoundCall,
        levels: Levels,
        call_jaxpr: Any = None,
        body: Uncompiled | None = None,
    ) -> Any:
        kernel: dict[str, Any] = {"call_jaxpr": call_jaxpr} if body is None else {"body": body}
        primals = tuple(map(to_jax_array, primals))  # without jit, JAX passes what the user has passed
        tangents = [own if isinstance(own, ad.Zero) else to_jax_array(own) for own in tangents]
        if call.record.is_linear:
            outputs = self.call.bind(*primals, call=call, levels=levels, **kernel)
            moving = [None if isinstance(tangent, ad.Zero) else tangent for tangent in tangents]
            return outputs, self._apply_to_tangents(call, levels, primals, outputs, moving)
        is_transparent = call.record.is_transparent
        if is_transparent and body is not None and are_concrete(primals):
            return derive_plain(call, levels, body, primals, tangents)
        if is_transparent and call.record.sharding is None and call.record.vmap is None:
            whole = call_jaxpr or call.trace(levels, primals)
            return derive(call, whole, primals, tangents)
        if takes_results_of_rule(call.record):
            return self._differentiate_by_rule(call, levels, body, primals, tangents)
        if call.record.derivative.forward is not None:
            return self._differentiate_forward(call, levels, kernel, primals, tangents)
        if body is None and not is_transparent and _can_inline(call.record):
            outputs = self._inline(call, levels, call_jaxpr, primals)
        elif call.record.needs_kernel_derivative and any_traced(primals):
            outputs = self._attach_call(call, levels, primals, kernel)
        else:
            outputs = self.call.bind(*primals, call=call, levels=levels, **kernel)
        zeros = list_zeros(outputs)
        has_none = not any(has_gradient(zero.aval.dtype) for zero in zeros)
        if has_none or call.record.derivative.constant is not None:
            return outputs, zeros
        if is_transparent:
            has_trace = body is None and call.record.sharding is None
            whole = call_jaxpr if has_trace else call.trace(levels, primals, derivable=True)
            refuse_own_rules(call, whole)
            return outputs, derive(call, whole, primals, tangents)[1]
        structure = None if body is None else body.structure
        linear = partial(make_linear, call, levels, inputs=primals, outputs=outputs, structure=structure)
        return outputs, self._bind_linear(linear, tangents, zeros)

    def _apply_to_tangents(
        self,
        call: BoundCall,
        levels: Levels,
        primals: Any,
        outputs: Sequence[Any],
        tangents: Sequence[Any],
    ) -> list[Any]:
        """Returns the tangents of the outputs of a linear op: the op at tangents, and zeros for missing ones.

        Args:
            call: the bound call.
            levels: the levels of vmap.
            primals: the arrays of the call.
            outputs: its results.
            tangents: one tangent per array, or None for a constant.

        Raises:
            MissingRuleError: an argument has a tangent, and the formula gives no gradient for it.
        """
        wanted = mask_given(tangents)
        plan, _ = call.plan(wanted, primals, outputs, levels=levels)
        operands = list(primals)
        for index, (tangent, value) in enumerate(zip(tangents, primals, strict=True)):
            if index not in plan.constants:
                operands[index] = make_zero(jax.typeof(value)) if tangent is None else tangent
            elif tangent is not None:
                raise MissingRuleError(
                    f"{call}: argument '{call.layout.find_argument(index)}' has a tangent, and the backward "
                    "formula of the linear op gives no gradient for it. Got "
                    f"{describe(jax.typeof(tangent))}. Return its gradient without linear=True, or pass "
                    "jax.lax.stop_gradient(value)."
                )
        pushed = self._bind(call, levels, operands, _begin(call))
        pairs = zip(pushed, plan.differentiable, strict=True)
        return [value if has else ad.Zero(jax.typeof(value).to_tangent_aval()) for value, has in pairs]

    def _show(
        self,
        primals: Sequence[Any],
        bind: AnyFunction,
        *,
        call: BoundCall,
        levels: Levels,
        **kernel: Any,
    ) -> list[Any]:
        """Runs a call where a policy is asked about it before it is differentiated: see ``asks_policy``."""
        record, jaxpr = call.record, kernel.get("call_jaxpr")
        if jaxpr is None or not _can_inline(record) or takes_results_of_rule(record):
            return mark_results(call, bind(*primals, call=call, levels=levels, **kernel))
        if record.is_transparent:
            return mark_results(call, bind_jaxpr(jaxpr)(*primals))
        if record.derivative.forward is not None:
            wanted = tuple(has_gradient(jax.typeof(value).dtype) for value in primals)
            return self.run_forward(call, wanted, primals, levels=levels)[0]
        return self._inline(call, levels, jaxpr, primals)

    def _inline(self, call: BoundCall, levels: Levels, jaxpr: Any, primals: Any) -> list[Any]:
        """Runs the kernel where policies of ``jax.checkpoint`` see its operations; see :mod:`.attachment`."""
        with jax.named_scope(call.record.name):
            outputs = bind_jaxpr(jaxpr)(*map(jax.lax.stop_gradient, primals))
        attached = attach(self.attachment, Attached(call, levels, len(primals)), primals, outputs, ())
        return mark_results(call, attached)

    def _attach_call(
        self, call: BoundCall, levels: Levels, primals: Any, kernel: dict[str, Any]
    ) -> list[Any]:
        """Binds the call, and attaches the rules, so that an outer derivative knows that this is one."""
        held = map(jax.lax.stop_gradient, primals)
        outputs = self.call.bind(*held, call=call, levels=levels, **kernel)
        return attach(self.attachment, Attached(call, levels, len(primals)), primals, outputs, ())

    def _differentiate_forward(
        self, call: BoundCall, levels: Levels, kernel: dict[str, Any], primals: Any, tangents: Any
    ) -> tuple[list[Any], list[Any]]:
        """Runs the forward of an op instead of its kernel, and differentiates its results by the rules."""
        wanted = find_moving(tangents)
        body, jaxpr = kernel.get("body"), kernel.get("call_jaxpr")
        avals = () if levels or jaxpr is None else jaxpr.out_avals
        due = tuple(map(_forget_placement, avals))
        outputs, plan, extras = self.run_forward(call, wanted, primals, levels=levels, due=due)
        if body is not None:
            body.structure = plan.structure
        planned = plan, extras
        linear = partial(make_linear, call, levels, inputs=primals, outputs=outputs, planned=planned)
        return outputs, self._bind_linear(linear, tangents, list_zeros(outputs))

    def _differentiate_by_rule(
        self, call: BoundCall, levels: Levels, body: Uncompiled | None, primals: Any, tangents: Any
    ) -> tuple[list[Any], list[Any]]:
        """Takes results and tangents of the jvp rule, which runs instead of the kernel."""
        wanted = find_moving(tangents)
        structure, results, pushed = push_call(call, levels, wanted, primals, pick_true(tangents, wanted))
        if body is not None:
            body.structure = structure
        attached = attach(self.attachment, Attached(call, levels, len(primals)), primals, results, ())
        outputs = mark_results(call, attached)
        zeros = list_zeros(outputs)
        if call.record.jvp is not None and call.record.jvp.nonlinear:
            linear = partial(make_linear, call, levels, inputs=primals, outputs=outputs)
            return outputs, self._bind_linear(linear, tangents, zeros)  # its transposition raises
        return outputs, spread(pushed, [has_gradient(value.dtype) for value in outputs], zeros)

    def run_forward(
        self,
        call: BoundCall,
        wanted: Mask,
        arrays: Sequence[Any],
        *,
        levels: Levels = (),
        due: Shapes = (),
    ) -> tuple[list[Any], FormulaPlan, Sequence[Any]]:
        """Runs the forward of an op instead of its kernel.

        Args:
            call: the bound call.
            wanted: for each array, whether its gradient is needed.
            arrays: the arrays of the call.
            levels: the levels of vmap.
            due: the shapes of the kernel's results, if there are no levels.

        Returns:
            The results, which have the derivative of the op; the plan of the backward; the intermediates.
        """
        plan, outputs, extras = call.run_forward(levels, wanted, arrays, due)
        attached = Attached(call, levels, len(arrays), wanted, plan)
        results = attach(self.attachment, attached, arrays, outputs, extras)
        return mark_results(call, results), plan, extras

    def _bind_linear(self, make: AnyFunction, tangents: Any, zeros: Any) -> list[Any]:
        """Returns the tangents of outputs; ``make(wanted)`` gives the derivative and its residuals."""
        wanted = find_moving(tangents)
        linear, residuals = make(wanted)
        bind = run_linear if _runs_in_place(linear) else self._bind_derivative
        pushed = bind(*residuals, *pick_true(tangents, wanted), linear=linear)
        return spread(pushed, linear.differentiable, zeros)

    def _bind_derivative(self, *operands: Any, linear: Linear) -> list[Any]:
        return self.linear.bind(*operands, linear=linear, **linear.call.life)

    def push(
        self, call: BoundCall, arrays: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> Values:
        """Returns the tangents of the outputs of a finished call: None for an output that cannot have one.

        Args:
            call: the bound call.
            arrays: the arrays of the call.
            outputs: the results of the call.
            tangents: one tangent per array, or None for a constant.
        """
        none = list_zeros(outputs)
        if call.record.is_transparent:
            pairs = zip(tangents, list_zeros(arrays), strict=True)
            full = [zero if own is None else own for own, zero in pairs]
            derived = derive(call, call.trace((), arrays, derivable=True), arrays, full)[1]
        elif call.record.is_linear:
            derived = self._apply_to_tangents(call, (), arrays, outputs, tangents)
        else:
            wanted = mask_given(tangents)
            linear, residuals = make_linear(call, (), wanted, inputs=arrays, outputs=outputs)
            operands = [*residuals, *pick_given(tangents)]
            bind = (
                run_linear if call.record.takes_tensors else self._bind_derivative
            )  # eager rules are not traced
            results = bind(*operands, linear=linear)
            derived = spread(results, linear.differentiable)
        return tuple(
            None if tangent is None or zero.aval.dtype == jax.dtypes.float0 else ad.instantiate_zeros(tangent)
            for zero, tangent in zip(none, derived, strict=True)
        )


def _fit_operands(call: BoundCall, arrays: Sequence[Any]) -> Sequence[Any]:
    """Casts operands to vary over the same mesh axes, for a kernel that JAX cannot trace otherwise.

    An example is a loop whose first carry is replicated and whose later carries vary.
    """
    if is_inside_shard_map():
        try:
            call.trace((), arrays)
        except TypeError:
            return match_varying(arrays)
    return arrays


def _call_needs(
    axis: Any,
    args: Sequence[Any],
    call: BoundCall,
    levels: Levels,
    *,
    call_jaxpr: Any = None,
    body: Uncompiled | None = None,
) -> bool:
    """Tells whether a kernel uses the axis of a map none of whose values is mapped."""
    return needs_axis(
        axis, lambda: call_jaxpr if body is None else body.trace(call, levels, list(map(jax.typeof, args)))
    )


def _forget_placement(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _runs_in_place(linear: Linear) -> bool:
    """Tells whether a derivative is a jvp rule, which JAX transposes, unless it is declared nonlinear."""
    rule = linear.call.record.jvp
    return linear.plan is None and rule is not None and not rule.nonlinear


def _can_inline(record: Record) -> bool:
    """Tells whether the kernel is the same for every platform, every part of arrays and every batch."""
    is_sole = record.kind != "host" and record.sole_kernel is not None
    return is_sole and record.sharding is None and record.vmap is None and record.derivative.constant is None


def _begin(call: BoundCall) -> Uncompiled | None:
    """Returns the parameter of a call that runs as plain Python, None for any other."""
    return Uncompiled(call) if call.is_plain else None
