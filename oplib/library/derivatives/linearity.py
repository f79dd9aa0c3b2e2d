"""The check that a rule is linear, so that its transpose is a derivative.

A backward formula must be linear in its cotangents, and a jvp rule in its tangents. JAX does not make this
check. Its transposition drops a term that does not depend on the cotangent, and returns 0 for a formula that
ignores the cotangent or rounds it. So this module reads the rule's jaxpr first, and refuses every primitive
that is not known to be linear. A kernel that cannot be read (a callback, Pallas) is refused in a backward
formula, whose transpose would be needed; in a jvp rule its author is trusted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.errors import AutogradError


class Kind(enum.Enum):
    """How a value depends on the cotangents."""

    zero = "zero whatever they are"
    free = "free of them"
    linear = "linear in them"
    opaque = "linear in them if its author is right"
    other = "otherwise"


Kinds = Sequence[Kind]
_FREE = frozenset({Kind.zero, Kind.free})

# Linear in all operands together.
_SUMS = frozenset(
    {
        "add", "add_any", "sub", "neg", "reduce_sum", "broadcast_in_dim", "reshape", "transpose", "squeeze",
        "expand_dims", "slice", "concatenate", "pad", "rev", "cumsum", "real", "imag", "conj", "complex",
        "reduce_window_sum", "fft", "reduce_precision", "split", "copy", "copy_p",
    }
)  # fmt: skip
# Each result is linear in the operand at its position.
_EACH = frozenset(
    {
        "psum", "psum_invariant", "pvary", "pcast", "all_gather", "all_to_all", "ppermute",
        "reduce_scatter", "sharding_constraint", "optimization_barrier", "device_put", "reshard", "name",
    }
)  # fmt: skip
# Linear in each operand.
_PRODUCTS = frozenset({"mul", "dot_general", "ragged_dot_general", "conv_general_dilated"})
# Linear in the first operand; the others are indices, divisors or points.
_FIRST = frozenset({"div", "dynamic_slice", "gather", "select_and_scatter_add", "select_and_gather_add"})
# Computations that this module cannot read.
_OPAQUE = frozenset({"pallas_call", "pure_callback", "io_callback", "ffi_call", "triton_kernel_call"})
# Functions with a custom derivative: the transpose may differ from the computation.
_CUSTOM_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call"})
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "shard_map": "jaxpr",
    "custom_partitioning": "call",
}


def check_linear(
    backward: Callable[..., Sequence[Any]], residuals: Sequence[Any], cotangents: Sequence[Any], op: str
) -> None:
    """Raises unless the jaxpr of a formula shows that it is linear in its cotangents.

    Args:
        backward: maps residuals and cotangents to gradients.
        residuals: arrays or shapes to trace the formula with.
        cotangents: arrays or shapes to trace the formula with.
        op: the name of the op, for the error.

    Raises:
        AutogradError: a result is not shown to be linear in the cotangents.
    """
    problem = find_nonlinear(backward, residuals, cotangents)
    if problem is not None:
        index, why = problem
        raise AutogradError(
            f"{op}: no forward mode can be derived from the backward formula. Gradient {index} is not "
            f"shown to be linear in the incoming gradients: {why}. Register a rule with register_jvp, "
            "or declare the formula with register_autograd(..., nonlinear=True)."
        )


def find_nonlinear(
    rule: Callable[..., Sequence[Any]],
    points: Sequence[Any],
    moving: Sequence[Any],
    *,
    trusts_opaque: bool = False,
) -> tuple[int, str] | None:
    """Returns the place of a result whose jaxpr does not show that it is linear, and why; None if all are.

    Args:
        rule: maps points and moving values to results.
        points: arrays or shapes to trace the rule with.
        moving: arrays or shapes, in which the results should be linear.
        trusts_opaque: a computation that cannot be read counts as linear.
    """
    closed = jax.jit(rule).trace(tuple(points), tuple(moving)).jaxpr
    further = len(closed.in_avals) - len(points) - len(moving)  # the traced values in its closure
    inputs = [Kind.free] * (further + len(points)) + [Kind.linear] * len(moving)
    for index, kind in enumerate(_read(closed, inputs)):
        if kind is Kind.free:
            return index, "it does not depend on them"
        if kind is Kind.other or (kind is Kind.opaque and not trusts_opaque):
            return index, "it seems to have another term"
    return None


def _read(jaxpr: Any, inputs: Kinds) -> list[Kind]:
    """Returns the kinds of the outputs of a jaxpr, closed or not."""
    constants = [_kind_of_constant(value) for value in getattr(jaxpr, "consts", ())]
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    kinds = dict(zip(jaxpr.constvars, constants or [Kind.free] * len(jaxpr.constvars), strict=True))
    kinds.update(zip(jaxpr.invars, inputs, strict=True))

    def find(var: Any) -> Kind:
        return _kind_of_constant(var.val) if hasattr(var, "val") else kinds[var]

    for equation in jaxpr.eqns:
        results = _read_equation(equation, [find(var) for var in equation.invars])
        kinds.update(zip(equation.outvars, results, strict=True))
    return [find(var) for var in jaxpr.outvars]


def _kind_of_constant(value: Any) -> Kind:
    if isinstance(value, Tracer) or not jnp.issubdtype(jnp.result_type(value), np.number):
        return Kind.free
    return Kind.free if np.any(np.asarray(value)) else Kind.zero


def _read_equation(equation: Any, operands: Kinds) -> Kinds:
    """Returns the kinds of the results of one equation; follows calls and control flow."""
    name, params, count = equation.primitive.name, equation.params, len(equation.outvars)
    if name in _CALLS:
        return _read(params[_CALLS[name]], operands)
    if name == "scan":
        return _read_loop(equation, operands)
    if name == "cond":
        branches = [_read(branch, operands[1:]) for branch in params["branches"]]
        return [_after(operands[:1], _add(kinds)) for kinds in zip(*branches, strict=True)]
    if name in _EACH:
        return operands
    if name == "while":
        return _read_while(params, operands)
    if "call" in params:  # an op; JAX differentiates the kernel of some
        kinds = _read(params["jaxpr"], operands)
        return kinds if params["call"].record.is_transparent else [_distrust(kind) for kind in kinds]
    if name in _CUSTOM_CALLS:
        return [_distrust(kind) for kind in _read(params["call_jaxpr"], operands)]
    return [_read_result(name, params, operands)] * count


def _read_loop(equation: Any, operands: Kinds) -> Kinds:
    """Returns the kinds of a scan's results."""
    body = equation.params["jaxpr"]
    inner = getattr(body, "jaxpr", body)
    # Found by their axes, because the names of the parameters differ between versions of JAX.
    carried = sum(map(_have_same_shape, equation.outvars, inner.outvars))
    last = sum(map(_have_same_shape, equation.invars, inner.invars))
    first = last - carried

    return _settle(
        operands[first:last], lambda carry: _read(body, [*operands[:first], *carry, *operands[last:]])
    )[1]


