"""In-place forms: the op out of place, then its result into the box of the first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.autograd.in_place import refuse_leaf, write_in_place
from oplib.errors import ArgumentError, describe
from oplib.library.recording import refuse_read_only
from oplib.tensor import Tensor

Function = Callable[..., Any]


def make_in_place(function: Function, name: str) -> Function:
    """Makes ``exp_`` of ``exp``: it returns its first argument, which holds the result.

    Args:
        function: the op out of place.
        name: of the in-place form.
    """

    def in_place(input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  torch's name
        check_may_write(input, name)
        return write_in_place(input, function(input, *args, **kwargs), name)

    in_place.__doc__ = (
        f"As ``{name[:-1]}``, in place: the result becomes the value of ``input``, which is returned."
    )
    return in_place


def check_may_write(tensor: Any, name: str) -> None:
    """Raises where a tensor cannot be written in place.

    Raises:
        ArgumentError: it is no Tensor.
        AutogradError: it is a leaf that requires grad, with grad mode on, or the result of a view op.
    """
    if not isinstance(tensor, Tensor):
        raise ArgumentError(
            f"{name}: only a Tensor can be written in place. Got {describe(tensor)}. "
            f"Use {name[:-1]}, which returns the new value."
        )
    refuse_leaf(tensor, name)
    refuse_read_only(tensor, name)
