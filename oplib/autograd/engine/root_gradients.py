"""Root gradients: the gradients that a backward pass starts with, given or made, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.autograd.nodes.edges import GradientEdge
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.errors import AutogradError, DimensionError, GradientTypeError, describe
from oplib.tensor import Tensor
from oplib.tensor.devices.forked import check_process
from oplib.tensor.devices.placement import Placement, find_other_placement
from oplib.tensor.storage.constants import mark_shared
from oplib.tensor.storage.overlay import overlays

from .engine import check_edge

_ones: dict[tuple[Any, Any, Placement], Any] = {}
"""Gradients of scalars by shape, dtype and placement. Making one costs as much as an op."""


def make_root_gradients(
    outputs: Sequence[Tensor | GradientEdge], grads: Sequence[Tensor | None], is_grads_batched: bool
) -> tuple[Tensor | None, ...]:
    """Checks the gradient given for each output, and makes the gradient of a real scalar if none is given.

    Returns:
        A gradient for each output; None for an output that needs none.

    Raises:
        AutogradError: a shape differs, a gradient is complex and its output real or the reverse, or no
            gradient is given for an output that is not a real scalar.
        GradientTypeError: a gradient is neither a Tensor nor None.
        DimensionError: a batched gradient has no batch dimension, or an empty one.
    """
    return tuple(
        [
            grad
            if not is_grads_batched and fits(output, grad)
            else _make_grad(output, grad, position, is_grads_batched=is_grads_batched)
            for position, (output, grad) in enumerate(zip(outputs, grads, strict=False))
        ]
    )


def fits(output: Any, grad: Any) -> bool:
    """Returns whether a gradient has exactly the shape and dtype of its output. Nearly all have."""
    if not isinstance(output, Tensor) or not isinstance(grad, Tensor):
        return False
    due, own = output._storage.array.aval, grad._storage.array.aval
    return own.shape == due.shape and own.dtype == due.dtype


def find_root_gradient(output: Tensor, grad: Any) -> Any:
    """Returns the root gradient as an array if nothing must be checked or made; else None."""
    if type(output) is not Tensor or output._grad_fn is None:
        return None
    array = output._storage.array
    due = array.aval
    if grad is None:
        if overlays.current is not None:
            return None  # a program makes its own: its text does not depend on what was computed before
        return _ones.get((due.shape, due.dtype, find_other_placement(array)))
    if type(grad) is not Tensor:
        return None
    array = grad._storage.array
    return array if array.aval.shape == due.shape and array.aval.dtype == due.dtype else None


def calculate_shape(
    output: Tensor | GradientEdge, grad: Tensor, is_grads_batched: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the shape of an output, and the shape of one gradient for it."""
    shape = _metadata(output).shape
    grad_shape = grad._storage.array.shape
    return shape, grad_shape[1:] if is_grads_batched else grad_shape


def _metadata(output: Tensor | GradientEdge) -> Any:
    """Returns an object with the shape and dtype of an output."""
    if isinstance(output, Tensor):
        return output._storage.array
    if not isinstance(output, GradientEdge):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise GradientTypeError(
            f"backward: an output is not a Tensor or GradientEdge. Got {type(output).__name__}. Give the "
            "outputs to differentiate."
        )
    node, slot = check_edge(output)
    return node.input_metadata[slot]


def _make_grad(output: Any, grad: Any, position: int, *, is_grads_batched: bool) -> Tensor | None:
    if isinstance(grad, Tensor):
        _check_grad(output, grad, position, is_grads_batched=is_grads_batched)
        return grad
    if grad is None:
        return _make_one(output) if getattr(output, "_requires_grad", True) else None
    raise GradientTypeError(
        f"backward: gradients can be either Tensors or None. Got {type(grad).__name__} for output "
        f"{position}. Give a Tensor of the output's shape."
    )


def _check_grad(output: Any, grad: Tensor, position: int, *, is_grads_batched: bool) -> None:
    due, array = _metadata(output), grad._storage.array
    if is_grads_batched:
        _check_batch(output, array, position)
    out_shape, grad_shape = calculate_shape(output, grad, is_grads_batched)
    if grad_shape != out_shape:
        batch = (
            "With `is_grads_batched=True` the first dimension of each grad_output is the batch dimension "
            "and the others have to match the output; use vmap to batch only some of them. "
            if is_grads_batched
            else ""
        )
        raise AutogradError(
            f"backward: Mismatch in shape: grad_output[{position}] has a shape of {grad_shape} and "
            f"output[{position}] has a shape of {out_shape}. {batch}Reshape the gradient."
        )
    if jnp.iscomplexobj(array) != jnp.issubdtype(due.dtype, jnp.complexfloating):
        raise AutogradError(
            f"backward: Mismatch in dtype: grad_output[{position}] is {describe(array)} and "
            f"output[{position}] is {describe(due)}. A complex output has a complex gradient, a real output "
            "a real one. Convert it."
        )


def _check_batch(output: Any, gradient: Any, position: int) -> None:
    if gradient.ndim == 0 or gradient.shape[0] == 0:
        raise DimensionError(
            f"grad: with is_grads_batched=True grad_output[{position}] has no batch. Got "
            f"{describe(gradient)} for an output {describe(_metadata(output))}. Stack the "
            "gradients along a new first dimension."
        )


def _make_one(output: Tensor | GradientEdge) -> Tensor:
    due = _metadata(output)
    placement = find_other_placement(due) if isinstance(output, Tensor) else None
    key = (due.shape, due.dtype, placement)
    is_traced = overlays.current is not None
    ones = None if is_traced else _ones.get(key)
    if ones is None:
        ones = _make_ones(due, placement)
        # one committed to the devices of the current mesh serves this mesh only
        is_new = not (is_traced or isinstance(ones, Tracer))
        if is_new and (placement is not None or not ones.committed):
            mark_shared(ones)
            _ones[key] = ones
    return ARRAYS.box(ones)


def _make_ones(due: Any, placement: Placement) -> Any:
    check_process()
    if due.size != 1:
        raise AutogradError(
            f"backward: grad can be implicitly created only for scalar outputs. Got {describe(due)}. Give a "
            f"gradient, or reduce the output: output.sum()."
        )
    if not jnp.issubdtype(due.dtype, jnp.floating):
        raise AutogradError(
            f"backward: grad can be implicitly created only for real scalar outputs. Got {describe(due)}. "
            "Give a gradient, or take the real part."
        )
    return jax.device_put(np.ones(due.shape, due.dtype), placement)  # jnp.ones would compile a function
