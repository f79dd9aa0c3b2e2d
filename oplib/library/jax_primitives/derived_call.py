"""Calls whose kernel JAX differentiates itself, for ops that request it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive, find_top_trace
from jax.interpreters import ad, batching, mlir

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.array_functions.concreteness import VALUE_ERRORS
from oplib.errors import MissingRuleError
from oplib.library.arguments.structure import Structure
from oplib.library.batching_and_sharding.levels import Levels
from oplib.library.kernels.kernel_choice import require_kernels
from oplib.library.op_records.record import Record
from oplib.protocols import AnyFunction

from .bound_call import BoundCall
from .linear_primitive import list_zeros, push_varied
from .own_refs import find_own_rule


class Uncompiled:
    """Stands for the traced kernel among the parameters of a call that runs as plain Python.

    Where the values are known, the kernel runs on them. A trace, which does not know them, traces it.

    Args:
        call: the call, whose traced forms live as long as what contains it.

    Attributes:
        structure: of the results, once the kernel has run.
    """

    __slots__ = ("_code", "_traced", "structure")

    def __init__(self, call: BoundCall) -> None:
        self._code = call.code
        self._traced: dict[Any, Any] = {}
        self.structure: Structure | None = None

    def trace(self, call: BoundCall, levels: Levels, avals: Sequence[Any]) -> Any:
        """Returns the jaxpr of the call; its lowering runs no Python again."""
        key = levels, tuple([(aval.shape, aval.dtype) for aval in avals])
        if key not in self._traced:
            self._traced[key] = call.trace(levels, avals)
        return self._traced[key]


def is_inlined(record: Record) -> bool:
    """Tells whether a compiled op is its kernels for JAX, which then chooses among the rules in them."""
    if record.is_built_in or record.kind == "host" or not record.derivative.derive:
        return False
    return record.jvp is None and record.sharding is None and record.vmap is None


def run_inlined(call: BoundCall, arrays: Sequence[Any]) -> tuple[Structure, list[Any]]:
    """Runs the kernel as a part of the caller, under the name of the op.

    It stays one compiled function where a transformation of JAX runs it at once.

    Raises:
        CapturedTracerError: the kernel closes over a traced value.
    """
    if call.is_plain:
        structure, outputs = call.run_plain((), arrays)
        return structure, [_mark.bind(value, name=call.record.name) for value in outputs]
    call.trace((), arrays)
    if "default" not in call.record.kernels:
        arrays = [_mark.bind(value, name="", call=call) for value in arrays]
    with jax.named_scope(call.record.name):
        structure, outputs = call.run(*arrays)
    return structure, [_mark.bind(value, name=call.record.name) for value in outputs]


def asks_policy() -> bool:
    """Tells whether JAX evaluates a function to ask a policy of ``jax.checkpoint`` about each operation.

    It does so before it differentiates the function, with its setting ``jax_remat3``.
    """
    return getattr(find_top_trace(()), "policy", None) is not None


class _OpName(Primitive):
    def bind(self, value: Any, *, name: str, **params: Any) -> Any:
        if name and asks_policy():
            return checkpoint_name(value, name)
        return super().bind(value, name=name, **params)


_mark = _OpName("op_name")
"""The identity. Where JAX differentiates it, the value gets the name of the op.

A name cannot be transposed, so it would end a calculation with tangents, as of a jvp rule that calls the op.
With a call, its lowering checks first that each platform has a kernel.
"""


def _differentiate_mark(primals: Any, tangents: Any, *, name: str, call: Any = None) -> tuple[Any, Any]:
    value = primals[0] if call is None else _mark.bind(*primals, name=name, call=call)
    return checkpoint_name(value, name) if name else value, tangents[0]


def _lower_mark(ctx: Any, value: Any, *, call: Any = None, **_: Any) -> Any:
    if call is not None:
        require_kernels(call.record, ctx.module_context.platforms, traced=call.kernel_slots)
    return [value]


_mark.def_impl(lambda value, **_: value)
_mark.def_abstract_eval(lambda aval, **_: aval)
mlir.register_lowering(_mark, _lower_mark)
batching.primitive_batchers[_mark] = lambda args, dims, **params: (_mark.bind(*args, **params), dims[0])
ad.primitive_jvps[_mark] = _differentiate_mark
ad.primitive_transposes[_mark] = lambda cotangent, *_, **__: [cotangent]


def refuse_own_rules(call: BoundCall, jaxpr: Any) -> None:
    """Raises MissingRuleError if a kernel beside a rule contains what only JAX itself can differentiate."""
    own = find_own_rule(jaxpr)
    if own is not None:
        raise MissingRuleError(
            f"{call}: JAX cannot differentiate a kernel that {own} where the op has a batching rule or a "
            "sharding rule: it would not find the rule for reverse mode. Register a backward formula and no "
            'autograd="derive", or the op without the other rule.'
        )


def derive(call: BoundCall, jaxpr: Any, primals: Any, tangents: Any) -> tuple[Any, list[Any]]:
    """Runs the kernel and JAX's own derivative of it, together, for ops that request it."""
    with jax.named_scope(call.record.name):
        return _push_marked(partial(_run_named, call, jaxpr), primals, tangents)


def _run_named(call: BoundCall, jaxpr: Any, *arrays: Any) -> list[Any]:
    return mark_results(call, bind_jaxpr(jaxpr)(*arrays))


def mark_results(call: BoundCall, values: Sequence[Any]) -> list[Any]:
    """Gives results the name of the op, for the policies of ``jax.checkpoint``."""
    return [checkpoint_name(value, call.record.name) for value in values]


def derive_plain(
    call: BoundCall, levels: Levels, body: Uncompiled, primals: Any, tangents: Any
) -> tuple[Any, list[Any]]:
    """Runs the kernel as plain Python, while JAX differentiates it.

    Raises:
        MissingRuleError: as for :func:`refuse_own_rules`; a kernel that reads values is not looked into.
    """
    if not call.record.is_built_in:
        with suppress(*VALUE_ERRORS):
            refuse_own_rules(call, call.trace(levels, list(map(jax.typeof, primals)), derivable=True))

    def run(*arrays: Any) -> Sequence[Any]:
        body.structure, outputs = call.run_plain(levels, arrays)
        return outputs

    return _push_marked(run, primals, tangents)


def _push_marked(run: AnyFunction, primals: Any, tangents: Any) -> tuple[Any, list[Any]]:
    outputs, results = push_varied(run, primals, tangents)
    pairs = zip(results, list_zeros(outputs), strict=True)
    return outputs, [zero if result.dtype == jax.dtypes.float0 else result for result, zero in pairs]
