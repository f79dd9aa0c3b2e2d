"""Tangents of Tensors: forward mode stores them in slots while a dual level is open.

A tangent is a Tensor. It is stored in a *slot*, which its tensor holds. The level holds all slots weakly and
empties them when it closes, so no tangent outlives its level. While a level is open and forward mode is on,
calls take the complete path (the level counts as a watcher) and look for tangents. Other calls do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import jax.numpy as jnp

from oplib.autograd.array_functions.masks import map_given, pick_given
from oplib.errors import AutogradError, describe
from oplib.modes import ModeState, modes
from oplib.tensor import Tensor, box, read_array, upcalls

from .array_functions.array_function import has_gradient


class TangentSlot:
    """The place for the tangent of one tensor.

    Attributes:
        tangent: a Tensor; None if there is none, or the level is closed.
    """

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor | None = None) -> None:
        self.tangent = tangent


class DualLevel:
    """An open level of forward mode. It owns the tangents made while it is open."""

    def __init__(self) -> None:
        self._slots: WeakSet[TangentSlot] = WeakSet()

    def make_slot(self, tangent: Tensor | None = None) -> TangentSlot:
        """Makes a slot that is emptied when this level closes."""
        slot = TangentSlot(tangent)
        self._slots.add(slot)
        return slot

    def close(self) -> None:
        """Removes all tangents."""
        for slot in list(self._slots):
            slot.tangent = None


def carries_tangents() -> bool:
    """Returns whether calls of this thread carry tangents: a level is open, and forward mode is on."""
    state = modes.state
    return state.dual_level is not None and state.forward_enabled and not state.inference


def run_without_tangents(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function, such as a forward of a Function, with forward mode off: no tangents show."""
    state = modes.state
    before = state.forward_enabled
    try:
        switch_forward_mode(state, False)
        return function(*args)
    finally:
        switch_forward_mode(state, before)


def switch_forward_mode(state: ModeState, is_on: bool) -> None:
    """Switches forward mode on or off. An open level is a watcher of calls only while it is on."""
    if state.dual_level is not None:
        state.watchers += is_on - state.forward_enabled
    state.forward_enabled = is_on


def find_tangent(tensor: Tensor) -> Tensor | None:
    """Returns the tangent of a tensor; None if it has none or forward mode is off."""
    state = modes.state
    return None if state.dual_level is None or not state.forward_enabled else look_up_tangent(tensor)


def look_up_tangent(tensor: Tensor) -> Tensor | None:
    """Returns the tangent, whether forward mode is on or off. The tangent of a view is a view."""
    slot = tensor._tangent_slot
    if slot is not None and slot.tangent is not None:
        return slot.tangent
    root = _find_whole(tensor)
    whole = None if root is None else look_up_tangent(root)
    if whole is None:
        return None
    tangent = upcalls.view_alike(whole, tensor)  # a write into either must show in both
    set_tangent(tensor, tangent)
    return tangent


def _find_whole(tensor: Tensor) -> Tensor | None:
    """Returns the tensor whose tangent the tangent of a view is part of. It may not be the root."""
    source = tensor._tangent_source
    if source is None:
        return tensor._root
    return source[0] if source else None


def unbox_tangent(tensor: Tensor) -> Any:
    """Returns the array of a tensor's tangent, or None."""
    tangent = find_tangent(tensor)
    return None if tangent is None else tangent._storage.array


def find_tangents(tensors: Sequence[Tensor | None]) -> list[Tensor | None] | None:
    """Returns the tangents of the operands of a call; None if there is none, or calls carry no tangents."""
    if not carries_tangents():
        return None
    tangents = map_given(find_tangent, tensors)
    return tangents if pick_given(tangents) else None


def claim_slot(tensor: Tensor) -> TangentSlot | None:
    """Returns the slot of a tensor. In an open level it is made: a saved tensor may get a tangent later."""
    level: Any = modes.state.dual_level
    if level is not None and tensor._tangent_slot is None and look_up_tangent(tensor) is None:
        tensor._tangent_slot = level.make_slot()
    return tensor._tangent_slot


