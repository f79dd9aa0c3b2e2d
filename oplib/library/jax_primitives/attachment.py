"""The results of an inlined kernel or forward, and the rules of the op attached to them.

A kernel, or the forward instead of it, is inlined where an op is differentiated. So JAX sees its operations:
the policies of ``jax.checkpoint`` choose among them, and the by-products of a forward have derivatives of
their own. The results, however, have the derivative that is registered, at every order. The primitive of this
module is the identity of the results that carries this derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.masks import mask_given, pick_given
from oplib.library.batching_and_sharding.levels import Level, Levels, move_to_front, to_jax_array
from oplib.library.derivatives.formula import FormulaPlan
from oplib.tracebacks import rule_of_jax

from .bound_call import BoundCall
from .linear import make_linear
from .linear_primitive import find_moving, list_zeros
from .shared_results import take_shared

BindLinear = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True, repr=False)
class Attached:
    """The parameter of the primitive: a call whose kernel or forward has run.

    Attributes:
        call: the bound call.
        levels: the levels of vmap.
        input_count: the number of inputs.
        wanted: for each input, whether the forward has saved what its gradient needs; None for a kernel.
        plan: the plan of the backward, if a forward has run.
    """

    call: BoundCall
    levels: Levels
    input_count: int
    wanted: Mask | None = None
    plan: FormulaPlan | None = None

    def __repr__(self) -> str:
        return f"rules of {self.call}"

    def split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Returns the inputs, results and intermediates among the arguments of the primitive."""
        first = self.input_count
        last = len(values) if self.plan is None else first + len(self.plan.outputs)
        return values[:first], values[first:last], values[last:]

    def make_linear(self, values: Sequence[Any], outputs: Sequence[Any], wanted: Mask) -> Any:
        """Returns the derivative of the call and its residuals; other gradients need another forward."""
        inputs, _, extras = self.split(values)
        planned = None if self.plan is None or wanted != self.wanted else (self.plan, extras)
        return make_linear(
            self.call, self.levels, wanted, inputs=inputs, outputs=outputs, planned=planned, is_outer=True
        )


def make_attachment(name: str, bind_linear: BindLinear) -> Primitive:
    """Makes the primitive of one op.

    Args:
        name: the name of the primitive.
        bind_linear: binds the derivative of a call: ``(make, tangents, zeros) -> tangents of the results``.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(_pick)
    primitive.def_abstract_eval(_pick)
    mlir.register_lowering(primitive, _lower)
    batching.fancy_primitive_batchers[primitive] = rule_of_jax(partial(_batch, primitive))
    ad.primitive_jvps[primitive] = rule_of_jax(partial(_differentiate, primitive, bind_linear))
    return primitive


def attach(
    primitive: Primitive,
    attached: Attached,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    extras: Sequence[Any],
) -> list[Any]:
    """Returns the results of a kernel or forward, with the derivative of the op."""
    return primitive.bind(*inputs, *outputs, *extras, attached=attached, **attached.call.life)


def _pick(*values: Any, attached: Attached, **_: Any) -> list[Any]:
    return list(attached.split(values)[1])


def _lower(ctx: Any, *values: Any, attached: Attached, **_: Any) -> list[Any]:
    del ctx  # the results are arguments
    return _pick(*values, attached=attached)


def _batch(primitive: Primitive, axis: Any, args: Any, dims: Any, *, attached: Attached, **life: Any) -> Any:
    if not pick_given(dims):
        outputs = primitive.bind(*args, attached=attached, **life)
        return outputs, [None] * len(outputs)
    count = attached.input_count
    level = Level.of(axis, mask_given(dims[:count]))
    moved = [
        move_to_front(value, dim, None if index < count else axis.size)
        for index, (value, dim) in enumerate(zip(args, dims, strict=True))
    ]
    batched = replace(attached, levels=(*attached.levels, level))
    outputs = primitive.bind(*moved, attached=batched, **life)
    return take_shared(attached.call, attached.levels, level, moved[:count], outputs)


def _differentiate(
    primitive: Primitive,
    bind_linear: BindLinear,
    primals: Any,
    tangents: Any,
    *,
    attached: Attached,
    **life: Any,
) -> Any:
    primals = tuple(map(to_jax_array, primals))
    outputs = primitive.bind(*primals, attached=attached, **life)
    zeros, moving = list_zeros(outputs), tangents[: attached.input_count]
    if True not in find_moving(moving):
        return outputs, zeros
    return outputs, bind_linear(partial(attached.make_linear, primals, outputs), moving, zeros)
