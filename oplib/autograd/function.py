"""torch's path ``autograd.function``: the classes, and the decorator ``once_differentiable``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oplib.modes import call_in_grad_mode, modes
from oplib.torch_names import make_dir as _make_dir

from .user_functions.context import FunctionCtx
from .user_functions.function_node import BackwardCFunction, refuse_gradients
from .user_functions.nested import NestedIOFunction
from .user_functions.trees import flatten_values, list_values, unflatten_values
from .user_functions.user_function import Function, FunctionMeta

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
__dir__ = _make_dir(globals())


class InplaceFunction(Function):
    """A Function. The name is kept for imports."""


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward that does not consist of differentiable operations. Differentiating it raises.

    A second pass by ``backward()`` and every second derivative of JAX raise. ``grad()`` and
    ``backward(inputs=...)`` follow only what leads to the chosen tensors, as in torch: what the backward has
    computed is a constant there, so the second derivative lacks its term.

    Args:
        backward: the static backward of a Function. It runs with grad mode off.

    Returns:
        The backward. Under ``create_graph`` its results raise if something differentiates them.

    Example:
        >>> import oplib
        >>> from oplib.autograd.function import Function, once_differentiable
        >>> class Double(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     @once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * 2
    """

    @functools.wraps(backward)
    def run_once(ctx: Any, *grads: Any) -> Any:
        results = call_in_grad_mode(False, backward, ctx, *grads)
        if not modes.grad_enabled:
            return results
        message = (
            f"{ctx.name()}: trying to differentiate twice a function that was marked with "
            "@once_differentiable. Its backward is not recorded. Write it with differentiable operations "
            "and take the mark away."
        )
        listed = list_values(results)
        leaves, specs = flatten_values(listed)
        return unflatten_values(refuse_gradients(leaves, message), len(listed), specs)

    run_once.is_once_differentiable = True  # pyright: ignore[reportAttributeAccessIssue]  read where JAX runs it
    return run_once
