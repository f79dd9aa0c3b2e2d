"""Tangents of Tensors: what forward mode hangs on them while a dual level is open.

A tangent is a Tensor. It stands in a *slot* that its tensor holds, and the level knows all slots weakly: when
it closes it empties them, so nothing outlives a level, whoever still holds the tensor. While a level is open
calls take the complete path (it counts as a watcher), which looks here; without one nothing is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import jax.numpy as jnp

from oplib.errors import AutogradError, describe
from oplib.modes import modes
from oplib.tensor import Tensor, box, upcalls

from .array_functions.array_function import Mask, has_gradient


class TangentSlot:
    """The place of one tensor's tangent.

    Attributes:
        tangent: a Tensor, or None where there is none, or its level is closed.
    """

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor | None = None) -> None:
        self.tangent = tangent


class DualLevel:
    """An open level of forward mode: it owns the tangents that were made while it was open."""

    def __init__(self) -> None:
        self._slots: WeakSet[TangentSlot] = WeakSet()

    def make_slot(self, tangent: Tensor | None = None) -> TangentSlot:
        """Makes a slot that is emptied when this level closes."""
        slot = TangentSlot(tangent)
        self._slots.add(slot)
        return slot

    def close(self) -> None:
        """Takes all tangents away."""
        for slot in list(self._slots):
            slot.tangent = None


def carries_tangents() -> bool:
    """Whether calls of this thread carry tangents on: a level is open, and nothing has switched that off."""
    state = modes.state
    return state.dual_level is not None and state.forward_enabled and not state.inference


@contextmanager
def tangents_off() -> Generator[None]:
    """Switches forward mode off, as around the forward of a Function: inside, no tensor shows a tangent."""
    state = modes.state
    before = state.forward_enabled
    state.forward_enabled = False
    try:
        yield
    finally:
        state.forward_enabled = before


def find_tangent(tensor: Tensor) -> Tensor | None:
    """Returns the tangent of a tensor; None without one, or where forward mode is off."""
    state = modes.state
    return None if state.dual_level is None or not state.forward_enabled else _look_up(tensor)


def _look_up(tensor: Tensor) -> Tensor | None:
    """The tangent, whether forward mode is on or off; that of a view is a view of the whole's."""
    slot = tensor._tangent_slot
    if slot is not None and slot.tangent is not None:
        return slot.tangent
    root = _find_whole(tensor)
    whole = None if root is None else _look_up(root)
    if whole is None:
        return None
    tangent = upcalls.view_alike(whole, tensor)  # so that a write into either is seen in both
    set_tangent(tensor, tangent)
    return tangent


def _find_whole(tensor: Tensor) -> Tensor | None:
    """The tensor of whose tangent that of a view is a part; not always the one whose history it shares."""
    source = tensor._tangent_source
    if source is None:
        return tensor._root
    return source[0] if source else None


def unbox_tangent(tensor: Tensor) -> Any:
    """Returns the array of a tensor's tangent, or None."""
    tangent = find_tangent(tensor)
    return None if tangent is None else tangent._storage.array


def find_tangents(tensors: Sequence[Tensor | None]) -> list[Tensor | None] | None:
    """Returns the tangents of the operands of a call; None if there is none, or tangents are not carried."""
    if not carries_tangents():
        return None
    tangents = [None if tensor is None else find_tangent(tensor) for tensor in tensors]
    return tangents if any(tangent is not None for tangent in tangents) else None


def claim_slot(tensor: Tensor) -> TangentSlot | None:
    """Returns the slot of a tensor, made if a level is open: what is saved now may get its tangent later."""
    level: Any = modes.state.dual_level
    if level is not None and tensor._tangent_slot is None and _look_up(tensor) is None:
        tensor._tangent_slot = level.make_slot()
    return tensor._tangent_slot


