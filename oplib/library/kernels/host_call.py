"""A numpy function as a function of arrays: run at once on concrete arrays, as a callback under a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .host_mark import call_host
from .tracing import any_traced


def make_host_call(
    function: Callable[..., Sequence[Any]], shapes: tuple[jax.ShapeDtypeStruct, ...], *, op: str
) -> Callable[..., tuple[Any, ...]]:
    """Makes a function of arrays from a numpy function; it has no derivative of its own.

    Args:
        function: takes numpy arrays, and returns one per shape, or None for zeros.
        shapes: the shapes of the results.
        op: the name of its op, for errors.
    """

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        results = function(*map(np.asarray, arrays))
        return tuple(
            np.zeros(shape.shape, shape.dtype) if result is None else np.asarray(result)
            for result, shape in zip(results, shapes, strict=True)
        )

    def call(*arrays: Any) -> tuple[Any, ...]:
        if any_traced(arrays):
            return tuple(call_host(run, shapes, arrays, op=op))
        return tuple(jnp.array(result) for result in run(*arrays))

    return call
