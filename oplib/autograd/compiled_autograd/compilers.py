"""Compilers: what the user's compiler gets and must return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.errors import AutogradError, describe

from .segment_function import SegmentFunction
from .state import Compiler, counters

_JITTED: Any = type(jax.jit(lambda: None))


def name_of(compiler: object) -> str:
    """Returns the name of a compiler for errors."""
    return getattr(compiler, "__name__", type(compiler).__name__)


def check_compiler(compiler: object) -> None:
    """Raises if a compiler cannot be called."""
    if not callable(compiler):
        raise AutogradError(
            f"compiled_autograd: 'compiler_fn' cannot be called. Got {type(compiler).__name__}. Give a "
            "function that compiles a function of arrays, such as jax.jit."
        )


def compile_segment(compiler: Compiler, function: SegmentFunction) -> Callable[..., Any]:
    """Compiles the function of a segment, and checks what the compiler returned.

    Raises:
        AutogradError: the result cannot be called, or it gives other results than the function.
        Exception: what the compiler, or the function that it returned, raises, with a note that names it.
    """
    counters["compiled_autograd"]["compiles"] += 1
    try:
        compiled = compiler(function)
        if compiler is jax.jit:
            return compiled
        results = _try(compiled, function.jaxpr.in_avals) if callable(compiled) else None
    except Exception as error:
        error.add_note(f"Raised by the compiler '{name_of(compiler)}' for {function.__name__}.")
        raise
    if not callable(compiled):
        raise AutogradError(
            f"compiled_autograd: compiler '{name_of(compiler)}' returned no callable to end_capture, which "
            f"takes it as compiled_fn. Got {type(compiled).__name__} for {function.__name__}. Return a "
            "function of the same arguments."
        )
    _check_results(compiler, function, results)
    if isinstance(compiled, (jax.stages.Compiled, _JITTED)):
        return compiled  # the results are those that were checked

    def call(*arrays: Any) -> Any:
        results = compiled(*arrays)
        _check_results(compiler, function, results)
        return results

    return call


def _check_results(compiler: Compiler, function: SegmentFunction, results: Any) -> None:
    """Raises if results have other shapes or dtypes than those of the function."""
    due = function.jaxpr.out_avals
    if (
        isinstance(results, (tuple, list))
        and len(results) == len(due)
        and all(
            (getattr(result, "shape", None), getattr(result, "dtype", None)) == (aval.shape, aval.dtype)
            for result, aval in zip(results, due, strict=True)
        )
    ):
        return
    is_shown = isinstance(results, (tuple, list)) or hasattr(results, "shape")
    shown = describe(results) if is_shown else type(results).__name__
    raise AutogradError(
        f"compiled_autograd: compiler '{name_of(compiler)}' returned for {function.__name__} a function "
        f"with other results. Got {shown}, expected {describe(list(due))}. Return a function that computes "
        "the same as the function that the compiler received."
    )


def _try(compiled: Any, avals: Sequence[Any]) -> Any:
    """Returns what a function gives for arguments of these shapes: by tracing it, or by a call with ones."""
    if isinstance(compiled, jax.stages.Compiled):
        return jax.tree_util.tree_leaves(compiled.out_info)
    results: list[Any] = []

    def keep(*arrays: Any) -> None:  # JAX would refuse results that are no arrays, and blame nobody
        results.append(jax.tree_util.tree_map(_forget_values, compiled(*arrays)))

    try:
        jax.eval_shape(keep, *avals)
    except CONCRETIZATION_ERRORS:
        return compiled(*[jnp.ones(value.shape, value.dtype) for value in avals])
    return results[0]


def _forget_values(result: Any) -> Any:
    """Returns the shape of an array, which may belong to a trace."""
    return jax.typeof(result) if isinstance(result, jax.Array) else result
