"""Gradient edges: the place in a graph that receives the gradient of one tensor."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import index
from typing import Any, NamedTuple, Self

from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.tensor import Tensor

from .accumulate import gradient_edge
from .node import Edge, Node, TapeNode


class _Edge(NamedTuple):
    node: Node
    output_nr: int


class GradientEdge(_Edge):
    """The place in a graph that receives the gradient of one tensor: ``node, output_nr``.

    Attributes:
        node: the node that receives the gradient: the tensor's ``grad_fn``, or the accumulator of a leaf.
        output_nr: the slot of the node.
        ownership_token: accepted for parity and ignored; a node of oplib owns its graph.
    """

    ownership_token: object = None

    def __new__(cls, node: Node, output_nr: int, ownership_token: object = None) -> Self:
        """Makes the edge; ``ownership_token`` is kept with it, as an attribute."""
        edge = super().__new__(cls, node, output_nr)
        edge.ownership_token = ownership_token
        return edge


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Returns the edge of a tensor. ``backward`` and ``grad`` accept it instead of the tensor.

    Args:
        tensor: any tensor that requires grad.

    Returns:
        The edge. It keeps the graph alive, but not the values of the tensor.

    Raises:
        AutogradError: the tensor does not require grad.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import get_gradient_edge
        >>> x = oplib.tensor([3.0], requires_grad=True)
        >>> oplib.autograd.grad((x * x).sum(), get_gradient_edge(x))
        (tensor([6.]),)
    """
    edge = gradient_edge(tensor)
    if edge is None:
        raise AutogradError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients. "
            f"get_gradient_edge: got {describe(tensor)}. Set requires_grad=True on it or on "
            "an input of it."
        )
    return GradientEdge(*edge)


def check_edge(edge: GradientEdge) -> Edge:
    """Checks an edge given by a user, and returns it as the engine needs it.

    Raises:
        AutogradError: its node is not a node of oplib, or has no such slot.
        GradientTypeError: its slot is not an integer.
    """
    node: object = edge[0]
    if not isinstance(node, TapeNode):
        raise AutogradError(
            f"GradientEdge: its first item must be an autograd.graph.Node. Got {type(node).__name__}. Use "
            f"get_gradient_edge(tensor)."
        )
    try:
        slot = index(edge[1])
    except TypeError:
        raise GradientTypeError(
            f"GradientEdge: its second item must be an integer. Got {type(edge[1]).__name__}. Use "
            f"get_gradient_edge(tensor)."
        ) from None
    if not 0 <= slot < len(node.input_metadata):
        raise AutogradError(
            f"GradientEdge: {node.name()} has no slot {slot}. It has {len(node.input_metadata)}. Use "
            f"get_gradient_edge(tensor)."
        )
    return node, slot


def walk_nodes(roots: Iterable[Any]) -> Iterator[Node]:
    """Yields each node behind some roots once, the nearest first, without recursion. A root may be None."""
    ahead = deque(roots)
    seen: set[Node] = set()
    while ahead:
        node = ahead.popleft()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            ahead.extend(following for following, _ in node.next_functions)


def find_node(output: Tensor | GradientEdge) -> Node | None:
    """Returns the node that receives a gradient. For a leaf it is the accumulator, in any grad mode.

    Args:
        output: a tensor, or an edge.

    Returns:
        The node; None for a tensor outside the graph.
    """
    if isinstance(output, GradientEdge):
        return output.node
    edge = gradient_edge(output)
    return None if edge is None else edge[0]
