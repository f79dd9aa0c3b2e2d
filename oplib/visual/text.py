"""The backward graph as text: one line per node, in the order in which the engine would run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap

from oplib.autograd.graph import get_gradient_edge
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.errors import describe
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .records import make_records
from .traversal import collect_edges, list_tensors, require_tensors, sort_as_engine

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
    order = sort_as_engine(collect_edges(root.node for root in roots if root is not None))
    records = make_records(order, named)
    steps = [record for record in records if not record.is_leaf]
    places = {name: place for place, name in enumerate(named)}
    leaves = sorted((one for one in records if one.is_leaf), key=lambda one: places.get(one.op, len(places)))
    names = {step.number: f"%{number}" for number, step in enumerate(steps, 1)}
    shapes = [[shape.replace(", ", ",") for shape in record.shapes] for record in records]
    names |= {leaf.number: leaf.op for leaf in leaves}

    def show_edge(target: int | None, slot: int) -> str:
        if target is None:
            return NOWHERE
        return f"{names[target]}.{slot}" if len(records[target].shapes) > 1 else names[target]

    numbers = {node: number for number, node in enumerate(order)}
    targets = [
        "no graph: it does not require grad"
        if root is None
        else show_edge(numbers[root.node], root.output_nr)
        for root in roots
    ]
    lines = [f"root {describe(tensor)} -> {target}" for tensor, target in zip(tensors, targets, strict=True)]
    rows = [(step.number, step.name, ", ".join(starmap(show_edge, step.edges))) for step in steps]
    lines += align(
        [[names[number], name, ", ".join(shapes[number]), f"-> {sent}"] for number, name, sent in rows]
    )
    lines += align([[leaf.op, *shapes[leaf.number]] for leaf in leaves])
    reached = {id(node.variable) for node in order if isinstance(node, AccumulateGrad)}
    missed = {name: tensor for name, tensor in named.items() if id(tensor) not in reached}
    lines += [f"no gradient reaches {name}  {describe(tensor)}" for name, tensor in missed.items()]
    return "\n".join(lines)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Joins the cells of rows; each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
