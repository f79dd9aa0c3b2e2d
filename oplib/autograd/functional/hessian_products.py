"""Products of a vector with the Hessian of a scalar function."""

from __future__ import annotations

from typing import Any

from oplib.autograd.grad_mode import enable_grad
from oplib.errors import AutogradError
from oplib.tensor import Tensor

from .arguments import OUTPUTS, Tensors, finish, make_inputs, take_tuple, take_vector, untuple
from .jacobian_products import Function, make_seeds, pull_through
from .strictness import Found, fill_zeros, find_gradients, require_recorded


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Returns a scalar function's output, and the product of a vector with its Hessian.

    Args:
        func: takes Tensors and returns a Tensor of one item.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: the vector, like the inputs; may be left out where these are one item.
        create_graph: output and product are differentiable by ``inputs`` and ``v``.
        strict: raise where something is independent of an input, instead of giving zeros.

    Returns:
        ``(output, product)``, where the product is like the inputs.

    Raises:
        AutogradError: ``v`` does not fit, the output is not one item, or ``strict`` found something
            independent.
        GradientTypeError: something is neither a Tensor nor a tuple of Tensors.

    Source:
        torch.autograd.functional.vhp

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import vhp
        >>> vhp(lambda x: (x * x * x).sum(), oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    with enable_grad():
        is_tuple, at, vectors, output, gradient = _differentiate("vhp", func, inputs, v, create_graph, strict)
    found = pull_through(gradient, at, vectors, create_graph=create_graph)
    product = fill_zeros(found, at, "hessian", "vhp", strict=strict, create_graph=create_graph)
    results = finish((output, product), create_graph=create_graph)
    return results[0], untuple(results[1], is_tuple)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Returns a scalar function's output, and the product of its Hessian with a vector.

    Where the second derivatives are continuous this is what :func:`vhp` gives with one pass less.

    Args:
        func: takes Tensors and returns a Tensor of one item.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: the vector, like the inputs; may be left out where these are one item.
        create_graph: output and product are differentiable by ``inputs`` and ``v``.
        strict: raise where something is independent of an input, instead of giving zeros.

    Returns:
        ``(output, product)``, where the product is like the inputs.

    Raises:
        AutogradError: ``v`` does not fit, the output is not one item, or ``strict`` found something
            independent.
        GradientTypeError: something is neither a Tensor nor a tuple of Tensors.

    Source:
        torch.autograd.functional.hvp

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import hvp
        >>> hvp(lambda x: (x * x * x).sum(), oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    with enable_grad():
        is_tuple, at, vectors, output, gradient = _differentiate("hvp", func, inputs, v, create_graph, strict)
        seeds = make_seeds(at)
        double_back = pull_through(gradient, at, seeds, create_graph=True)
    found = pull_through(double_back, seeds, vectors, create_graph=create_graph)
    product = fill_zeros(found, at, "hessian tangent", "hvp", strict=strict, create_graph=create_graph)
    results = finish((output, product), create_graph=create_graph)
    return results[0], untuple(results[1], is_tuple)


def _differentiate(
    caller: str, func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[bool, Tensors, Tensors | None, Tensor, Found]:
    """Runs the function, and returns its arguments, the vector, the output and its recorded gradient."""
    is_tuple, given = take_tuple(inputs, "inputs", caller)
    at = make_inputs(given, create_graph=create_graph)
    vectors = take_vector(
        v,
        at,
        caller,
        is_tuple=is_tuple,
        create_graph=create_graph,
        whose="the input to the user-provided function",
    )
    output = take_scalar(func(*at), caller, strict=strict)
    gradient = find_gradients((output,), at, None, create_graph=True)
    if strict:
        require_recorded(gradient, "jacobian", caller)
    return is_tuple, at, vectors, output, gradient


def take_scalar(result: Any, caller: str, *, strict: bool) -> Tensor:
    """Checks that a function has returned one item.

    Raises:
        AutogradError: it has returned a tuple or more items, or with ``strict`` something independent.
        GradientTypeError: it has returned something else.
    """
    is_tuple, outputs = take_tuple(result, OUTPUTS, caller)
    if strict:
        require_recorded(outputs, "outputs", caller)
    if is_tuple:
        raise AutogradError(
            f"{caller}: the function given to {caller} should return a single Tensor. Got a tuple of "
            f"{len(outputs)}. Return the Tensor itself."
        )
    if outputs[0].numel() != 1:
        raise AutogradError(
            f"{caller}: the Tensor returned by the function given to {caller} should contain a single "
            f"element. Got size {list(outputs[0].shape)}. Return a sum of it, or take jacobian()."
        )
    return outputs[0]
