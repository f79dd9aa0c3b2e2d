"""``grad(..., is_grads_batched=True)``: one run of the engine on gradients with a batch dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import mask_given, pick_given
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.autograd.tangents import set_tangent, unbox_tangent
from oplib.errors import GradientValueError, SavedTensorError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Tensor, upcalls
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.views.chain import starts_to_array

from .run import Run

Pairs = list[tuple[Any, Any] | None]
_MOST = 4096
_mapped: dict[Any, Callable[..., Gradients]] = {}


def run_batched(
    call: Callable[..., tuple[Tensor | None, ...]], grads: Sequence[Tensor | None], *, create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Maps one run of the engine over the first dimension of every gradient.

    If every node that runs has a formula, the formulas are mapped, each as one compiled call. Otherwise the
    run is mapped as a whole: the nodes run once and see single gradients, as tracers. Calls that they record
    with ``create_graph`` are recorded again outside, as in every ``vmap``. In an open dual level, tangents
    are mapped together with the gradients that carry them.

    Args:
        call: runs the engine on gradients; ``run_class`` is the class of its run.
        grads: the gradients with their batch dimension.
        create_graph: whether the pass is recorded.

    Returns:
        The gradients of the inputs with a new first dimension; None for an input without gradient.

    Raises:
        GradientValueError: a gradient is None, or the batches have different sizes.
    """
    _check_batches(grads)
    if create_graph:
        return upcalls.map_examples(call, grads)
    state = modes.state
    if not (state.watchers or is_inside_trace() or is_uncompiled()):
        try:
            return call(tuple(grads), run_class=BatchedRun)
        except _NotFormulas:
            pass

    def run_one(pairs: Pairs) -> Pairs:
        return _read(_run_below_map(call, _box(pairs)))

    return _box(jax.vmap(run_one)(_read(grads)))


class _NotFormulas(Exception):  # noqa: N818  it is no error: the run is mapped as a whole
    """A hook or Python code would run, which may hand a tracer from one node to another."""


class BatchedRun(Run):
    """A run of formulas on gradients with a batch dimension, each of which is mapped by itself.

    Attributes:
        calls: for each node that has not run, the key of its formula, and its operands.
    """

    is_symbolic = True  # every node takes the path of run_hooked

    def execute(self, roots: Sequence[Edge], grads: Gradients) -> list[Any]:
        """Runs the formulas, or raises before the first of them if a node has none."""
        specs = [node.input_metadata[slot] for node, slot in roots]
        are_fitting = all(
            grad.shape[1:] == spec.shape and grad.dtype == spec.dtype
            for grad, spec in zip(grads, specs, strict=True)
        )
        members = self.plan.members or ()
        if not are_fitting or any(node.has_hooks or node.fits_gradients for node in members):
            raise _NotFormulas
        self.calls = {node: _read_call(node) for node in self.plan.needed}
        return super().execute(roots, grads)

    def run_hooked(self, node: TapeNode, grads: list[Any]) -> Gradients:
        """Runs the formula of a node on all examples."""
        key, operands = self.calls.pop(node)
        present = mask_given(grads)
        if True not in present:
            return (None,) * len(node.edges)
        mapped = _find_mapped(node, (key, present, len(operands)))
        if mapped is not None:
            return mapped(*operands, *pick_given(grads))
        return jax.vmap(lambda single: tuple(_run_below_map(node.apply, list(single), self)))(grads)


def _read_call(node: TapeNode) -> tuple[Any, list[Any]]:
    """Returns the key of the formula of a node, and its operands."""
    operands: list[Any] = []
    try:
        key = node.read_operands(operands)
    except SavedTensorError:
        key = None  # the node raises it when it runs
    if key is None or not node.results_are_checked:
        raise _NotFormulas
    return key, [starts_to_array(one) if type(one) is tuple else one for one in operands]


def _find_mapped(node: TapeNode, key: tuple[Any, Mask, int]) -> Callable[..., Gradients] | None:
    """Returns the compiled formula for batches of the present gradients; None if it is not compiled."""
    mapped = _mapped.get(key)
    if mapped is None:
        _, present, count = key
        function = node.find_function(present)
        if function is None:
            return None
        if len(_mapped) >= _MOST:
            _mapped.clear()
        axes = (None,) * count + (0,) * sum(present)
        mapped = _mapped[key] = jax.jit(jax.vmap(function.run, in_axes=axes))
    return mapped


def _run_below_map(function: AnyFunction, *args: Any) -> Any:
    """Calls a function that JAX maps: in it no gradient can be stored."""
    state = modes.state
    state.vmap_levels += 1
    try:
        return function(*args)
    finally:
        state.vmap_levels -= 1


def _read(tensors: Sequence[Tensor | None]) -> Pairs:
    """Returns the array of each tensor, with the array of its tangent."""
    return [None if tensor is None else (tensor._storage.array, unbox_tangent(tensor)) for tensor in tensors]


def _box(pairs: Pairs) -> Values:
    boxed = [None if pair is None else ARRAYS.box(pair[0]) for pair in pairs]
    for tensor, pair in zip(boxed, pairs, strict=True):
        if tensor is not None and pair is not None and pair[1] is not None:
            set_tangent(tensor, ARRAYS.box(pair[1]))
    return tuple(boxed)


def _check_batches(grads: Sequence[Tensor | None]) -> None:
    arrays = [grad._storage.array for grad in grads if grad is not None]
    if len(arrays) < len(grads) or any(array.ndim == 0 for array in arrays):
        raise GradientValueError(
            "grad: with is_grads_batched=True every output needs a gradient. Got None for one, which has no "
            "batch dimension. Give a Tensor for each output."
        )
    sizes = {array.shape[0] for array in arrays}
    if len(sizes) != 1:
        raise GradientValueError(
            "grad: with is_grads_batched=True all gradients have batches of one size. Got "
            f"{describe(arrays)}. Give gradients with the same first dimension."
        )
