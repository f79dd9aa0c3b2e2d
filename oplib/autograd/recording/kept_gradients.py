"""Gradients that are the same in each pass: those that formulas without residuals make of shared arrays.

A pass starts with a shared array, the gradient of a scalar. The formula of the reduction that gave the scalar
often reads nothing else, and repeats the number for each item.
"""

from __future__ import annotations

from typing import Any

from jax.core import Tracer

from oplib.autograd.array_functions.array_function import ArrayFunction, Arrays
from oplib.autograd.array_functions.compilation import is_jit_disabled
from oplib.tensor.devices.device import jax_config
from oplib.tensor.storage.constants import is_shareable, is_shared, mark_shared
from oplib.tensor.storage.escape import is_inside_trace


def run_without_residuals(function: ArrayFunction, grad: Any) -> Arrays:
    """Runs a formula that reads one gradient only. Small results for a shared array are kept and shared."""
    kept = function.kept
    if (
        kept is not None
        and kept[0] is grad
        and kept[1] is jax_config.jax_default_device  # a context manager of the user may have changed it
        and not is_inside_trace()
    ):
        return kept[2]
    results = function.run(grad)
    if is_shared(grad) and _may_be_kept(function, grad, results):
        for result in results:
            if result is not None:
                mark_shared(result)
        function.kept = grad, jax_config.jax_default_device, results
    return results


def _may_be_kept(function: ArrayFunction, grad: Any, results: Arrays) -> bool:
    if not function.compiled or is_jit_disabled():
        return False
    for result in results:
        if result is not None and (
            isinstance(result, Tracer) or result.committed or not is_shareable(result)
        ):
            return False
    run: Any = function.run
    return not run.trace(grad).jaxpr.effects
