"""Hooks of nodes and tensors: their order, and the checks of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oplib.autograd.nodes.accumulate import adding, refuse_traced_gradient
from oplib.autograd.nodes.hook_kinds import HookKind, after, before
from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor

from .validation import validate_gradients

if TYPE_CHECKING:
    from oplib.autograd.nodes.backward_run import BackwardRun
    from oplib.autograd.nodes.node import Gradients, Hooks, TapeNode

Boxed = tuple[Tensor | None, ...]


def run_pre_hooks(node: TapeNode, grads: list[Any], run: BackwardRun) -> list[Any]:
    """Runs everything that comes before a node: tensor hooks, retained gradients, node pre-hooks."""
    if node.fits_gradients:
        grads = fit_received(node, grads, run)
    for kind in before:
        grads = kind.run(node, grads, run)
    return grads


def run_tensor_hooks(node: TapeNode, grads: list[Any], run: BackwardRun) -> None:
    """Runs the hooks of the outputs of a node, which change ``grads``, and stores retained gradients."""
    for kind in before:
        if kind.is_of_tensor:
            grads[:] = kind.run(node, grads, run)


def run_post_hooks(node: TapeNode, results: Gradients, grads: list[Any], run: BackwardRun) -> Gradients:
    """Runs the hooks after a node. Each hook receives the results as the hook before it returned them."""
    for kind in after:
        results = kind.run(node, results, grads, run)
    return results


def fit_received(node: TapeNode, grads: list[Any], run: BackwardRun) -> list[Any]:
    """Fits gradients to a node whose tensor got another shape; a leaf had its old shape when it was used."""
    if not node.edges and grads[0] is not None:
        shape = node.input_metadata[0].shape
        if [size for size in grads[0].shape if size != 1] == [size for size in shape if size != 1]:
            return [grads[0].reshape(shape)]
    edges = [(node, slot) for slot in range(len(grads))]
    return list(validate_gradients(grads, edges, node.name, run.representation))


def _run_tensor_hooks(node: TapeNode, grads: list[Any], run: BackwardRun) -> list[Any]:
    hooks_of_slots = node._tensor_pre_hooks
    if hooks_of_slots:
        for slot, hooks in tuple(hooks_of_slots.items()):  # a hook may register one at another slot
            grads[slot] = _run_hooks_of_tensor(tuple(hooks.values()), grads[slot], node, run)
        modes.grad_enabled = run.create_graph
    return grads


def _store_all_retained(node: TapeNode, grads: list[Any], run: BackwardRun) -> list[Any]:
    for slot in node._retained or ():
        if grads[slot] is not None:
            store_retained(node, slot, grads[slot], run)
    return grads


def _run_node_pre_hooks(node: TapeNode, grads: list[Any], run: BackwardRun) -> list[Any]:
    if not node._pre_hooks:
        return grads
    shown = len(node._input_metadata)
    boxed = _box(grads[:shown], run)
    boxed = _call_hooks(node._pre_hooks, node, boxed)
    modes.grad_enabled = run.create_graph
    return [*_unbox(boxed, run), *grads[shown:]]


def _run_node_post_hooks(node: TapeNode, results: Gradients, grads: list[Any], run: BackwardRun) -> Gradients:
    if node._post_hooks is None:
        return results
    received = _box(grads[: len(node._input_metadata)], run)
    boxed = _box(results, run)
    boxed = _call_hooks(node._post_hooks, node, boxed, received)
    modes.grad_enabled = run.create_graph
    return _unbox(boxed, run)


def _call_hooks(hooks: Hooks, node: TapeNode, boxed: Boxed, *received: Boxed) -> Boxed:
    """Calls hooks of a node. Each receives what the hook before it returned."""
    for hook in tuple(hooks.values()):
        result = hook(boxed, *received)
        if result is not None:
            boxed = _checked_tuple(result, boxed, hook, node)
    return boxed


def store_retained(node: TapeNode, slot: int, grad: Any, run: BackwardRun) -> None:
    """Stores a gradient in the output that retains it, if this still lives."""
    reference = (node._retained or {}).get(slot)
    tensor = None if reference is None else reference()
    if tensor is not None:
        _retain(tensor, grad, run)


def _run_hooks_of_tensor(hooks: tuple[AnyFunction, ...], grad: Any, node: TapeNode, run: BackwardRun) -> Any:
    boxed = None if grad is None else run.representation.box(grad)
    for hook in hooks:
        result = hook(boxed)
        if result is not None:
            _check_replacement(result, boxed, hook, node)
            boxed = result
    return None if boxed is None else run.representation.unbox(boxed)


def _retain(tensor: Tensor, grad: Any, run: BackwardRun) -> None:
    """Adds a gradient to the ``grad`` of a non-leaf. As in torch, the sum is a new tensor each time."""
    refuse_traced_gradient(run.representation.array(grad), tensor, "the tensor")
    with adding:
        held = tensor._gradient
        if held is not None:
            grad = run.representation.add(run.representation.unbox(held), grad)
        tensor._grad = run.representation.own(grad)


def _box(grads: Gradients, run: BackwardRun) -> Boxed:
    box = run.representation.box
    return tuple(None if grad is None else box(grad) for grad in grads)


def _unbox(boxed: Boxed, run: BackwardRun) -> list[Any]:
    unbox = run.representation.unbox
    return [None if tensor is None else unbox(tensor) for tensor in boxed]


def _checked_tuple(result: object, old: Boxed, hook: AnyFunction, node: TapeNode) -> Boxed:
    """Returns the result of a node hook if it may replace ``old``."""
    if not isinstance(result, tuple):
        raise GradientTypeError(
            f"{_name(hook, node)}: expected a tuple. Got {type(result).__name__}. Return a tuple with one "
            "Tensor or None for each gradient, or None to change nothing."
        )
    if len(result) != len(old):
        raise AutogradError(
            f"{_name(hook, node)}: it returned an incorrect number of values. Got {len(result)}, expected "
            f"{len(old)}. Return one Tensor or None for each gradient."
        )
    for new, before in zip(result, old, strict=True):
        if new is not None:
            _check_replacement(new, before, hook, node)
    return result


def _check_replacement(new: object, old: Tensor | None, hook: AnyFunction, node: TapeNode) -> None:
    if not isinstance(new, Tensor):
        raise GradientTypeError(
            f"{_name(hook, node)}: expected a Tensor or None. Got {type(new).__name__}. Return a Tensor."
        )
    if old is None:
        raise AutogradError(
            f"{_name(hook, node)}: it can't replace a None gradient by a Tensor. Got "
            f"{describe(new)} where no gradient had arrived. Return None where None came in."
        )
    mine, its = new._storage.array, old._storage.array
    for what, kept, advice in (
        ("size", mine.shape == its.shape, "Return a gradient of the same shape."),
        ("type", mine.dtype == its.dtype, "Convert it back before returning it."),
    ):
        if not kept:
            raise AutogradError(
                f"{_name(hook, node)}: it has changed the {what} of a gradient. Got {describe(mine)}, "
                f"expected {describe(its)}. {advice}"
            )


def _name(hook: AnyFunction, node: TapeNode) -> str:
    return f"{node.name()}: hook '{getattr(hook, '__name__', type(hook).__name__)}'"


before += [
    HookKind(lambda node: any((node._tensor_pre_hooks or {}).values()), _run_tensor_hooks, is_of_tensor=True),
    HookKind(lambda node: node._retained, _store_all_retained, is_of_tensor=True, is_python=False),
    HookKind(lambda node: node._pre_hooks, _run_node_pre_hooks),
]
after.append(HookKind(lambda node: node._post_hooks, _run_node_post_hooks))
