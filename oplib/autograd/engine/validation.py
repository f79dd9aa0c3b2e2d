"""Validation of gradients: each is checked against its edge, and summed or cast if needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_types import sum_gradient
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.gradient_representation import is_array_class, is_tracer_class
from oplib.errors import AutogradError, describe
from oplib.tensor import Tensor, upcalls

if TYPE_CHECKING:
    from oplib.autograd.nodes.gradient_representation import GradientRepresentation
    from oplib.autograd.nodes.node import Edge, Gradients


def check_count(results: Sequence[Any], count: int, source: Callable[[], str], of_what: str) -> None:
    """Raises AutogradError if a node returned too few results, or further ones that are not None."""
    if len(results) < count or pick_given(results[count:]):
        raise AutogradError(
            f"{source()}: it returned an incorrect number of gradients. Got {len(results)}, expected "
            f"{count}, one for each {of_what}. Return None for one without gradient."
        )


def validate_gradients(
    grads: Gradients,
    edges: Sequence[Edge | None],
    source: Callable[[], str],
    representation: GradientRepresentation,
) -> Gradients:
    """Checks gradients against their edges, and sums and casts those that do not fit exactly.

    Args:
        grads: one gradient for each edge, or None.
        edges: the edges.
        source: names, in errors, the function that returned the gradients.
        representation: the type of the gradients.

    Raises:
        AutogradError: the number of gradients is wrong, one has the wrong type or shape, or is complex where
            the input is real.
    """
    if len(grads) != len(edges):
        check_count(grads, len(edges), source, "input")
    fitting: list[Any] | None = None
    for index, edge in enumerate(edges):
        grad = grads[index]
        if grad is None or edge is None:
            continue
        node: Any = edge[0]
        is_leaf = node.__class__ is AccumulateGrad  # whose property would cost a frame
        target: Any = node.variable._storage.array if is_leaf else node.input_metadata[edge[1]]
        array = grad._storage.array if isinstance(grad, Tensor) else grad
        if not is_array_class[type(array)]:
            raise AutogradError(
                f"{source()}: the gradient at index {index} is not a Tensor. Got {type(array).__name__}, "
                "expected a Tensor or None. Return a Tensor."
            )
        kind, own = target.__class__, array.aval  # its own attributes would cost Python more
        due = target.aval if is_array_class[kind] else target
        if own.shape != due.shape or own.dtype != due.dtype:
            fitting = fitting or list(grads)
            fitting[index] = _fit(
                grad,
                array,
                target,
                representation,
                keeps_dtype=edge[1] in node.free_slots,
                complaint=f"{source()} returned an invalid gradient at index {index}",
            )
        # a leaf; it may be in shard_map
        elif is_tracer_class[kind] and not representation.tensor_mode:
            summed = sum_gradient(array, jax.typeof(target))
            if summed is not array:
                fitting = fitting or list(grads)
                fitting[index] = summed
    return fitting or grads


def _fit(
    grad: Any,
    array: Any,
    target: Any,
    representation: GradientRepresentation,
    *,
    keeps_dtype: bool,
    complaint: str,
) -> Any:
    """Sums over broadcast dimensions, and casts."""
    if not is_expandable(target.shape, array.shape):
        raise AutogradError(
            f"{complaint}. Got {describe(array)}, expected shape compatible with {describe(target)}. Return "
            "a gradient of the input's shape, or of one it broadcasts to."
        )
    is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
    if is_complex and not jnp.issubdtype(target.dtype, jnp.complexfloating):
        raise AutogradError(
            f"{complaint}. Got {describe(array)} for the real {describe(target)}; casting would lose the "
            f"imaginary part. Return its real part."
        )
    if array.shape != target.shape:
        grad = (
            upcalls.sum_to_size(grad, target.shape)
            if representation.tensor_mode
            else sum_to(grad, target.shape)
        )
    if array.dtype != target.dtype and not keeps_dtype:
        grad = (
            upcalls.to_dtype(grad, target.dtype) if representation.tensor_mode else grad.astype(target.dtype)
        )
    return grad


def is_expandable(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Returns whether ``shape`` broadcasts to ``to``."""
    lead = len(to) - len(shape)
    return lead >= 0 and all(mine in (1, its) for mine, its in zip(shape, to[lead:], strict=True))


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sums an array over the dimensions in which ``shape`` was broadcast."""
    lead = array.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        axis for axis in range(lead, array.ndim) if shape[axis - lead] == 1 != array.shape[axis]
    )
    return jnp.sum(array, axis=axes).reshape(shape)
