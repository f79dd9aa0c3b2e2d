"""Compilers: what the user's compiler gets and must return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.errors import AutogradError, describe

from .segment import SegmentFunction
from .state import Compiler, counters


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


def compile_segment(compiler: Compiler, function: SegmentFunction, avals: Sequence[Any]) -> Any:
    """Compiles the function of a segment, and checks what the compiler returned.

    Args:
        compiler: the compiler.
        function: the function of the segment.
        avals: the shapes of its arguments.

    Raises:
        AutogradError: the result cannot be called, or it gives other results than the function.
    """
    compiled = compiler(function)
    counters["compiled_autograd"]["compiles"] += 1
    if not callable(compiled):
        raise AutogradError(
            f"compiled_autograd: compiler '{name_of(compiler)}' returned no callable to end_capture, which "
            f"takes it as compiled_fn. Got {type(compiled).__name__} for {function.__name__}. Return a "
            "function of the same arguments."
        )
    if compiler is not jax.jit:
        _check_results(compiler, function, compiled, avals)
    return compiled


def _check_results(
    compiler: Compiler, function: SegmentFunction, compiled: Any, avals: Sequence[Any]
) -> None:
    expected = [(value.shape, value.dtype) for value in function.jaxpr.out_avals]
    results = _try(compiled, avals)
    given = [(value.shape, value.dtype) for value in results] if isinstance(results, (tuple, list)) else None
    if given != expected:
        shown = (
            describe(results) if given is not None or hasattr(results, "shape") else type(results).__name__
        )
        raise AutogradError(
            f"compiled_autograd: compiler '{name_of(compiler)}' returned for {function.__name__} a function "
            f"with other results. Got {shown}, expected {describe(list(function.jaxpr.out_avals))}. Return a "
            "function that computes the same as the function that the compiler received."
        )


def _try(compiled: Any, avals: Sequence[Any]) -> Any:
    """Returns what a function gives for arguments of these shapes: by tracing it, or by a call with ones."""
    if isinstance(compiled, jax.stages.Compiled):
        return jax.tree_util.tree_leaves(compiled.out_info)
    try:
        return jax.eval_shape(compiled, *avals)
    except CONCRETIZATION_ERRORS:
        return compiled(*[jnp.ones(value.shape, value.dtype) for value in avals])
