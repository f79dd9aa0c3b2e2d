"""The end of the tape inside a compiled function: what was recorded outside does not run inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


class History(NamedTuple):
    """The history of an operand.

    Attributes:
        number: of the operand.
        behind: the numbers of the operands that its gradient flows to.
    """

    number: int
    behind: list[int]


def list_histories(operands: Sequence[CapturedPath]) -> list[History]:
    """Returns the histories of operands, outside of the trace: an edge that is read inside belongs to it."""
    numbers = [number for number, path in enumerate(operands) if path.value._grad_fn is not None]
    edges = [gradient_edge(path.value) for path in operands] if numbers else []
    found: list[History] = []
    for number in numbers:
        edge = edges[number]
        assert edge is not None
        plan = RunPlan([edge])
        ends = [(n, end[0]) for n, end in enumerate(edges) if end is not None and end[0] is not edge[0]]
        found.append(History(number, [n for n, node in ends if plan.executes(node)]))
    return found


def set_boundaries(
    name: str, operands: Sequence[CapturedPath], histories: Sequence[History]
) -> list[Boundary]:
    """Lets the histories of operands end at nodes that raise.

    Args:
        name: of the function, for errors.
        operands: the paths of all operands.
        histories: of those that have one.
    """
    made: list[Boundary] = []
    for number, _ in histories:
        tensor = operands[number].value
        made.append(Boundary.make(tensor, name, operands[number].name))
        tensor._grad_fn, tensor._output_nr, tensor._backward_hooks = made[-1], 0, None
    for boundary, (_, behind) in zip(made, histories, strict=True):
        boundary.edges = tuple([gradient_edge(operands[number].value) for number in behind])
    return made
