"""In-place forms: the op out of place, then its result into the box of the first argument."""

from __future__ import annotations

from typing import Any

from oplib.autograd.recording.in_place import note_history, write_in_place
from oplib.errors import ArgumentTypeError, describe
from oplib.modes import modes
from oplib.tensor import Tensor, box, upcalls
from oplib.tensor.storage.ingestion import to_array


def detach_(input: Any) -> Any:
    """Takes a tensor out of its graph, in place; see ``Tensor.detach_``.

    Args:
        input: a Tensor that is no view.

    Returns:
        The tensor itself, now a leaf.

    Raises:
        ArgumentTypeError: it is no Tensor.
        AutogradError: it is a view.

    Gradient:
        None: what is computed from it has no history by it any more.

    Source:
        ``torch.detach_`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> x = oplib.ones(1, requires_grad=True) * 2
        >>> oplib.detach_(x) is x, x.requires_grad
        (True, False)
    """
    require_tensor_to_write(input, "detach_")
    return input.detach_()


def require_tensor_to_write(tensor: Any, name: str) -> None:
    """Raises where something that is no Tensor would be written in place.

    Raises:
        ArgumentTypeError: it would.
    """
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(
            f"{name}: only a Tensor can be written in place. Got {describe(tensor)}. "
            f"Use {name[:-1]}, which returns the new value."
        )


def store_in_place(view: Tensor, value: Any) -> None:
    """Puts a value in the place of the items of a view, without reading these.

    Args:
        view: what is written; it may be. It has been made for this write, so nobody reads it later.
        value: a Tensor or an array; broadcasts to its shape, and is converted to its dtype. A numpy array
            has the dtype already.
    """
    storage: Any = view._storage
    new = value if isinstance(value, Tensor) else box(to_array(value, None, None))
    state, own = modes.state, new._storage.spec
    is_seen = state.watchers or state.region is not None or (state.grad_enabled and new._requires_grad)
    is_alike = not storage.chain.is_identity and own.shape == storage.shape and own.dtype == storage.dtype
    if is_alike and not is_seen:  # the call that puts the value in copies it
        storage.write(new._storage.array, view)
        note_history(view, None)
    else:
        write_in_place(view, upcalls.stored(new, list(storage.shape), storage.dtype), "setitem_")


def store_number(view: Tensor, number: Any) -> None:
    """Puts a number in the place of the items of a view.

    Args:
        view: what is written; it may be.
        number: an array without dims, of the dtype of the view, that belongs to no trace.
    """
    if modes.region is not None:  # the body of a loop may not write outside
        store_in_place(view, number)
        return
    storage: Any = view._storage
    storage.write(number, view)  # the call that puts it in broadcasts it
    note_history(view, None)
