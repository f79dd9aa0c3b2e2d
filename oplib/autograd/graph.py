"""Looking at a graph, and reaching into it.

Example:
    >>> import oplib
    >>> from oplib.autograd.graph import get_gradient_edge
    >>> x = oplib.tensor([3.0], requires_grad=True)
    >>> oplib.autograd.grad((x * x).sum(), get_gradient_edge(x))
    (tensor([6.]),)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from oplib.errors import AutogradError, describe
from oplib.tensor import Tensor

from .accumulate import gradient_edge
from .node import Node
from .saved_hooks import disable_saved_tensors_hooks, saved_tensors_hooks

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "saved_tensors_hooks",
]

log = logging.getLogger(__name__)


class GradientEdge(NamedTuple):
    """The place in a graph where the gradient of one tensor arrives.

    Attributes:
        node: the node that receives it: the tensor's ``grad_fn``, or the accumulator of a leaf.
        output_nr: in which slot.
        ownership_token: accepted for parity and ignored; nodes here own their graph.
    """

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Returns where the gradient of a tensor arrives; usable in ``backward`` and ``grad`` instead of it.

    Args:
        tensor: any tensor that requires grad.

    Returns:
        Its edge, which keeps the graph alive but not the tensor's values.

    Raises:
        AutogradError: the tensor does not require grad.
    """
    edge = gradient_edge(tensor)
    if edge is None:
        raise AutogradError(
            f"get_gradient_edge: 'tensor' has no gradient edge. Got {describe(tensor._storage.array)} that "
            "does not require grad. Set requires_grad=True on it or on an input of it."
        )
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts an in-place write that oplib could not see: a backward that needs the old value then raises.

    Args:
        tensor: the tensor written into, or several of them; one that is named twice counts twice.

    Raises:
        AutogradError: neither a Tensor nor an iterable of Tensors.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0])
        >>> increment_version(x)
        >>> x._version
        1
    """
    for one in _listed(tensor):
        one._storage.version += 1


def _listed(tensor: object) -> list[Tensor]:
    if isinstance(tensor, Tensor):
        return [tensor]
    if not isinstance(tensor, Iterable):
        raise AutogradError(
            f"increment_version: expected a Tensor or an iterable of Tensors. Got {type(tensor).__name__}. "
            f"Give the tensors that have been written into."
        )
    listed = list(cast("Iterable[Any]", tensor))
    for position, one in enumerate(listed):
        if not isinstance(one, Tensor):
            raise AutogradError(
                f"increment_version: expected each element to be a Tensor. Got {type(one).__name__} at "
                f"position {position}. Give the tensors that have been written into."
            )
    return listed
