"""``grad(..., is_grads_batched=True)``: one run of the engine on gradients with a batch dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.tangents import set_tangent, unbox_tangent
from oplib.errors import GradientValueError, describe
from oplib.modes import modes
from oplib.tensor import Tensor, upcalls

Pairs = list[tuple[Any, Any] | None]
GradientFunction = Callable[[tuple[Tensor, ...]], "tuple[Tensor | None, ...]"]


def run_batched(
    call: GradientFunction, grads: Sequence[Tensor | None], *, create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Maps one run of the engine over the first dimension of every gradient.

    The nodes run once and see single gradients, as tracers. Calls that they record with ``create_graph`` are
    recorded again outside, as in every ``vmap``. In an open dual level, tangents are mapped together with the
    gradients that carry them.

    Returns:
        The gradients of the inputs with a new first dimension; None for an input without gradient.

    Raises:
        GradientValueError: a gradient is None, or the batches have different sizes.
    """
    _check_batches(grads)
    if create_graph:
        return upcalls.map_examples(call, grads)

    def run_one(pairs: Pairs) -> Pairs:
        state = modes.state
        state.vmap_levels += 1
        try:
            return _read(call(_box(pairs)))
        finally:
            state.vmap_levels -= 1

    return _box(jax.vmap(run_one)(_read(grads)))


def _read(tensors: Sequence[Tensor | None]) -> Pairs:
    """Returns the array of each tensor, with the array of its tangent."""
    return [None if tensor is None else (tensor._storage.array, unbox_tangent(tensor)) for tensor in tensors]


def _box(pairs: Pairs) -> tuple[Any, ...]:
    boxed = [None if pair is None else ARRAYS.box(pair[0]) for pair in pairs]
    for tensor, pair in zip(boxed, pairs, strict=True):
        if tensor is not None and pair is not None and pair[1] is not None:
            set_tangent(tensor, ARRAYS.box(pair[1]))
    return tuple(boxed)


def _check_batches(grads: Sequence[Tensor | None]) -> None:
    arrays = [grad._storage.array for grad in grads if grad is not None]
    if len(arrays) < len(grads) or any(array.ndim == 0 for array in arrays):
        raise GradientValueError(
            "grad: with is_grads_batched=True every output needs a gradient. Got None for one, which has no "
            "batch dimension. Give a Tensor for each output."
        )
    sizes = {array.shape[0] for array in arrays}
    if len(sizes) != 1:
        raise GradientValueError(
            "grad: with is_grads_batched=True all gradients have batches of one size. Got "
            f"{describe(arrays)}. Give gradients with the same first dimension."
        )
