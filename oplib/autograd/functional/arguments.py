"""What goes into the functions of this folder and comes out: one Tensor, or a tuple of Tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from oplib.errors import AutogradError, GradientTypeError
from oplib.tensor import Tensor, upcalls

Tensors = tuple[Tensor, ...]
_T = TypeVar("_T")

OUTPUTS = "outputs of the user-provided function"


class Group(NamedTuple):
    """One Tensor or a tuple of Tensors, which results that are like it take after.

    Attributes:
        is_tuple: whether the user had a tuple.
        tensors: the members.
        name: in errors.
    """

    is_tuple: bool
    tensors: Tensors
    name: str

    def untuple(self, values: Sequence[Any]) -> Any:
        """Returns values, one for each member, as the user had them."""
        return untuple(values, self.is_tuple)


def take_tuple(value: Any, name: str, caller: str) -> tuple[bool, Tensors]:
    """Returns whether a value is a tuple, and the Tensors in it.

    Args:
        value: a Tensor, or a tuple of Tensors.
        name: what it is.
        caller: the function it was given to.

    Raises:
        GradientTypeError: it is something else.
    """
    is_tuple = isinstance(value, tuple)
    members: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    for index, member in enumerate(members):
        if not isinstance(member, Tensor):
            what = f"the value at index {index}" if is_tuple else f"the given {name}"
            raise GradientTypeError(
                f"{caller}: the {name} given to {caller} must be either a Tensor or a tuple of Tensors, but "
                f"{what} has type {type(member).__name__}. Got {type(value).__name__}. Make Tensors of it, "
                "in a tuple where there are several."
            )
    return is_tuple, members


def untuple(values: Sequence[_T], is_tuple: bool) -> Any:
    """Undoes :func:`take_tuple`."""
    return tuple(values) if is_tuple else values[0]


def make_inputs(inputs: Tensors, *, create_graph: bool, requires_grad: bool = True) -> Tensors:
    """New tensors for the function's arguments, told apart from those that it captures.

    Args:
        inputs: what the user gave.
        create_graph: a gradient may flow back to them.
        requires_grad: of the new ones that are leaves.
    """
    return tuple(
        upcalls.alias(one)
        if create_graph and one._requires_grad
        else one.detach().requires_grad_(requires_grad)
        for one in inputs
    )


def take_vector(v: Any, like: Group, caller: str, *, create_graph: bool) -> Tensors | None:
    """Checks the vector of a product; None stands for a single 1.

    Args:
        v: what the user gave.
        like: what it must look like.
        caller: the function it was given to.
        create_graph: a gradient may flow back to the vector.

    Raises:
        AutogradError: it is None where one item is not enough, or has other sizes.
        GradientTypeError: it is neither a Tensor nor a tuple of Tensors.
    """
    tensors = like.tensors
    if v is None:
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise AutogradError(
                f"{caller}: the vector v can only be None if {like.name} is a single Tensor with a single "
                f"element. Got {len(tensors)} of sizes {[list(one.shape) for one in tensors]}. Give v."
            )
        return None
    _, given = take_tuple(v, "v", caller)
    vectors = make_inputs(given, create_graph=create_graph, requires_grad=False)
    _check_sizes(vectors, tensors, caller, is_tuple=like.is_tuple)
    return vectors


def _check_sizes(vectors: Tensors, tensors: Tensors, caller: str, *, is_tuple: bool) -> None:
    if len(vectors) != len(tensors):
        complaint = (
            f"v is a tuple of invalid length: should be {len(tensors)} but got {len(vectors)}"
            if is_tuple
            else f"the given v should contain a single Tensor. Got {len(vectors)}"
        )
        raise AutogradError(f"{caller}: {complaint}. Give one Tensor for each.")
    for index, (vector, tensor) in enumerate(zip(vectors, tensors, strict=True)):
        if vector.shape != tensor.shape:
            entry = f"entry {index} in v" if is_tuple else "v"
            raise AutogradError(
                f"{caller}: {entry} has invalid size: should be {list(tensor.shape)} but got "
                f"{list(vector.shape)}. Reshape it."
            )


def detach_results(results: Any, *, create_graph: bool) -> Any:
    """Cuts results, in tuples of any depth, off the graph that the user did not ask for."""
    if create_graph:
        return results
    if isinstance(results, tuple):
        return tuple(detach_results(one, create_graph=False) for one in results)
    return results.detach()