def set_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Sets the tangent of a floating or complex tensor in the open level."""
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
    """Computes the tangents of a call's outputs and sets them.

    ``push`` receives frozen copies. A tangent does not depend on the versions of its operands, the call may
    be about to write an operand, and later writes also overwrite tangents.

    Args:
        push: computes one tangent for each output from operands and tangents.
        operands: the further arguments of ``push``.
        tangents: the tangents of the inputs of the call, or None.
        outputs: the results of the call.
    """
    present = pick_given(tangents)
    results = push(list(map(freeze_tensor, (*operands, *present))))
    for output, tangent in zip(outputs, results, strict=True):  # a view has its own
        if output is not None and tangent is not None and look_up_tangent(output) is None:
            set_tangent(output, tangent)


def save_tangents(tensors: Sequence[Tensor | None]) -> list[TangentSlot | None]:
    """Keeps the current tangents of saved tensors until the level closes.

    An in-place write overwrites the tangent too, so the slot of the tensor cannot be used.
    """
    level: Any = modes.state.dual_level
    tangents = map_given(find_tangent, tensors)
    return [None if tangent is None else level.make_slot(freeze_tensor(tangent)) for tangent in tangents]


def freeze_tensor(tensor: Tensor) -> Tensor:
    """Returns a tensor with the same value and edge. A leaf that requires grad is returned itself."""
    if tensor._requires_grad and tensor._grad_fn is None:
        return tensor
    frozen = box(read_array(tensor))
    frozen._trace = tensor._trace
    frozen._requires_grad = tensor._requires_grad
    frozen._grad_fn = tensor._grad_fn
    frozen._output_nr = tensor._output_nr
    return frozen


def set_apart(tensor: Tensor) -> Tensor:
    """Returns a tensor with the value, edge and tangent that a tensor has before it is written."""
    apart = freeze_tensor(tensor)
    if apart is not tensor and (tangent := find_tangent(tensor)) is not None:
        set_tangent(apart, freeze_tensor(tangent))
    return apart


def write_value(tensor: Tensor, result: Tensor) -> None:
    """Replaces the value of a tensor. Its history does not change."""
    tensor._storage.write(result._storage.array)


def write_tangent(
    tensor: Tensor, result: Tensor, write: Callable[[Tensor, Tensor], Any] = write_value
) -> None:
    """Gives a tensor that was written in place the tangent of its new value.

    As in torch, an existing tangent is written in place, because it may be shared. A value without tangent is
    a constant, so zeros are written.
    """
    held, new = find_tangent(tensor), find_tangent(result)
    root = _find_whole(tensor)
    # the root gets a tangent, and the view a part of it
    if held is None and new is not None and root is not None:
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
    """Raises if a tangent does not fit its tensor.

    Raises:
        AutogradError: the shape differs, the tangent is complex and the tensor real, or the tangent has a
            tangent.
    """
    array, direction = tensor._storage.array, tangent._storage.array
    if find_tangent(tangent) is not None:
        raise AutogradError(
            "make_dual: the tangent itself has a forward gradient at the same level 0, which is not "
            f"supported. Got {describe(direction)}. Give unpack_dual(tangent).primal, or take jax.jvp for "
            "higher orders."
        )
    if array.shape != direction.shape:
        raise AutogradError(
            "make_dual: Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(array.shape)} while the given forward "
            f"gradient is of size {list(direction.shape)}. Give a tangent of the tensor's shape."
        )
    if jnp.iscomplexobj(direction) and not jnp.iscomplexobj(array):
        raise AutogradError(
            f"make_dual: the tangent of a real tensor must be real. Got {describe(direction)} for "
            f"{describe(array)}. Take real and imaginary part apart: they are two tangents."
        )
