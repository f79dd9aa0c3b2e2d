"""The end of the tape inside a compiled function: what was recorded outside does not run inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.errors import TracingError, describe
from oplib.tensor import Tensor
from oplib.transforms.tracing.paths import CapturedPath

_new: Any = object.__new__


class Boundary(TapeNode):
    """Stands for the node of an operand that was recorded before the call.

    While the function runs, its edges lead to the other operands behind the operand. So a backward that looks
    for the gradient of one of these runs this node, which raises. Later it has no edges.

    Attributes:
        place: how the function leads to the operand, for errors.
    """

    has_one_slot = True
    results_are_checked = True
    follows_jax = True
    place: str
    function: str

    @staticmethod
    def make(tensor: Tensor, function: str, place: str) -> Boundary:
        """Makes the node that stands for that of a Tensor."""
        node = _new(Boundary)
        spec = tensor._storage.spec
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(spec.shape), spec.dtype),)
        node.function, node.place = function, place
        return node

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  described in TapeNode
        raise TracingError(
            f"{self.function}: a backward inside the compiled function reaches a node that was recorded "
            f"outside of it. Got {describe(self.input_metadata[0])}, found as {self.place}. Call backward "
            "outside, on what the function returns, or compute that Tensor inside too."
        )


def find_behind(operands: Sequence[CapturedPath]) -> dict[int, list[int]]:
    """Returns for each operand with a history the operands that its gradient flows to, all by their numbers.

    It is asked outside of the trace: an edge that is read inside belongs to the trace.
    """
    numbers = [number for number, path in enumerate(operands) if path.value._grad_fn is not None]
    edges = [gradient_edge(path.value) for path in operands] if numbers else []
    found: dict[int, list[int]] = {}
    for number in numbers:
        edge = edges[number]
        assert edge is not None
        plan = RunPlan([edge])
        ends = [(n, end[0]) for n, end in enumerate(edges) if end is not None and end[0] is not edge[0]]
        found[number] = [n for n, node in ends if plan.executes(node)]
    return found


def set_boundaries(
    name: str, operands: Sequence[CapturedPath], behind: dict[int, list[int]]
) -> list[Boundary]:
    """Lets the histories of operands end at nodes that raise.

    Args:
        name: of the function, for errors.
        operands: the paths of all operands.
        behind: as :func:`find_behind` returns it.
    """
    made = [Boundary.make(operands[number].value, name, operands[number].name) for number in behind]
    for boundary, number in zip(made, behind, strict=True):
        tensor = operands[number].value
        tensor._grad_fn, tensor._output_nr, tensor._backward_hooks = boundary, 0, None
    for boundary, ends in zip(made, behind.values(), strict=True):
        boundary.edges = tuple([gradient_edge(operands[number].value) for number in ends])
    return made