def set_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Gives a tensor of a floating or complex dtype its tangent, in the open level."""
    if tensor._tangent_slot is None:
        level: Any = modes.state.dual_level
        tensor._tangent_slot = level.make_slot(tangent)
    else:
        tensor._tangent_slot.tangent = tangent


def push_tangents(
    push: Callable[[Sequence[Tensor]], Sequence[Tensor | None]],
    operands: Sequence[Tensor],
    tangents: Sequence[Tensor | None],
    outputs: Sequence[Tensor | None],
) -> None:
    """Computes the tangents of a call's outputs and hangs them on.

    What is read is frozen: a tangent has nothing to do with the versions of what it was computed from, the
    call itself may be about to write its operand, and later writes overwrite tangents too.

    Args:
        push: gives one tangent for each output from operands and tangents.
        operands: what ``push`` reads besides the tangents.
        tangents: of the inputs of the call, None for those without.
        outputs: what the call gave.
    """
    given = [tangent for tangent in tangents if tangent is not None]
    results = push(list(map(_freeze, (*operands, *given))))
    for output, tangent in zip(outputs, results, strict=True):
        if output is not None and tangent is not None and _look_up(output) is None:  # a view has its own
            set_tangent(output, tangent)


def has_tangents(tangents: Sequence[Tensor | None]) -> Mask:
    """The pattern of the inputs that have a tangent."""
    return tuple([tangent is not None for tangent in tangents])


def save_tangents(tensors: Sequence[Tensor | None]) -> list[TangentSlot | None]:
    """Keeps the tangents of saved tensors as they are now, until the level closes.

    An in-place write overwrites the tangent too, so the slot of the tensor itself will not do.
    """
    level: Any = modes.state.dual_level
    tangents = [None if tensor is None else find_tangent(tensor) for tensor in tensors]
    return [None if tangent is None else level.make_slot(_freeze(tangent)) for tangent in tangents]


def _freeze(tensor: Tensor) -> Tensor:
    """The same value at the same place on the tape; a leaf that requires grad is its own place."""
    if tensor._requires_grad and tensor._grad_fn is None:
        return tensor
    frozen = box(tensor._storage.array)
    frozen._trace = tensor._trace
    frozen._requires_grad = tensor._requires_grad
    frozen._grad_fn = tensor._grad_fn
    frozen._output_nr = tensor._output_nr
    return frozen


def write_value(tensor: Tensor, result: Tensor) -> None:
    """Replaces the value of a tensor, whose history does not change."""
    tensor._storage.write(result._storage.array)


def write_tangent(
    tensor: Tensor, result: Tensor, write: Callable[[Tensor, Tensor], Any] = write_value
) -> None:
    """Gives a tensor that was written in place the tangent of its new value.

    A tangent that is there is written in place too, as in torch: it may be shared. What has no tangent is a
    constant, so it writes zeros.

    Args:
        tensor: the tensor that was written.
        result: its new value, with a tangent or none.
        write: writes a tensor in place, with its history where there can be one.
    """
    held, new = find_tangent(tensor), find_tangent(result)
    root = _find_whole(tensor)
    if held is None and new is not None and root is not None:  # the whole gets one, and the view a part of it
        set_tangent(root, box(jnp.zeros_like(root._storage.array)))
        held = find_tangent(tensor)
    if held is None:
        if new is not None and has_gradient(tensor._storage.array.dtype):
            set_tangent(tensor, new)
        return
    if new is None:
        new = box(jnp.zeros_like(held._storage.array))
    if new._storage.array.dtype == held._storage.array.dtype:
        write(held, new)
    else:
        set_tangent(tensor, new)


def check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Raises where a tangent does not fit its tensor.

    Raises:
        AutogradError: another shape, a complex tangent of a real tensor, or one that has a tangent itself.
    """
    array, given = tensor._storage.array, tangent._storage.array
    if find_tangent(tangent) is not None:
        raise AutogradError(
            "make_dual: the tangent itself has a forward gradient at the same level 0, which is not "
            f"supported. Got {describe(given)}. Give unpack_dual(tangent).primal, or take jax.jvp for higher "
            "orders."
        )
    if array.shape != given.shape:
        raise AutogradError(
            "make_dual: Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(array.shape)} while the given forward "
            f"gradient is of size {list(given.shape)}. Give a tangent of the tensor's shape."
        )
    if jnp.iscomplexobj(given) and not jnp.iscomplexobj(array):
        raise AutogradError(
            f"make_dual: the tangent of a real tensor must be real. Got {describe(given)} for "
            f"{describe(array)}. Take real and imaginary part apart: they are two tangents."
        )
