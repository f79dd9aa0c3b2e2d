"""The backward graph as text: one line per node, in the order in which the engine would run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oplib.autograd.graph import GradientEdge, Node, get_gradient_edge
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.errors import describe
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .traversal import Edges, collect_edges, list_tensors, require_tensors, sort_as_engine

NOWHERE = "-"
"""Marks an input that needs no gradient."""


@entry_point
def graph_text(
    tensor_or_tensors: Tensor | Sequence[Tensor], *, params: Mapping[str, Tensor] | None = None
) -> str:
    """Returns the graph behind tensors as text.

    The text has a line per tensor, followed by a line per node: its number, its name, the gradients that it
    receives, and the receiver of the gradient of each of its inputs. A receiver is a node by number (``%7.1``
    is slot 1 of a node with several slots), a leaf by name, or ``-`` if no gradient is needed. A node that is
    reached on several paths has one line. The leaves come last, with those of ``params`` that no gradient
    reaches. Values are not read, so a graph whose backward has run and a graph under a trace can be shown
    too.

    Args:
        tensor_or_tensors: the roots, usually a loss; tensors of any shapes and dtypes.
        params: names for leaves; other leaves are called ``leaf1``, ``leaf2`` and so on.

    Returns:
        The lines, joined.

    Raises:
        GradientTypeError: an argument is no Tensor.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> y = w * w
        >>> print(graph_text((y * 3.0).sum(), params={"w": w}))
        root f32[] -> %1
        %1  SumBackward0  f32[]   -> %2
        %2  MulBackward0  f32[2]  -> %3, -
        %3  MulBackward0  f32[2]  -> w, w
        w  f32[2]
    """
    tensors = list_tensors(tensor_or_tensors, "graph_text")
    named = dict(params or {})
    require_tensors(named.values(), "graph_text", "params")
    roots = [get_gradient_edge(tensor) if tensor.requires_grad else None for tensor in tensors]
    edges = collect_edges(root.node for root in roots if root is not None)
    order = sort_as_engine(edges)
    steps = [node for node in order if not isinstance(node, AccumulateGrad)]
    leaves = _name_leaves([node for node in order if isinstance(node, AccumulateGrad)], named)
    names = {node: f"%{number}" for number, node in enumerate(steps, 1)} | leaves
    lines = [_show_root(tensor, root, names) for tensor, root in zip(tensors, roots, strict=True)]
    lines += align([_show_step(node, edges[node], names) for node in steps])
    lines += align([[name, describe(node.variable)] for node, name in leaves.items()])
    reached = {id(leaf.variable) for leaf in leaves}
    missed = {name: tensor for name, tensor in named.items() if id(tensor) not in reached}
    lines += [f"no gradient reaches {name}  {describe(tensor)}" for name, tensor in missed.items()]
    return "\n".join(lines)


# Showing


def _name_leaves(leaves: Iterable[AccumulateGrad], params: Mapping[str, Tensor]) -> dict[AccumulateGrad, str]:
    """Names the leaves; those of ``params`` come first, in its order."""
    named = {id(tensor): name for name, tensor in params.items()}
    known = {named[id(leaf.variable)]: leaf for leaf in leaves if id(leaf.variable) in named}
    others = (leaf for leaf in leaves if id(leaf.variable) not in named)
    names = {known[name]: name for name in params if name in known}
    return names | {leaf: f"leaf{number}" for number, leaf in enumerate(others, 1)}


def _show_root(tensor: Tensor, root: GradientEdge | None, names: Mapping[Node, str]) -> str:
    target = "no graph: it does not require grad" if root is None else _show_edge(*root[:2], names)
    return f"root {describe(tensor)} -> {target}"


def _show_step(node: Node, edges: Edges, names: Mapping[Node, str]) -> list[str]:
    received = ", ".join(describe(slot) for slot in node._input_metadata)
    sent = ", ".join(_show_edge(target, slot, names) for target, slot in edges)
    return [names[node], node.name(), received, f"-> {sent}"]


def _show_edge(target: Node | None, slot: int, names: Mapping[Node, str]) -> str:
    if target is None:
        return NOWHERE
    return f"{names[target]}.{slot}" if len(target._input_metadata) > 1 else names[target]


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Joins the cells of rows; each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
