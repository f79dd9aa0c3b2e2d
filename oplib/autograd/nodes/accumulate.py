"""Accumulators of leaves, and the edge of the gradient of a tensor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

from oplib.autograd.tangents import write_tangent
from oplib.errors import AutogradError, GradientTypeError, TracingError, describe
from oplib.modes import call_in_grad_mode, modes
from oplib.tensor import Tensor, box
from oplib.tensor.storage.escape import is_escaping, is_made_inside
from oplib.tensor.views.view_storage import refuse_shared_items

from .creation import tell_creation
from .gradient_representation import ARRAYS, is_tracer_class
from .node import FIRST, Edge, Gradients, TapeNode, builtin_nodes

if TYPE_CHECKING:
    from .backward_run import BackwardRun

_new: Any = object.__new__
# One lock for all leaves. A lock per leaf would cost each recorded call as much as its node.
adding = threading.RLock()


class AccumulateGrad(TapeNode):
    """Adds gradients to the ``grad`` of a leaf. A leaf has at most one, which lives while it is referenced.

    A training step makes one for every parameter, so construction must be cheap.

    Attributes:
        variable: the leaf. It holds its accumulator weakly.
    """

    sequence_nr: int = FIRST
    results_are_checked = True
    has_one_slot = True
    runs_at_arrival = True

    variable: Tensor

    def name(self) -> str:  # noqa: D102
        return "oplib::autograd::AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad of a leaf {describe(self.variable)}>"

    @property
    def input_metadata(self) -> Sequence[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  lazy
        """The shape and dtype of the leaf."""
        return (self.variable._storage.array,)

    @property
    def _tensor_pre_hooks(self) -> dict[int, Any] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        hooks = self.variable._backward_hooks
        return {0: hooks} if hooks else None

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Adds a gradient to the ``grad`` of the leaf, or stores it."""
        grad = grads[0]
        leaf = self.variable
        if not leaf._requires_grad:  # requires_grad_(False) or detach_() was called since
            return ()
        if leaf._grad_fn is not None:
            self.check()
        if grad is not None:
            representation = run.representation
            array = grad._storage.array if representation.tensor_mode else grad
            is_traced = is_tracer_class[type(array)]
            if is_traced:
                refuse_traced_gradient(array, leaf, "the leaf")
            with adding:  # an interrupt between acquire() and `try` would leave the lock taken
                held = leaf._grad
                if held.__class__ is tuple:  # to ask _gradient first would cost a frame
                    held = leaf._gradient
                if held is not None:
                    self._add(held, grad, array, run)
                elif run.create_graph:
                    leaf._grad = representation.own(grad)
                else:
                    leaf._grad = ARRAYS.own(array) if is_traced else box(array)
        if leaf._post_accumulate_hooks:
            call_in_grad_mode(run.create_graph, self.run_post_accumulate_hooks)
        return ()

    def _add(self, held: Tensor, grad: Any, array: Any, run: BackwardRun) -> None:
        """Writes into the existing ``grad``; a recorded sum is a new tensor."""
        add = run.representation.add
        if held._storage.spec.shape != array.shape:
            refuse_old_gradient("AccumulateGrad", held, array)
        if run.create_graph:
            self.variable._grad = add(held, grad)
        elif run.representation.tensor_mode:  # in a dual level, where the sum has a tangent
            added = add(held, grad)
            store_sum(held, added._storage.array)
            write_tangent(held, added)
        else:
            store_sum(held, add(held._storage.array, array))

    def check(self) -> None:
        """Raises if the leaf has got a history since it was recorded."""
        if self.variable._grad_fn is not None:
            raise AutogradError(
                "AccumulateGrad: leaf variable has been moved into the graph interior. Got "
                f"{describe(self.variable)}, which was recorded as a leaf, and then written "
                "by an op that was recorded too. Write into a clone() of it."
            )

    def run_post_accumulate_hooks(self) -> None:
        """Runs the hooks of the leaf that come after its accumulation."""
        leaf = self.variable
        if leaf._post_accumulate_hooks:
            for hook in tuple(leaf._post_accumulate_hooks.values()):
                _refuse_result(hook(leaf), hook)

    def _register_hook_dict(self, tensor: Any) -> None:  # noqa: ARG002  read from the leaf
        self.has_hooks = True


builtin_nodes["AccumulateGrad"] = AccumulateGrad


def store_sum(held: Any, total: Any) -> None:
    """Writes the sum of the ``grad`` of a leaf and a gradient into that. The caller holds ``adding``."""
    refuse_shared_items(held, "AccumulateGrad")
    held._storage.write(total)


def gradient_edge(tensor: Tensor) -> Edge | None:
    """Returns the node and slot that receive the gradient of ``tensor``; None outside the graph.

    This works in any grad mode. The accumulator of a leaf is made at the first request.
    """
    node: Any = tensor._grad_fn
    if node is not None:
        return node, tensor._output_nr
    return leaf_edge(tensor) if tensor._requires_grad else None


def leaf_edge(leaf: Tensor) -> Edge:
    """Returns the edge to the accumulator of a leaf that requires grad, which it makes if there is none."""
    held: Any = leaf._accumulator
    accumulator = None if held is None else held()
    if accumulator is None:
        accumulator = _new(AccumulateGrad)
        accumulator.variable = leaf
        reference = ref(accumulator)
        if leaf._backward_hooks is not None:
            accumulator.has_hooks = True
        if leaf._accumulator is not held:  # another thread has made it, or a finalizer that ran here
            return leaf_edge(leaf)
        leaf._accumulator = reference  # since the comparison nothing was called, so no thread could be first
        if modes.state.creation_hooks:
            tell_creation(accumulator)
    return accumulator, 0


def existing_accumulator(tensor: Tensor) -> AccumulateGrad | None:
    """Returns the accumulator of a leaf if it exists."""
    held: Callable[[], AccumulateGrad | None] | None = tensor._accumulator
    return None if held is None else held()


def refuse_traced_gradient(array: Any, tensor: Tensor, role: str) -> None:
    """Raises if a traced gradient would be stored in a tensor that outlives the trace."""
    if is_escaping(array, tensor) and not is_made_inside(tensor):
        raise TracingError(
            f"backward: a traced gradient would be stored in {role} {describe(tensor)}, "
            f"which was made outside this trace and outlives it. Got a gradient {describe(array)} that "
            "exists only while a JAX transformation traces. Use oplib.autograd.grad(outputs, inputs), "
            "which returns the gradients, or make the tensor inside the traced function."
        )


def refuse_old_gradient(op: str, grad: Tensor, other: Any) -> NoReturn:
    """Raises for a ``grad`` of another shape than that which the leaf has got since."""
    raise AutogradError(
        f"{op}: the 'grad' of a leaf is from before the leaf got another shape by .data or set_. Got a grad "
        f"{describe(grad)} beside {describe(other)}. Clear it where you assign .data: w.grad = None."
    )


def _refuse_result(result: object, hook: Callable[[Tensor], object]) -> None:
    """Raises if a hook returned a value. Its changes of ``grad`` stay."""
    if result is not None:
        name = getattr(hook, "__name__", type(hook).__name__)
        raise GradientTypeError(
            f"AccumulateGrad: post accumulate grad hook '{name}' should return None. Got "
            f"{type(result).__name__}. Write into tensor.grad, or assign it."
        )
