"""The Hessian of a scalar function: the Jacobian of its gradient."""

from __future__ import annotations

from typing import Any

from oplib.autograd.user_functions.trees import list_values
from oplib.tensor import upcalls
from oplib.tracebacks import entry_point

from .arguments import Function, take_tuple
from .evaluation import evaluate, require_recorded
from .jacobian import check_strategy, jacobian
from .products import take_scalar


@entry_point
def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Returns the Hessian of a scalar function.

    Args:
        func: takes Tensors and returns a Tensor of one item.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        create_graph: the result is differentiable with respect to ``inputs``.
        strict: raise if a result is independent of an input, instead of giving zeros.
        vectorize: compute all rows in one pass with a batch dimension, instead of one pass per row.
        outer_jacobian_strategy: ``"reverse-mode"``, or ``"forward-mode"``, which differentiates the gradient
            in forward mode and needs ``vectorize=True``.

    Returns:
        A Tensor of size ``[*input, *input]``; a tuple of tuples of these if ``inputs`` is a tuple.

    Raises:
        AutogradError: the output does not have one item, options exclude each other, or ``strict`` found an
            independent result.
        GradientTypeError: an input or output is neither a Tensor nor a tuple of Tensors.
        MissingRuleError: forward mode is used with ``create_graph``, or without ``vectorize``.
        StrategyError: the strategy is unknown.

    Source:
        torch.autograd.functional.hessian

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import hessian
        >>> hessian(lambda x: (x * x * x).sum(), oplib.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    is_tuple, _ = take_tuple(inputs, "inputs", "hessian")
    check_strategy("hessian", outer_jacobian_strategy)
    forward = outer_jacobian_strategy == "forward-mode"
    return jacobian(
        _make_gradient(func, is_tuple=is_tuple, forward=forward, strict=strict),
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def _make_gradient(func: Function, *, is_tuple: bool, forward: bool, strict: bool) -> Function:
    """Returns the gradient of a function as a function. It is recorded, so that it can be differentiated."""

    def scalar(*at: Any) -> Any:
        outputs = evaluate(func, at, "hessian", strict=strict)
        return upcalls.reshape(take_scalar(outputs, "hessian"), ())

    def gradient(*at: Any) -> Any:
        if forward:  # so that the gradient is recorded
            at = tuple(tensor.requires_grad_() for tensor in at)
        gradients = jacobian(scalar, at if is_tuple else at[0], create_graph=True)
        if strict:
            require_recorded(list_values(gradients), "jacobian", "hessian")
        return gradients

    return gradient
