"""In-place forms: the op out of place, then its result into the box of the first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.in_place import check_may_write, note_history, write_in_place
from oplib.errors import ArgumentError, describe
from oplib.tensor import Tensor, box, upcalls

Function = Callable[..., Any]


def make_in_place(function: Function, name: str) -> Function:
    """Makes ``exp_`` of ``exp``: it returns its first argument, which holds the result.

    Args:
        function: the op out of place.
        name: of the in-place form.
    """

    def in_place(input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  torch's name
        check_written(input, name)
        check_may_write(input, name, args)
        return write_in_place(input, function(input, *args, **kwargs), name)

    in_place.__doc__ = (
        f"As ``{name[:-1]}``, in place: the result becomes the value of ``input``, which is returned."
    )
    return in_place


def check_written(tensor: Any, name: str) -> None:
    """Raises where something that is no Tensor would be written in place.

    Raises:
        ArgumentError: it would.
    """
    if not isinstance(tensor, Tensor):
        raise ArgumentError(
            f"{name}: only a Tensor can be written in place. Got {describe(tensor)}. "
            f"Use {name[:-1]}, which returns the new value."
        )


def store_in_place(tensor: Tensor, value: Any, name: str) -> None:
    """Puts a value in the place of a tensor's own, without reading that.

    Args:
        tensor: what is written; it may be.
        value: a Tensor or an array; broadcasts to its shape, and is converted to its dtype. A numpy array
            has the dtype already.
        name: of the in-place op.
    """
    spec = tensor._storage.spec
    if isinstance(value, np.ndarray) and not value.ndim and tensor._root is not None:
        tensor._storage.write(value)  # broadcast where it is put in, by the same call
        note_history(tensor, None)
        return
    new = value if isinstance(value, Tensor) else box(jnp.asarray(value))
    write_in_place(tensor, upcalls.stored(new, list(spec.shape), spec.dtype), name)
