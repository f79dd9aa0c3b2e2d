"""Arguments and results of the functions of this package: one Tensor, or a tuple of Tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from oplib.autograd.user_functions.trees import list_values
from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.tensor import Tensor, upcalls

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]
_T = TypeVar("_T")

OUTPUTS = "outputs of the user-provided function"


class Group(NamedTuple):
    """One Tensor or a tuple of Tensors. Results that are like it have the same structure.

    Attributes:
        is_tuple: whether the user gave a tuple.
        tensors: the members.
        name: the name in errors.
    """

    is_tuple: bool
    tensors: Tensors
    name: str

    def untuple(self, values: Sequence[Any]) -> Any:
        """Returns values, one for each member, in the user's structure."""
        return untuple(values, self.is_tuple)


def take_tuple(value: Any, name: str, caller: str) -> tuple[bool, Tensors]:
    """Returns whether a value is a tuple, and its Tensors.

    Raises:
        GradientTypeError: the value has another type.
    """
    is_tuple = isinstance(value, tuple)
    members = list_values(value)
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
    """Returns new tensors as arguments of the function, distinct from tensors that the function captures."""
    return tuple(
        upcalls.alias(tensor)
        if create_graph and tensor._requires_grad
        else tensor._share().requires_grad_(requires_grad)
        for tensor in inputs
    )


def take_point(inputs: Any, caller: str, *, create_graph: bool) -> Group:
    """Returns new tensors for the user's inputs. The arguments are those of :func:`make_inputs`.

    Raises:
        GradientTypeError: ``inputs`` is neither a Tensor nor a tuple of Tensors.
    """
    is_tuple, members = take_tuple(inputs, "inputs", caller)
    tensors = make_inputs(members, create_graph=create_graph)
    return Group(is_tuple, tensors, "the input to the user-provided function")


def take_vector(v: Any, like: Group, caller: str, *, create_graph: bool) -> Tensors | None:
    """Checks the vector of a product. None means a single 1.

    Raises:
        AutogradError: the vector is None and ``like`` has several items, or its sizes differ.
        GradientTypeError: the vector is neither a Tensor nor a tuple of Tensors.
    """
    tensors = like.tensors
    if v is None:
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise AutogradError(
                f"{caller}: the vector v can only be None if {like.name} is a single Tensor with a single "
                f"element. Got {len(tensors)} of sizes "
                f"{describe([list(tensor.shape) for tensor in tensors])}. Give v."
            )
        return None
    _, members = take_tuple(v, "v", caller)
    vectors = make_inputs(members, create_graph=create_graph, requires_grad=False)
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
    """Detaches results, in tuples of any depth, unless the user asked for the graph."""
    if create_graph:
        return results
    if isinstance(results, tuple):
        return tuple(detach_results(result, create_graph=False) for result in results)
    return results._share()
