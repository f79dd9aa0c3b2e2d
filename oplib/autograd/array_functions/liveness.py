"""Analysis of jaxprs: which inputs the outputs read, which outputs are inputs, and whether they cost much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import subjaxprs

from oplib.protocols import AnyFunction, Values

from .array_types import zeros_of
from .compilation import bind_jaxpr, is_jit_disabled

Arrays = Values

_COSTLY = frozenset(
    {
        "scan", "while", "pallas_call", "triton_kernel_call", "pure_callback", "io_callback", "ffi_call",
        "dot_general", "ragged_dot_general", "conv_general_dilated", "sort", "fft", "cholesky", "lu", "qr",
        "eig", "eigh", "svd", "schur", "hessenberg", "triangular_solve", "tridiagonal_solve",
    }
)  # fmt: skip
"""Primitives that are not computed again where their results can be saved."""


def find_live_inputs(jaxpr: Any, wanted: Sequence[bool] | None = None) -> tuple[bool, ...]:
    """Returns for each input of a jaxpr whether some output depends on its value.

    The analysis follows calls of jitted functions and the branches of a ``cond``. Other higher-order
    primitives count as reading all inputs.
    """
    return _live(jaxpr, [True] * len(jaxpr.outvars) if wanted is None else wanted)


def find_dependent(jaxpr: Any, inputs: Sequence[bool], *, skips_choices: bool) -> tuple[bool, ...]:
    """Returns for each output of a jaxpr whether it depends on the value of one of these inputs.

    A value that only an effect reads does not count.

    Args:
        jaxpr: a ``jax.extend.core.Jaxpr`` (not closed).
        inputs: for each input, whether it counts.
        skips_choices: values computed through bools and integers do not count, such as the index of an item
            or the choice between two items.
    """
    indices = range(len(jaxpr.outvars))
    lives = [
        _live(jaxpr, [index == other for other in indices], skips_effects=True, skips_choices=skips_choices)
        for index in indices
    ]
    return tuple(any(read and counts for read, counts in zip(live, inputs, strict=True)) for live in lives)


def is_costly(jaxpr: Any) -> bool:
    """Tells whether a jaxpr, closed or not, contains more than operations on the elements of arrays."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return any(equation.primitive.name in _COSTLY for equation in jaxpr.eqns) or any(
        map(is_costly, subjaxprs(jaxpr))
    )


def drop_dead(function: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Returns a function that evaluates only the equations that its results and effects read.

    It must be called while JAX traces.

    A formula that JAX derives from a kernel computes the kernel too. XLA removes that, but a program of many
    formulas would be traced and lowered with it.
    """

    def run(*arrays: Any) -> Arrays:
        if is_jit_disabled():
            return function(*arrays)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arrays)
        live = {var for var in closed.jaxpr.outvars if not _is_literal(var)}
        kept: list[Any] = []
        for equation in reversed(closed.jaxpr.eqns):
            if equation.effects or not live.isdisjoint(equation.outvars):
                live.update(var for var in equation.invars if not _is_literal(var))
                kept.append(equation)
        smaller = closed.replace(jaxpr=closed.jaxpr.replace(eqns=kept[::-1]))
        results = bind_jaxpr(smaller)(*arrays)
        if arrays and results and live.isdisjoint(smaller.jaxpr.invars):
            # else JAX forgets the operands, which tell it the devices of zeros on a mesh
            results, _ = lax.optimization_barrier((results, arrays[0]))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def fill_unused(function: AnyFunction, used: Sequence[bool], avals: Sequence[Any]) -> AnyFunction:
    """Returns a function of the used inputs alone. Zeros stand for the others."""

    def filled(*arrays: Any) -> Any:
        rest = iter(arrays)
        pairs = zip(used, avals, strict=True)
        return function(*[next(rest) if use else zeros_of(aval) for use, aval in pairs])

    return filled


def find_forwarded(jaxpr: Any) -> tuple[int, ...] | None:
    """Returns the index of the input that each output of a jaxpr is, or None if some output is computed."""
    indices = {var: index for index, var in enumerate(jaxpr.invars)}
    if any(_is_literal(var) or var not in indices for var in jaxpr.outvars):
        return None
    return tuple(indices[var] for var in jaxpr.outvars)


def _live(
    jaxpr: Any, wanted: Sequence[bool], *, skips_effects: bool = False, skips_choices: bool = False
) -> tuple[bool, ...]:
    live = {var for var, want in zip(jaxpr.outvars, wanted, strict=True) if want and not _is_literal(var)}
    for equation in reversed(jaxpr.eqns):
        outputs = [var in live and not (skips_choices and _is_choice(var)) for var in equation.outvars]
        if not live.isdisjoint(_list_refs(equation)):
            live.update(var for var in equation.invars if not _is_literal(var))
        elif any(outputs) or (equation.effects and not skips_effects):
            live.update(_read_by(equation, outputs, skips_effects=skips_effects, skips_choices=skips_choices))
    return tuple(var in live for var in jaxpr.invars)


def _list_refs(equation: Any) -> list[Any]:
    """Returns the Refs that an equation reads or writes. A later read of one depends on all that it gets."""
    return [var for var in equation.invars if hasattr(var.aval, "inner_aval")]


def _is_choice(var: Any) -> bool:
    return not jnp.issubdtype(var.aval.dtype, jnp.inexact)


def _read_by(equation: Any, outputs: list[bool], **skips: bool) -> list[Any]:
    params, choices = equation.params, equation.params.get("branches", ())
    inner = (params["jaxpr"],) if equation.primitive.name in ("jit", "pjit") else choices
    lives = [_live(each.jaxpr, outputs, **skips) for each in inner] or [(True,) * len(equation.invars)]
    reads = [True] * bool(choices) + [any(read) for read in zip(*lives, strict=True)]
    return [var for var, read in zip(equation.invars, reads, strict=True) if read and not _is_literal(var)]


def _is_literal(var: Any) -> bool:
    return hasattr(var, "val")
