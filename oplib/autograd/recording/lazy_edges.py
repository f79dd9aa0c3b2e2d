"""The edges of recorded calls. The edge to a leaf is made when it is first read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.nodes.accumulate import leaf_edge
from oplib.autograd.nodes.node import Edge
from oplib.tensor import Tensor


class LazyEdges:
    """The ``edges`` of a node class whose nodes may hold ``inputs`` instead.

    The first read makes edges from ``inputs``, which the node keeps. Making the accumulator of a leaf costs
    as much as recording the call, and many graphs never run.
    """

    def __get__(self, node: Any, owner: type) -> tuple[Edge | None, ...]:
        edges = [*node.inputs]
        for slot, link in enumerate(edges):  # no comprehension, whose frame each node would pay for
            if isinstance(link, Tensor):
                edges[slot] = leaf_edge(link)
        node.edges = tuple(edges)
        return node.edges


def find_links(tensors: Sequence[Any]) -> list[Any]:
    """Returns for each tensor its edge, the tensor itself if it is a leaf, or None outside of the graph."""
    return [
        (node, tensor._output_nr)
        if (node := tensor._grad_fn) is not None
        else tensor
        if tensor._requires_grad
        else None
        for tensor in tensors
    ]


def link_input(node: Any, tensor: Tensor) -> None:
    """Sets the edge of a node with one input, which requires grad."""
    function: Any = tensor._grad_fn
    if function is None:
        node.inputs = (tensor,)
    else:
        node.edges = ((function, tensor._output_nr),)


def link_inputs(node: Any, tensors: Sequence[Any], wanted: Sequence[bool]) -> None:
    """Sets the edges of a node, or its ``inputs`` if one of them is a leaf.

    Args:
        node: a node whose class has :class:`LazyEdges`.
        tensors: the inputs of the call. Those with a wanted gradient require grad.
        wanted: whether the gradient of each input is wanted.
    """
    links = [
        None if not want else tensor if tensor._grad_fn is None else (tensor._grad_fn, tensor._output_nr)
        for tensor, want in zip(tensors, wanted, strict=True)
    ]
    if any(isinstance(link, Tensor) for link in links):
        node.inputs = tuple(links)
    else:
        node.edges = tuple(links)
