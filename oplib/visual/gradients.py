"""The gradients of a graph: a backward pass that measures each edge and leaves everything as it was."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.autograd import grad
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.graph import Node
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.edges import GradientEdge
from oplib.autograd.saved_tensors.saved_tensor import second_pass_error
from oplib.errors import AutogradError, TracingError, describe
from oplib.frozen import frozen
from oplib.tensor import Tensor
from oplib.tensor.random.draw_log import DrawLog

from .records import name_node, read_saved


@frozen
class EdgeStatistics:
    """The size of one gradient.

    Attributes:
        shape: shape and dtype.
        rms: the root of the mean square of the finite items.
        largest: the largest finite item, without its sign.
        nans: how many items are nan.
        infs: how many items are infinite.
        count: how many items there are.
    """

    shape: str
    rms: float
    largest: float
    nans: int
    infs: int
    count: int

    @property
    def is_bad(self) -> bool:
        """Whether an item is not finite."""
        return bool(self.nans or self.infs)


@frozen
class FirstBad:
    """The node of which the first gradient comes that is not finite.

    Attributes:
        node: its number.
        text: sentences that say which values caused it and how far it spreads.
    """

    node: int
    text: str


@dataclass(slots=True)
class GradientReport:
    """The gradients of one backward pass.

    Attributes:
        arrives: for each node, the gradient of each slot; None where none arrived.
        leaves: for each node, the gradient of each input.
        edges: the gradient that a node sends to another, by both numbers.
        first: the first node that made a gradient that is not finite; None if all are finite.
        reached: how many leaves get a gradient that is not finite.
        leaf_count: how many leaves get a gradient.
    """

    arrives: dict[int, list[EdgeStatistics | None]] = field(default_factory=dict[int, Any])
    leaves: dict[int, list[EdgeStatistics | None]] = field(default_factory=dict[int, Any])
    edges: dict[tuple[int, int], EdgeStatistics] = field(default_factory=dict[Any, Any])
    first: FirstBad | None = None
    reached: int = 0
    leaf_count: int = 0
    largest_rms: float = 0.0

    def is_bad(self, number: int) -> bool:
        """Returns whether a gradient that a node receives or sends is not finite."""
        measured = (*self.arrives.get(number, ()), *self.leaves.get(number, ()))
        return any(gradient is not None and gradient.is_bad for gradient in measured)


def measure_gradient(gradient: Tensor | None) -> EdgeStatistics | None:
    """Returns the statistics of a gradient; None where there is none, or it has no numbers."""
    if gradient is None:
        return None
    array: Any = gradient._storage.array
    if isinstance(array, Tracer):
        raise TracingError(
            f"graph: run=True reads the values of gradients. Got {describe(array)}, which exists only while "
            "a JAX transformation traces. Call it outside the traced function."
        )
    try:
        values = np.abs(np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    except (TypeError, ValueError):  # keys and float0 have no size
        return None
    finite = values[np.isfinite(values)]
    nans = int(np.isnan(values).sum())
    largest = float(finite.max()) if finite.size else 0.0
    scale = largest or 1.0  # squares of small or large numbers would leave the range
    return EdgeStatistics(
        shape=describe(array).replace(",", ", "),
        rms=float(np.sqrt(np.mean(np.square(finite / scale))) * scale) if finite.size else 0.0,
        largest=largest,
        nans=nans,
        infs=int(values.size - finite.size - nans),
        count=int(values.size),
    )


def run_backward(tensors: Sequence[Tensor], nodes: Sequence[Node]) -> GradientReport:
    """Runs the backward of tensors, and returns the gradients of all edges.

    Hooks run. The ``grad`` of leaves, retained gradients, versions, Generators and the graph stay as they
    were.

    Raises:
        SavedTensorError: a backward has freed the graph.
        AutogradError: the only tensor is no scalar.
    """
    for node in nodes:
        if read_saved(node)[1]:
            raise second_pass_error(name_node(node))
    for tensor in tensors:
        if tensor.numel() != 1:
            raise AutogradError(
                f"graph: run=True needs losses of one item. Got {describe(tensor)}. Reduce it, as by "
                ".sum(), or leave out run=True."
            )
    report = GradientReport()
    numbers: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    leaves = [node for node in nodes if isinstance(node, AccumulateGrad)]
    with _measuring(nodes, report):
        edges = [GradientEdge(leaf, 0) for leaf in leaves]
        grads = grad(list(tensors), edges, retain_graph=True, allow_unused=True)
    for leaf, gradient in zip(leaves, grads, strict=True):
        report.arrives[numbers[leaf]] = [measure_gradient(gradient)]
    _collect_edges(report, nodes, numbers)
    if report.first is not None:
        spread = f"It spreads to {report.reached} of {report.leaf_count} leaves."
        report.first = FirstBad(report.first.node, f"{report.first.text} {spread}")
    return report


@contextmanager
def _measuring(nodes: Sequence[Node], report: GradientReport) -> Generator[None]:
    """Measures at each node for a block, and restores at its end what a backward changes."""
    kept: list[tuple[Tensor, Any, Any, int]] = []
    log = DrawLog()
    with ExitStack() as stack:
        for number, node in enumerate(nodes):
            for tensor in _list_holders(node):
                held = tensor._gradient
                storage: Any = None if held is None else held._storage
                kept.append((tensor, held, getattr(storage, "array", None), getattr(storage, "version", 0)))
            if not isinstance(node, AccumulateGrad):
                had_hooks = getattr(node, "has_hooks", True)
                stack.callback(setattr, node, "has_hooks", had_hooks)
                stack.callback(node.register_hook(partial(_note_node, report, number, node)).remove)
        try:
            with log.noting():
                yield
        finally:
            log.rewind()
            for tensor, held, array, version in kept:
                tensor._grad = held
                if held is not None and held._storage.version != version:
                    held._storage.array, held._storage.version = array, version


def _list_holders(node: Any) -> list[Tensor]:
    """Returns the Tensors whose ``grad`` a backward through a node may set."""
    if isinstance(node, AccumulateGrad):
        return [node.variable]
    tensors = [reference() for reference in (getattr(node, "_retained", None) or {}).values()]
    return pick_given(tensors)


def _note_node(report: GradientReport, number: int, node: Any, sent: Any, received: Any) -> None:
    """Measures the gradients of a node; it is its hook."""
    arrives, leaves = list(map(measure_gradient, received)), list(map(measure_gradient, sent))
    report.arrives[number], report.leaves[number] = arrives, leaves
    is_fine = not any(gradient is not None and gradient.is_bad for gradient in arrives)
    if report.first is None and is_fine:
        for index, gradient in enumerate(leaves):
            if gradient is not None and gradient.is_bad:
                report.first = FirstBad(number, _explain(node, gradient, sent[index]._storage.array))
                return


def _explain(node: Any, gradient: EdgeStatistics, array: Any) -> str:
    """Returns which values made a gradient that is not finite."""
    values = np.asarray(array)
    indices = np.argwhere(~np.isfinite(values))
    index = tuple(map(int, indices[0]))
    what = " and ".join(name for name, count in (("nan", gradient.nans), ("inf", gradient.infs)) if count)
    bad = f"{gradient.nans + gradient.infs} of {gradient.count} items that leave are {what}"
    text = [f"The gradient that arrives is finite. {bad}."]
    causes: list[str] = []
    for name, saved in read_saved(node)[0]:
        if saved is None or isinstance(saved, Tracer) or not hasattr(saved, "shape"):
            continue
        if saved.shape == values.shape:
            causes.append(f"{name} is {np.asarray(saved)[index].item():.6g}")
        elif not saved.shape:
            causes.append(f"{name} is {np.asarray(saved).item():.6g}")
    if causes:
        where = f" at index {list(index)}" if index else ""
        text.append(f"There {', '.join(dict.fromkeys(causes))}{where}.")
    return " ".join(text)


def _collect_edges(report: GradientReport, nodes: Sequence[Any], numbers: dict[Any, int]) -> None:
    for number, leaves in report.leaves.items():
        for (target, _), gradient in zip(nodes[number].next_functions, leaves, strict=False):
            if target is not None and gradient is not None:
                key = number, numbers[target]
                before = report.edges.get(key)
                is_worse = before is None or (gradient.is_bad, gradient.rms) > (before.is_bad, before.rms)
                if is_worse:
                    report.edges[key] = gradient
    report.largest_rms = max((gradient.rms for gradient in report.edges.values()), default=0.0)
    of_leaves = [
        report.arrives.get(number, [None])[0] for node, number in numbers.items() if not node.next_functions
    ]
    measured = pick_given(of_leaves)
    report.leaf_count = len(measured)
    report.reached = sum(gradient.is_bad for gradient in measured)
