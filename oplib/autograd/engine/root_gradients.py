"""Root gradients: the gradients that a backward pass starts with, given or made, and their checks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.edges import GradientEdge, check_edge
from oplib.autograd.nodes.gradient_representation import ARRAYS, TENSORS, GradientRepresentation
from oplib.autograd.nodes.node import Edge
from oplib.errors import AutogradError, DimensionError, GradientTypeError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.forked import check_process
from oplib.tensor.devices.placement import Placement, find_other_placement
from oplib.tensor.storage.constants import mark_shared
from oplib.tensor.storage.overlay import overlays

from .validation import validate_gradients

_ones: dict[tuple[Any, Any, Placement], Any] = {}
"""Gradients of scalars by shape, dtype and placement. Making one costs as much as an op."""


def enter_roots(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    representation: GradientRepresentation,
    *,
    accumulate: bool,
    is_checked: bool,
) -> tuple[list[Edge], list[Any]]:
    """Checks the outputs and gradients of a call of ``backward`` or ``grad``.

    Args:
        outputs: what to differentiate.
        grads: a gradient for each of them; None for a real scalar.
        inputs: what to differentiate by, for errors.
        representation: the type of the gradients of the run.
        accumulate: whether ``backward`` was called, for errors.
        is_checked: whether gradients must have the shapes of their outputs.

    Returns:
        The edge of each output, and the gradient that enters there.

    Raises:
        AutogradError: an output has no graph, or see :func:`make_root_gradients`.
    """
    if len(outputs) > len(grads):
        raise _refuse_counts(outputs, grads)
    roots: list[Any] = []
    entering: list[Any] = []
    for output, grad in zip(outputs, grads):  # noqa: B905  the keyword costs more
        entered: Any = None  # unless nothing must be checked or made, as in most calls
        if output.__class__ is Tensor and output._grad_fn is not None:
            storage = output._storage
            if grad is None:
                array = storage.array
                due = array.aval
                # a program makes its own: its text does not depend on what was computed before
                if overlays.current is None:
                    entered = _ones.get((due.shape, due.dtype, find_other_placement(array)))
            elif grad.__class__ is Tensor:
                due = storage.array.aval if storage.__class__ is Storage else storage.spec  # reads no view
                array = grad._storage.array
                own = array.aval
                if own.shape == due.shape and own.dtype == due.dtype:
                    entered = array
        if entered is None:
            position = len(roots)
            made: Any = grad
            if is_checked:
                made = _make_grad(output, grad, position, is_grads_batched=False)
            edge = _root_edge(position, output, made, inputs=inputs, accumulate=accumulate)
            entered = made if representation.tensor_mode else made._storage.array
            if is_checked:
                (entered,) = validate_gradients((entered,), (edge,), _name_call, representation)
        else:
            edge = output._grad_fn, output._output_nr
            if representation.tensor_mode:
                entered = ARRAYS.box(entered) if grad is None else grad
        roots.append(edge)
        entering.append(entered)
    return roots, entering


def fit_root_gradients(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], *, accumulate: bool
) -> Sequence[Tensor]:
    """Returns gradients summed and cast to their outputs, as the engine takes them from other callers.

    Raises:
        AutogradError: an output has no graph, or a gradient is none or does not fit.
    """
    if len(outputs) != len(grads):
        raise _refuse_counts(outputs, grads)
    pairs = zip(itertools.count(), outputs, grads)
    roots = [_root_edge(*pair, inputs=inputs, accumulate=accumulate) for pair in pairs]
    return validate_gradients(grads, roots, _name_call, TENSORS)


def _name_call() -> str:
    return "the call of backward or grad"


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
    make = partial(_make_grad, is_grads_batched=is_grads_batched)
    return tuple(map(make, outputs, grads, itertools.count()))


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
        if not (is_traced or isinstance(ones, Tracer)):
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
    return jax.device_put(np.ones(due.shape, due.dtype), placement)  # jnp.ones compiles; it commits to a mesh


def _refuse_counts(tensors: Sequence[Any], grads: Sequence[Any]) -> AutogradError:
    return AutogradError(
        f"run_backward: got {len(tensors)} tensors and {len(grads)} gradients. The two counts differ. "
        f"Give one gradient, or None, for each tensor."
    )


def _root_edge(position: int, root: Any, grad: Any, *, inputs: Sequence[Any], accumulate: bool) -> Edge:
    """Checks one root and its gradient, and returns the edge of the root."""
    if not isinstance(root, (Tensor, GradientEdge)):
        raise AutogradError(
            f"backward: element {position} of tensors is neither a Tensor nor a GradientEdge. Got "
            f"{type(root).__name__}. Give the outputs to differentiate."
        )
    edge = gradient_edge(root) if isinstance(root, Tensor) else check_edge(root)
    if edge is None:
        raise _explain_no_graph(cast("Tensor", root), position, inputs, accumulate=accumulate)
    if not isinstance(grad, Tensor):
        came = "None, though the tensor requires grad" if grad is None else type(grad).__name__
        raise AutogradError(
            f"backward: element {position} of gradients is not a Tensor. Got {came}. Give a Tensor of the "
            f"output's shape."
        )
    return edge


def _explain_no_graph(
    root: Tensor, position: int, inputs: Sequence[Any], *, accumulate: bool
) -> AutogradError:
    """Returns the error for a root without a graph, with the cause where it can be seen."""
    array = root._storage.array
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        cause = "Only floating and complex values have derivatives. Differentiate what it was computed from."
    elif not modes.state.grad_enabled:
        cause = (
            "Grad mode is off here, as in no_grad(), and in a backward formula or hook without "
            "create_graph=True. Compute it, and ask for its gradient, where it is on: enable_grad()."
        )
    elif root.is_inference():
        cause = "It was made in inference_mode(). Make it outside of the block."
    elif _require_nothing(inputs):
        cause = (
            "No input of the call requires grad either. Set requires_grad=True on them before they are used."
        )
    else:
        cause = (
            "Either no tensor that it is computed from has requires_grad=True, or it was computed under "
            "no_grad(), or detach(), .data or item() cut it off, or it comes from a gradient: compute that "
            "one with create_graph=True."
        )
    return AutogradError(
        f"{'backward' if accumulate else 'grad'}: element {position} of tensors does not require grad and "
        f"does not have a grad_fn. Got {describe(array)}. {cause}"
    )


def _require_nothing(inputs: Sequence[Any]) -> bool:
    tensors = [wanted for wanted in inputs if isinstance(wanted, Tensor)]
    return bool(tensors) and not any(wanted._requires_grad for wanted in tensors)
