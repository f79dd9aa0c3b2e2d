"""The nodes of views: the gradient of a view goes to the items that the view shows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.array_functions.filled_plan import fill_absent
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.gradient_representation import is_tracer_class
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.tensor import Tensor, box
from oplib.tensor.views import Chain, Frame, Starts, make_chain
from oplib.tensor.views.chain import starts_to_array

from .formula_node import call_recorded
from .lazy_edges import LazyEdges

_new: Any = object.__new__


class ViewNode(TapeNode):
    """The step from a view back to its tensor. It saves nothing.

    Attributes:
        frame: the frame or chain from the tensor to the view.
        starts: the starts of its windows.
        dtype: the dtype of the view.
        inputs: the leaf that is viewed. It is used if ``edges`` are not set.
    """

    results_are_checked = True
    follows_jax = True
    has_one_slot = True

    frame: Frame | Chain
    starts: Starts
    dtype: Any
    inputs: tuple[Tensor | Edge | None, ...] = ()
    edges = LazyEdges()  # pyright: ignore[reportAssignmentType]  an attribute of the instance hides it

    @property
    def input_metadata(self) -> Sequence[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The shape and dtype of the view."""
        return (_describe_view(self.frame.shape, self.dtype),)

    @property
    def chain(self) -> Chain:
        """The frame as a chain."""
        frame = self.frame
        return frame if isinstance(frame, Chain) else make_chain((frame,))

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Puts the gradient into zeros, or adds it to what has arrived. It is recorded if it is a Tensor."""
        (grad,) = grads
        if grad is None:
            return (None,)
        chain = self.chain
        if run.representation.tensor_mode:
            return call_recorded(pull_function(chain), with_starts([grad], self.starts))
        # Hooks see the gradient of the view. Below a map the sum is of all examples. A sum of 16-bit items is
        # rounded before it is added to another.
        is_alone = self.has_hooks or is_tracer_class[type(grad)] or not chain.is_injective
        held = None if is_alone else run.take_sum(self.edges[0])
        return (chain.pull_back(grad, self.starts, held),)

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: D102  described in TapeNode
        if self.starts:
            operands.append(self.starts)
        return ViewNode.class_token, self.frame, self.dtype

    def find_function(self, present: Mask) -> ArrayFunction:  # noqa: ARG002, D102  described in TapeNode
        return with_starts_first(pull_function(self.chain))


class AsStridedBackward0(ViewNode):
    """The step from a view with a new history straight to its root. The name is torch's."""


def make_view_node(root: Tensor, chain: Chain, starts: Starts, dtype: Any) -> ViewNode:
    """Makes the node that leads from a view to its root. The caller numbers it."""
    node = _new(AsStridedBackward0)
    node.frame, node.starts, node.dtype = chain, starts, dtype
    node.edges = (gradient_edge(root),)
    return node


def make_view_class(name: str) -> type[ViewNode]:
    """Makes the node class of one view op."""
    return type(name, (ViewNode,), {})


def pull_function(chain: Chain) -> ArrayFunction:
    """Returns the pull of a chain as an array function, so that it can be differentiated."""
    return make_tape_function(chain, "pull", lambda *given: (Chain.pull(*given),), "View")


def make_tape_function(
    chain: Chain, name: Hashable, compute: Callable[[Chain, Any, Any], Any], label: str
) -> ArrayFunction:
    """Returns a function of a chain as an array function of a gradient and of starts. The chain keeps it."""
    function = chain.tape_functions.get(name)
    if function is None:
        function = chain.tape_functions[name] = ArrayFunction(
            lambda grad, *starts: compute(chain, grad, starts[0] if starts else ()), label
        )
    return function


def with_starts_first(function: ArrayFunction) -> ArrayFunction:
    """Returns a function of a gradient and of starts that receives the starts first, as operands."""
    compute = function.function
    return ArrayFunction(lambda *arrays: compute(arrays[-1], *arrays[:-1]), function.name)


def with_starts(tensors: list[Tensor], starts: Starts) -> list[Tensor]:
    """Adds starts as an operand, if there are any."""
    return [*tensors, box(jnp.asarray(starts_to_array(starts)))] if starts else tensors


class SeveralViewsNode(TapeNode):
    """The step back from several views that one call made.

    Attributes:
        join: the function from the gradients of all views to the gradient of the tensor.
    """

    results_are_checked = True
    follows_jax = True

    join: ArrayFunction

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Joins the gradients, with zeros for absent ones."""
        if not pick_given(grads):
            return (None,)
        filled = run.representation.fill(grads, self.input_metadata)
        return call_recorded(self.join, filled) if run.representation.tensor_mode else self.join(*filled)

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: ARG002, D102  described in TapeNode
        shapes = tuple([spec.shape for spec in self.input_metadata])  # absent gradients are zeros of these
        return SeveralViewsNode.class_token, self.join.token, shapes, self.input_metadata[0].dtype

    def find_function(self, present: Mask) -> ArrayFunction:  # noqa: D102  described in TapeNode
        join = self.join
        return ArrayFunction(fill_absent(join.function, present, tuple(self.input_metadata)), join.name)

    @staticmethod
    def make(
        name: str, tensor: Tensor, shapes: Sequence[tuple[int, ...]], join: ArrayFunction
    ) -> SeveralViewsNode:
        """Makes the node of one call. The caller numbers it."""
        node: SeveralViewsNode = _new(_several_class(name))
        dtype = tensor._storage.spec.dtype
        node.input_metadata = tuple([_describe_view(shape, dtype) for shape in shapes])
        node.edges = (gradient_edge(tensor),)
        node.join = join
        return node


@lru_cache(maxsize=1024)
def _describe_view(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@cache
def _several_class(name: str) -> type[SeveralViewsNode]:
    return type(name, (SeveralViewsNode,), {})
