"""A backward formula annotated ``numpy.ndarray``: plain Python on the host, as its kernel is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_function import Mask

from .formula import complete_cotangents, restore_context, take_gradients
from .tracing import grad_off

if TYPE_CHECKING:
    from .setup import FormulaPlan


def make_host_formula(
    plan: FormulaPlan, rule: Callable[..., Any], given: Mask
) -> Callable[..., tuple[Any, ...]]:
    """Returns ``(*residuals, *given cotangents) -> gradients of the wanted inputs``, run by numpy.

    On concrete arrays it runs at once; under a trace it is a callback with the shapes of the inputs, so it
    has no derivative of its own.
    """
    shapes = tuple(shape for shape, want in zip(plan.inputs, plan.wanted, strict=True) if want)

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        residuals = [np.asarray(value) for value in arrays[: len(plan.sources)]]
        cotangents = complete_cotangents(plan, iter(arrays[len(plan.sources) :]), given, np)
        flat = [None if grad is None else np.asarray(grad) for grad in cotangents]
        with grad_off():
            result = rule(restore_context(plan, residuals), *plan.structure.rebuild_grads(flat))
        grads = take_gradients(plan, result, np)
        return tuple(
            np.zeros(shape.shape, shape.dtype) if grad is None else np.asarray(grad)
            for grad, shape in zip(grads, shapes, strict=True)
        )

    def formula(*arrays: Any) -> tuple[Any, ...]:
        if any(isinstance(value, jax.core.Tracer) for value in arrays):
            return tuple(jax.pure_callback(run, shapes, *arrays, vmap_method="sequential"))
        return tuple(jnp.array(grad) for grad in run(*arrays))

    return formula
