"""The nodes outside of a map that correspond to nodes of views inside, which save nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Arrays
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.autograd.recording.formula_node import call_recorded
from oplib.autograd.recording.view_node import SeveralViewsNode, ViewNode, pull_function, with_starts
from oplib.tensor.views import Starts

from .mapped_plan import CAPACITY, batch_shape

_new: Any = object.__new__


class MappedViewNode(TapeNode):
    """The step back from the views of all examples to the viewed tensors."""

    results_are_checked = True
    follows_jax = True

    function: ArrayFunction
    starts: Starts
    _name: str

    def name(self) -> str:  # noqa: D102
        return self._name

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Puts the gradients into zeros. It is recorded if gradients are tensors."""
        if all(grad is None for grad in grads):
            return (None,)
        filled = run.representation.fill(grads, self.input_metadata)
        if run.representation.tensor_mode:
            return call_recorded(self.function, with_starts(filled, self.starts))
        starts = [tensor._storage.array for tensor in with_starts([], self.starts)]
        return self.function(*filled, *starts)


def is_view_node(node: TapeNode) -> bool:
    """Returns whether this module maps a node."""
    return isinstance(node, (ViewNode, SeveralViewsNode)) and not node.has_hooks


def make_mapped_view(node: Any, size: int) -> MappedViewNode:
    """Makes the outer node for a node of views, without an edge."""
    made: MappedViewNode = _new(MappedViewNode)
    made._name = node.name()
    made.sequence_nr = node.sequence_nr
    made._metadata = node._metadata
    made.input_metadata = [batch_shape(one, size) for one in node.input_metadata]
    made.starts = () if isinstance(node, SeveralViewsNode) else node.starts
    return made


def fill_mapped_view(
    made: MappedViewNode, node: Any, size: int, edge: Edge | None, *, is_batched: bool
) -> None:
    """Sets the edge of an outer node.

    Args:
        made: the outer node.
        node: the node inside of the map.
        size: the size of the batch.
        edge: the edge outside.
        is_batched: whether the gradient has the batch there; otherwise it is summed.
    """
    step = node.join if isinstance(node, SeveralViewsNode) else pull_function(node.chain)
    made.function = _map_step(step, size, len(made.input_metadata), is_batched=is_batched)
    made.edges = (edge,)


@lru_cache(maxsize=CAPACITY)
def _map_step(step: ArrayFunction, size: int, count: int, *, is_batched: bool) -> ArrayFunction:
    """Maps a step back over its gradients. The starts of windows are the same for all examples."""

    def mapped(*arrays: Any) -> Arrays:
        axes = (0,) * count + (None,) * (len(arrays) - count)
        (grad,) = jax.vmap(step.function, in_axes=axes, axis_size=size)(*arrays)
        return (grad if is_batched else jnp.sum(grad, axis=0),)

    return ArrayFunction(mapped, step.name, compiled=step.compiled)
