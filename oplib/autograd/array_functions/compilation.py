"""Whether and under which name functions of arrays are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from traceback import extract_tb
from typing import Any

import jax
from jax.core import Tracer, eval_jaxpr

from oplib.config import config
from oplib.protocols import AnyFunction
from oplib.tensor.storage.failed_reads import refuse_caught_reads
from oplib.tracebacks import is_inside

_SEARCH = "oplib.visual.first_nan(step, *args) names the call of the first NaN, its line and its operands."


def is_uncompiled() -> bool:
    """Tells whether kernels and rules run as plain Python now, by oplib's setting or ``jax.disable_jit``."""
    return not config.compile_kernels or is_jit_disabled()


def is_jit_disabled() -> bool:
    """Tells whether the code runs under ``jax.disable_jit``."""
    return jax.config.jax_disable_jit  # pyright: ignore[reportAttributeAccessIssue]  made at run time


def are_concrete(arrays: Iterable[Any]) -> bool:
    """Tells whether all values are known, if only behind a tracer of a derivative."""
    return all(not isinstance(value, Tracer) or value.to_concrete_value() is not None for value in arrays)


def bind_jaxpr(closed: Any) -> Callable[..., list[Any]]:
    """Returns a closed jaxpr as a function.

    ``jaxpr_as_fun`` would leave a block of ``jax.debug_nans(False)``, which ends JAX's checks in the thread.
    """

    def run(*arrays: Any) -> list[Any]:
        try:
            return eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
        except FloatingPointError as error:
            _tell_line(error, error)
            raise
        except Exception as error:
            if type(error).__name__ != "InternalFloatingPointError":
                raise
            name, kind = error.args  # JAX forgets to give it the class that users can catch
            better = FloatingPointError(f"invalid value ({kind}) encountered in {name}")
            _tell_line(better, error)
            raise better from None

    return run


def _tell_line(error: FloatingPointError, found: Exception) -> None:
    """Adds the user's line of the equation that made a NaN. JAX runs a jaxpr op by op to find it."""
    traced = found.__cause__  # the stack of the equation, which JAX drops at its next function
    stack = extract_tb(traced and traced.__traceback__)
    lines = [frame for frame in stack if not is_inside[frame.filename]]
    if lines:
        error.add_note(
            f"Traced at {lines[-1].filename}:{lines[-1].lineno}, in {lines[-1].name}: {lines[-1].line}"
        )
        advise_first_nan(error)


def advise_first_nan(error: BaseException) -> None:
    """Says in an error of ``jax.debug_nans`` how to find the call that made the NaN, and its operands."""
    if isinstance(error, FloatingPointError) and _SEARCH not in getattr(error, "__notes__", ()):
        error.add_note(_SEARCH)


def rename_function(function: AnyFunction, name: str) -> AnyFunction:
    """Gives a function the name under which compiled code shows it."""
    function.__name__ = function.__qualname__ = name
    return function


def name_traced(function: AnyFunction, name: str) -> AnyFunction:
    """Returns a function, to be compiled under a name, whose trace may not go on after a failed read."""
    return rename_function(partial(refuse_caught_reads, name, function), name)
