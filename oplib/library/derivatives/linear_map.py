"""Backward formulas of linear ops: their transpose is the op, and JAX need not look into them.

A formula of an op with ``linear=True`` is the adjoint of the op. Under a trace it becomes a primitive: its
derivative is the formula at the tangent, and its transpose calls the op. So all orders follow, whatever
kernel and formula are made of. The op itself is differentiated in the carrier. This module is not there,
although it uses ``jax.interpreters``, because formulas are below the carrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from oplib.autograd.array_functions.array_function import Mask, bind_fixed, conjugate
from oplib.autograd.array_functions.array_types import match_type, sum_gradient, zeros_of
from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.array_functions.liveness import fill_unused, find_live_inputs
from oplib.autograd.array_functions.masks import find_true, mask_given, pick_given, pick_true, spread
from oplib.errors import CapturedTracerError
from oplib.library.batching_and_sharding.levels import Level, Levels, move_to_front
from oplib.library.kernels.tracing import any_traced, trace_to_jaxpr
from oplib.tracebacks import rule_of_jax

_map = Primitive("linear_map")


class LinearPlan(Protocol):
    """The part of the plan of a formula that this module uses."""

    apply: Any
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    constants: tuple[int, ...]
    wanted: Mask
    sources: tuple[int, ...]

    @property
    def op_name(self) -> str:
        """The name of the op."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Transposed:
    """The transpose of a formula: the op, mapped over levels of vmap.

    Attributes:
        plan: the plan of the formula.
        present: for each output of the op, whether the formula got a cotangent for it.
        given: the inputs for which the formula gives a gradient.
        levels: the levels of vmap. Cotangents and gradients have the axis of each.
    """

    plan: LinearPlan
    present: Mask
    given: tuple[int, ...]
    levels: Levels = ()

    def apply(self, constants: Sequence[Any], moving: Sequence[Any]) -> Sequence[Any]:
        """Applies the op to values at the positions of its gradients, and zeros for other linear inputs."""
        function = self._apply_one
        for level in self.levels:
            own = level.axes[len(level.axes) - len(constants) :]
            function = level.map(function, (own, 0))
        return function(tuple(constants), tuple(moving))

    def _apply_one(self, constants: Sequence[Any], moving: Sequence[Any]) -> Sequence[Any]:
        plan = self.plan
        values: list[Any] = list(map(zeros_of, plan.inputs))
        for index, value in zip(plan.constants, constants, strict=True):
            values[index] = value
        for index, value in zip(self.given, moving, strict=True):
            values[index] = conjugate(value)
        return list(map(conjugate, pick_true(plan.apply(values), self.present)))


def make_linear_map(
    formula: Callable[..., Sequence[Any]], plan: LinearPlan, present: Mask
) -> Callable[..., Sequence[Any]]:
    """Returns a formula of a linear op whose derivative and transpose JAX takes from the declaration.

    Args:
        formula: maps residuals and the given cotangents to the wanted gradients, with None for zeros. The
            last residuals are the inputs in which the op is not linear.
        plan: its plan.
        present: for each output, whether it has a cotangent.
    """
    indices = find_true(plan.wanted)

    def call(*arrays: Any) -> Sequence[Any]:
        if not any_traced(arrays):
            return formula(*arrays)
        has: list[bool] = []

        def run(*values: Any) -> list[Any]:
            grads = formula(*values)
            has[:] = mask_given(grads)
            return pick_given(grads)

        try:
            closed = trace_to_jaxpr(jax.jit(run), arrays, op=plan.op_name, part="backward formula")
        except CapturedTracerError:
            return formula(*arrays)
        if closed.effects:
            return formula(*arrays)
        count = len(plan.sources)
        live = find_live_inputs(closed.jaxpr)
        keeps = [read or index >= count - len(plan.constants) for index, read in enumerate(live)]
        operands = pick_true(arrays, keeps)
        given = tuple(pick_true(indices, has))
        results = _map.bind(
            *operands,
            forward=_leave_out(closed, keeps, operands),
            transposed=Transposed(plan, present, given),
            count=sum(keeps[:count]),
        )
        return spread(results, has)

    return call


def _leave_out(closed: Any, keeps: Sequence[bool], operands: Sequence[Any]) -> Any:
    """Returns the jaxpr without the inputs that it does not read."""
    if all(keeps):
        return closed

    return jax.jit(fill_unused(bind_jaxpr(closed), keeps, closed.in_avals)).trace(*operands).jaxpr


def _run(*operands: Any, forward: Any, **_: Any) -> list[Any]:
    return bind_jaxpr(forward)(*operands)


def _push(primals: Any, tangents: Any, *, forward: Any, count: int, **params: Any) -> Any:
    """Runs the formula at the tangents of the cotangents; JAX differentiates it by its residuals."""
    bind = partial(_map.bind, forward=forward, count=count, **params)
    outputs = bind(*primals)
    pushed = [ad.Zero(jax.typeof(output).to_tangent_aval()) for output in outputs]
    if any(not isinstance(tangent, ad.Zero) for tangent in tangents[count:]):
        pushed = bind(*primals[:count], *map(ad.instantiate_zeros, tangents[count:]))
    moves = tuple(
        index < count and not isinstance(tangent, ad.Zero) for index, tangent in enumerate(tangents)
    )
    if any(moves):
        vary, at = bind_fixed(bind_jaxpr(forward), primals, moves)
        own = jax.jvp(vary, at, tuple(pick_true(tangents, moves)))[1]
        pushed = list(map(ad.add_tangents, pushed, own))
    return outputs, pushed


def _transpose(cotangents: Any, *args: Any, transposed: Transposed, count: int, **_: Any) -> list[Any]:
    """Applies the op to the cotangents of the gradients."""
    constants = args[count - len(transposed.plan.constants) : count]
    results = transposed.apply(constants, list(map(ad.instantiate_zeros, cotangents)))
    moving = args[count:]
    avals = [arg.aval if ad.is_undefined_primal(arg) else None for arg in moving]
    return [None] * count + [
        None if aval is None else match_type(sum_gradient(value, aval), aval)
        for value, aval in zip(results, avals, strict=True)
    ]


def _batch(
    axis: Any, args: Any, dims: Any, *, forward: Any, transposed: Transposed, count: int
) -> tuple[list[Any], list[int | None]]:
    if not pick_given(dims):
        outputs = _map.bind(*args, forward=forward, transposed=transposed, count=count)
        return outputs, [None] * len(outputs)
    batched = (*(dim is not None for dim in dims[:count]), *[True] * (len(dims) - count))
    pairs = zip(args, dims, batched, strict=True)
    moved = [move_to_front(value, dim, axis.size if own else None) for value, dim, own in pairs]
    level = Level.of(axis, batched)
    mapped = jax.jit(level.map(bind_jaxpr(forward), level.axes)).trace(*moved).jaxpr
    own = replace(level, batched=batched[:count])
    levels = (*transposed.levels, own)
    outputs = _map.bind(*moved, forward=mapped, transposed=replace(transposed, levels=levels), count=count)
    return outputs, [0] * len(outputs)


_map.multiple_results = True
_map.def_impl(_run)
_map.def_abstract_eval(lambda *_, forward, **__: list(forward.out_avals))
mlir.register_lowering(_map, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_map] = rule_of_jax(_push)
ad.primitive_transposes[_map] = rule_of_jax(_transpose)
batching.fancy_primitive_batchers[_map] = rule_of_jax(_batch)
