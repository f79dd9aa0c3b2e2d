"""Calls of hooks and of the backwards of Functions by a program, under torch's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.errors import AutogradError
from oplib.tensor import Tensor


class BackwardState(SimpleNamespace):
    """Attributes that a compiled forward sets for its backward."""


class FakeBackwardCFunction:
    """The ctx that the backward of a Function gets from :func:`call_backward`.

    Attributes:
        real: the node.
        saved_tensors: the saved tensors.
    """

    def __init__(self, real: Any, saved_tensors: Sequence[Any]) -> None:
        self.real = real
        self.saved_tensors = tuple(saved_tensors)

    def __getattr__(self, name: str) -> Any:
        if name == "saved_variables":
            warnings.warn(
                "ctx.saved_variables is deprecated. Read ctx.saved_tensors.", DeprecationWarning, stacklevel=2
            )
            return self.saved_tensors
        return getattr(self.real, name)


def call_hook(hook: Callable[..., Any], *args: Any, hook_type: str | None = None) -> Any:
    """Calls a hook.

    Args:
        hook: the hook.
        *args: its arguments.
        hook_type: ``"post_acc_grad_hook"`` for a hook that must return nothing.

    Returns:
        Its result, or the first argument if it returned None.

    Raises:
        AutogradError: a post-accumulate hook returned a value.
    """
    result = hook(*args)
    if result is None:
        return args[0]
    if hook_type == "post_acc_grad_hook":
        raise AutogradError(
            f"call_hook: tensor post accumulate grad hooks should return None. Got {type(result).__name__}. "
            "Write into tensor.grad, or assign it."
        )
    return result


def call_backward(node: Any, saved_tensors: Sequence[Any], *grads: Any) -> tuple[Any, ...]:
    """Calls the backward of a Function.

    Args:
        node: the node of the Function.
        saved_tensors: what its ctx shows as ``saved_tensors``.
        *grads: the gradients of its outputs.

    Returns:
        The results as a tuple.
    """
    results = node._get_user_fn()(FakeBackwardCFunction(node, saved_tensors), *grads)
    return results if isinstance(results, tuple) else (results,)


class FakeCompiledAutogradEngine:
    """Callbacks at the end of a program."""

    @staticmethod
    def queue_callback(final_callbacks: list[Callable[[], object]], cb: Callable[[], object]) -> None:
        """Adds a callback to a list."""
        final_callbacks.append(cb)

    @staticmethod
    def exec_final_callbacks(final_callbacks: list[Callable[[], object]]) -> None:
        """Calls all callbacks in order, those that are added meanwhile too, and empties the list."""
        for callback in final_callbacks:
            callback()
        final_callbacks.clear()

    @staticmethod
    def _exec_final_callbacks_stub() -> None:
        """Marks the place of the callbacks. The run of the engine calls them."""


def unboxed(value: Any) -> Any:
    """Returns the array of a Tensor; other values stay."""
    return value._storage.array if isinstance(value, Tensor) else value


def call_item(kind: str, item: Any, arguments: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Calls a hook or node that a script names by its index.

    Args:
        kind: the kind of the step.
        item: the hook or node.
        arguments: lists of arrays.

    Returns:
        The arrays that the step gives.
    """
    boxed = [tuple([None if array is None else ARRAYS.box(array) for array in one]) for one in arguments]
    return [unboxed(result) for result in _CALLS[kind](item, *boxed)]


_CALLS: dict[str, Callable[..., Sequence[Any]]] = {
    "call_backward": lambda node, saved, grads: call_backward(node, saved, *grads),
    "call_hook": lambda hook, args: (call_hook(hook, *args),),
    "call_hooks": call_hook,
    "call_post_acc": lambda hook, args: (call_hook(hook, *args, hook_type="post_acc_grad_hook"),),
}
