"""The graph of a loss as a picture: text, SVG, HTML, and Graphviz."""

from __future__ import annotations

import cmath
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from oplib.errors import ArgumentValueError, DataError, describe
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .dot import write_dot
from .gradients import GradientReport, run_backward
from .groups import FunctionSummary, name_code, summarize
from .node_drawing import format_bytes
from .page import write_page
from .records import NodeRecord, count_saved, find_nodes, make_records, name_parameters
from .svg import draw_svg
from .text import align, graph_text
from .traversal import list_tensors

MOST_TEXT = 2_000
"""The most nodes that ``str`` shows one by one."""

_CURE = ": oplib.visual.first_nan(step) finds the call"


class Graph:
    """The graph of a loss. Make it with :func:`graph`.

    Attributes:
        nodes: the records of its nodes, in the order in which the engine runs them.
        gradients: of all edges, if the graph was made with ``run=True``; else None.
        label: function and file of the loss.
    """

    def __init__(self, tensors: Sequence[Tensor], params: dict[str, Tensor], *, run: bool) -> None:
        self._tensors, self._params = tensors, params
        nodes = find_nodes(tensors, "graph")
        self.nodes: list[NodeRecord] = make_records(nodes, params)
        self.gradients: GradientReport | None = run_backward(tensors, nodes) if run else None
        last = self.nodes[0]
        self.label = f"{name_code(last.code)} · {last.place}" if last.place else last.op

    @entry_point
    def svg(self) -> str:
        """Returns a picture: boxes are open up to 300 nodes. With ``run=True`` it marks nan and inf."""
        return draw_svg(self.nodes, self.gradients, f"oplib graph of {self.label}")

    @entry_point
    def html(self) -> str:
        """Returns a page for browsers: one file that needs no network.

        It opens and closes boxes, and has views of ops, saved memory and gradients.
        """
        return write_page(self.nodes, self.gradients, self.label, self._describe_losses())

    def dot(self) -> str:
        """Returns the graph in the language of Graphviz. It needs no package."""
        return write_dot(self.nodes)

    @entry_point
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the graph to a file, in the form that its ending names, and returns the path.

        Args:
            path: ends in ``.html``, ``.svg``, ``.dot`` or ``.txt``.

        Raises:
            ArgumentValueError: the ending names no form.
            DataError: the file cannot be written.
        """
        forms = {".html": self.html, ".svg": self.svg, ".dot": self.dot, ".txt": self.__str__}
        return save_form(path, forms, "graph.save")

    def summary(self) -> list[FunctionSummary]:
        """Returns the numbers of nodes and saved bytes for each function that recorded nodes."""
        return summarize(self.nodes)

    @property
    def nbytes(self) -> int:
        """The bytes that the graph keeps; an array that several nodes keep counts once."""
        return count_saved(self.nodes)

    def __str__(self) -> str:
        losses = [f"{text}\n" for text in self._describe_losses() if _CURE in text]
        if len(self.nodes) <= MOST_TEXT:
            return "".join([*losses, graph_text(self._tensors, params=self._params)])
        rows = [
            [row.function, row.place, f"{row.nodes} nodes", format_bytes(row.nbytes), _show_ops(row)]
            for row in self.summary()
        ]
        roots = ", ".join(map(describe, self._tensors))
        head = f"{len(self.nodes)} nodes behind {roots}, {format_bytes(self.nbytes)} saved; by function:"
        return "".join([*losses, "\n".join([head, *align(rows)])])

    def _describe_losses(self) -> list[str]:
        """Returns the losses whose backward was run; one that is not finite with what finds the cause."""
        losses = [] if self.gradients is None else [tensor.item() for tensor in self._tensors]
        return [f"loss {loss:.6g}{'' if cmath.isfinite(loss) else _CURE}" for loss in losses]

    def __repr__(self) -> str:
        return f"<oplib graph of {self.label}: {len(self.nodes)} nodes, {format_bytes(self.nbytes)} saved>"

    def _repr_html_(self) -> str:
        return self.svg()


def _show_ops(summary: FunctionSummary) -> str:
    return ", ".join(f"{op} ×{count}" for op, count in summary.ops)


def save_form(given: str | os.PathLike[str], forms: Mapping[str, Callable[[], str]], caller: str) -> Path:
    """Writes a file in the form that its ending names, and returns its path.

    Raises:
        ArgumentValueError: the ending names no form.
        DataError: the file cannot be written.
    """
    path = Path(given)
    if path.suffix not in forms:
        raise ArgumentValueError(
            f"{caller}: the ending of the path names no form. Got {str(path)!r}. Choose one of "
            f"{', '.join(forms)}."
        )
    text = forms[path.suffix]()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{caller}: the file cannot be written. Got {str(path)!r}: {error.strerror}. Choose a path in a "
            "folder that exists and that you may write."
        ) from None
    return path


@entry_point
def graph(loss: Tensor | Sequence[Tensor], params: Any = None, *, run: bool = False) -> Graph:
    """Returns the graph of a loss as a picture.

    Boxes are the calls of functions that recorded nodes. In a notebook the result shows
    itself.

    Args:
        loss: a Tensor with a history, or several.
        params: names for leaves: Tensors in containers, an iterator, or an object with ``named_parameters``.
        run: whether a backward runs to measure the gradient of each edge. Hooks run; the ``grad`` of leaves,
            retained gradients, versions and Generators stay as they were.

    Returns:
        An object with ``svg()``, ``html()``, ``dot()``, ``save(path)``, ``nodes``, ``gradients`` and
        ``summary()``; ``str`` of it is :func:`graph_text`, or for a large graph a summary.

    Raises:
        AutogradError: ``loss`` has no history, or with ``run=True`` more than one item.
        GradientTypeError: an argument is no Tensor.
        SavedTensorError: with ``run=True``: a backward has freed the graph.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([0.0, 4.0], requires_grad=True)
        >>> print(oplib.visual.graph(w.sqrt().sum(), {"w": w}))
        root f32[] -> %1
        %1  SumBackward0   f32[]   -> %2
        %2  SqrtBackward0  f32[2]  -> w
        w  f32[2]
        >>> oplib.visual.graph(w.sqrt().sum(), {"w": w}, run=True).gradients.first.text[:73]
        'The gradient that arrives is finite. 1 of 2 items that leave are inf. The'
    """
    tensors = list_tensors(loss, "graph", "loss")
    return Graph(tensors, name_parameters(params, "graph"), run=run)