def _read_while(params: Any, operands: Kinds) -> Kinds:
    """Returns the kinds of the results of a ``while``; its condition may not depend on the cotangents."""
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carry, _ = _settle(
        operands[last:], lambda carry: _read(params["body_jaxpr"], [*operands[first:last], *carry])
    )
    condition = _read(params["cond_jaxpr"], [*operands[:first], *carry])
    return [_after(condition, kind) for kind in carry]


def _settle(carry: Kinds, read_body: Callable[[Kinds], Kinds]) -> tuple[Kinds, Kinds]:
    """Returns the kinds of a carry that another run of the body does not change, and those of its results."""
    while True:
        results = read_body(carry)
        after = [_add(pair) for pair in zip(carry, results, strict=False)]
        if after == list(carry):
            return carry, results
        carry = after


def _have_same_shape(outer: Any, inner: Any) -> bool:
    return outer.aval.shape == inner.aval.shape


def _read_result(name: str, params: Any, operands: Kinds) -> Kind:
    if name in _SUMS:
        return _add(operands)
    if name in _OPAQUE:
        return Kind.free if _FREE.issuperset(operands) else _distrust(_add(set(operands) - _FREE))
    if name in _PRODUCTS:
        return _multiply(operands)
    if name == "convert_element_type":  # a conversion to integers rounds
        return operands[0] if jnp.issubdtype(params["new_dtype"], jnp.inexact) else _unknown(operands)
    if name == "gather" and params.get("fill_value"):  # positions out of bounds are filled
        return _unknown(operands)
    if name in _FIRST:
        return _after(operands[1:], operands[0])
    if name == "integer_pow":
        return operands[0] if params["y"] == 1 else _unknown(operands)
    if name == "select_n":
        return _after(operands[:1], _add(operands[1:]))
    if name in ("scatter", "scatter-add", "scatter_add"):
        return _after(operands[1:2], _add([operands[0], operands[2]]))
    if name == "dynamic_update_slice":
        return _after(operands[2:], _add(operands[:2]))
    return _read_solution(name, params, operands)


def _read_solution(name: str, params: Any, operands: Kinds) -> Kind:
    """Returns the kind of a result that is linear in its last operands, at a point given by the first."""
    if name == "triangular_solve":
        return _after(operands[:1], operands[1])
    if name == "custom_linear_solve":
        point = sum(params["const_lengths"])
        return _after(operands[:point], _add(operands[point:]))
    if "linear" in params:  # the linear primitive of an op, under any overload name
        point = params["linear"].residual_count
        return _after(operands[:point], _add(operands[point:]))
    return _unknown(operands)


def _add(kinds: Iterable[Kind]) -> Kind:
    distinct = set(kinds) - {Kind.zero}
    if not distinct:
        return Kind.zero
    if Kind.opaque in distinct:
        distinct.discard(Kind.linear)
    return distinct.pop() if len(distinct) == 1 else Kind.other


def _multiply(kinds: Kinds) -> Kind:
    if Kind.zero in kinds:
        return Kind.zero
    factors = [kind for kind in kinds if kind is not Kind.free]
    return Kind.free if not factors else factors[0] if len(factors) == 1 else Kind.other


def _after(point: Kinds, kind: Kind) -> Kind:
    """Returns a kind that is valid if other operands do not depend on the cotangents."""
    return kind if _FREE.issuperset(point) else Kind.other


def _unknown(kinds: Kinds) -> Kind:
    return Kind.free if _FREE.issuperset(kinds) else Kind.other


def _distrust(kind: Kind) -> Kind:
    """Returns the kind of a result whose derivative cannot be read."""
    return Kind.opaque if kind is Kind.linear else kind
