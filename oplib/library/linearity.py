"""Is a backward formula linear in its cotangents, so that transposing it gives a forward mode?

``jax.linear_transpose`` refuses most formulas that are not linear, but silently drops a term that is free of
the cotangent, and answers 0 for a formula that ignores it. So the formula's jaxpr is read first: with zeros
for cotangents every result must be zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from oplib.errors import AutogradError

# Zero as soon as one operand is zero.
_PRODUCTS = frozenset({"mul", "dot_general", "conv_general_dilated", "and"})
# Zero where the first operand is zero; the others are indices, divisors or shapes.
_FIRST = frozenset({"div", "dynamic_slice", "reduce_precision"})
_CALLS = frozenset(
    {"jit", "pjit", "closed_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
)
# Zero where all operands are zero.
_SUMS = frozenset(
    {
        "add", "add_any", "sub", "neg", "reduce_sum", "broadcast_in_dim", "reshape", "transpose", "squeeze",
        "expand_dims", "convert_element_type", "slice", "concatenate", "pad", "rev", "cumsum", "copy",
        "real", "imag", "conj", "complex", "psum", "psum_invariant", "pvary", "pcast", "all_gather",
        "ppermute", "sharding_constraint", "reduce_window_sum", "optimization_barrier", "device_put", "sign",
        "abs", "copy_p", "select_and_scatter_add", "split", "stop_gradient",
    }
)  # fmt: skip


def check_linear(
    backward: Callable[..., Sequence[Any]], residuals: Sequence[Any], cotangents: Sequence[Any], op: str
) -> None:
    """Raises unless a formula is zero for zero cotangents, as far as its jaxpr shows.

    Args:
        backward: from residuals and cotangents to gradients.
        residuals: arrays or shapes to trace it with.
        cotangents: likewise.
        op: the op's name, for the error.

    Raises:
        AutogradError: a result has a term free of the cotangents.
    """
    closed = jax.jit(backward).trace(tuple(residuals), tuple(cotangents)).jaxpr
    inputs = [False] * len(residuals) + [True] * len(cotangents)
    zero = _find_zeros(closed.jaxpr, [False] * len(closed.jaxpr.constvars), inputs)
    for place, is_zero in enumerate(zero):
        if not is_zero:
            raise AutogradError(
                f"{op}: no forward mode can be derived from the backward formula. Gradient {place} is not "
                "shown to be linear in the incoming gradients: it seems to keep a term when these are zero. "
                "Register a rule with register_jvp, or declare the formula with register_autograd(..., "
                "nonlinear=True)."
            )


def _find_zeros(jaxpr: Any, constants: list[bool], inputs: list[bool]) -> list[bool]:
    """Which outputs are zero when the marked variables are."""
    zeros = {var for var, zero in zip(jaxpr.constvars, constants, strict=True) if zero}
    zeros |= {var for var, zero in zip(jaxpr.invars, inputs, strict=True) if zero}

    def is_zero(var: Any) -> bool:
        return bool(np.all(np.asarray(var.val) == 0)) if hasattr(var, "val") else var in zeros

    for equation in jaxpr.eqns:
        results = _zero_results(equation, [is_zero(var) for var in equation.invars])
        zeros.update(var for var, zero in zip(equation.outvars, results, strict=True) if zero)
    return [is_zero(var) for var in jaxpr.outvars]


def _zero_results(equation: Any, operands: list[bool]) -> list[bool]:
    """Which results of one equation are zero; control flow is looked into."""
    name, params, count = equation.primitive.name, equation.params, len(equation.outvars)
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if name in _CALLS and inner is not None:
        return _enter(inner, operands)
    if name == "scan":
        return _scan(params, operands)
    if name == "cond":
        branches = [_enter(branch, operands[1:]) for branch in params["branches"]]
        return [all(results) for results in zip(*branches, strict=True)]
    return [_is_zero_result(name, params, operands)] * count


def _is_zero_result(name: str, params: Any, operands: list[bool]) -> bool:
    if name in _PRODUCTS:
        return any(operands)
    if name in _FIRST:
        return operands[0]
    if name == "gather":  # what is out of bounds is filled
        return operands[0] and params.get("fill_value") in (None, 0)
    if name == "integer_pow":
        return operands[0] and params["y"] > 0
    if name == "select_n":
        return all(operands[1:])
    if name.startswith("scatter"):
        return operands[0] and operands[2]
    if name == "dynamic_update_slice":
        return operands[0] and operands[1]
    # The linear primitive of an op is the one with this parameter, whatever an overload is called.
    return all(operands) and (name in _SUMS or "linear" in params)


def _scan(params: Any, operands: list[bool]) -> list[bool]:
    """A loop: what is zero at the start of every step; what is not is left out until nothing changes."""
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    carry = operands[first:last]
    while True:
        results = _enter(params["jaxpr"], [*operands[:first], *carry, *operands[last:]])
        after = [before and result for before, result in zip(carry, results, strict=False)]
        if after == carry:
            return results
        carry = after


def _enter(inner: Any, operands: list[bool]) -> list[bool]:
    if hasattr(inner, "consts"):
        constants = [bool(np.all(np.asarray(value) == 0)) for value in inner.consts if not _is_traced(value)]
        known = len(constants) == len(inner.consts)
        return _find_zeros(inner.jaxpr, constants if known else [False] * len(inner.consts), operands)
    return _find_zeros(inner, [False] * len(inner.constvars), operands)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)
