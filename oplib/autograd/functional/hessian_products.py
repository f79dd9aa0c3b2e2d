"""Products of vectors with the Hessian of a scalar function."""

from __future__ import annotations

from typing import Any

from oplib.errors import AutogradError
from oplib.tensor import Tensor

from .arguments import Group, take_vector
from .evaluation import Function, evaluate
from .jacobian_products import make_cotangents, pull_through
from .products import Product, product
from .strictness import Found, find_gradients, require_recorded


@product("hessian", of_scalar=True)
def vhp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the output of a scalar function, and the product of a vector with its Hessian."""
    vectors = take_vector(v, at, "vhp", create_graph=create_graph)
    output, gradient = _differentiate(func, at, "vhp", strict=strict)
    return output, pull_through(gradient, at.tensors, vectors, create_graph=create_graph), at


@product("hessian tangent", of_scalar=True)
def hvp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the output of a scalar function, and the product of its Hessian with a vector.

    If the second derivatives are continuous, :func:`vhp` gives the same with one pass less.
    """
    vectors = take_vector(v, at, "hvp", create_graph=create_graph)
    output, gradient = _differentiate(func, at, "hvp", strict=strict)
    cotangents = make_cotangents(at.tensors)
    double_back = pull_through(gradient, at.tensors, cotangents, create_graph=True)
    return output, pull_through(double_back, cotangents, vectors, create_graph=create_graph), at


def _differentiate(func: Function, at: Group, caller: str, *, strict: bool) -> tuple[Group, Found]:
    """Runs the function, and returns its output and the recorded gradient of the output."""
    output = evaluate(func, at, caller, strict=strict)
    take_scalar(output, caller)
    gradient = find_gradients(output.tensors, at.tensors, None, create_graph=True)
    if strict:
        require_recorded(gradient, "jacobian", caller)
    return output, gradient


def take_scalar(outputs: Group, caller: str) -> Tensor:
    """Raises AutogradError if a function has returned a tuple or several items instead of one item."""
    if outputs.is_tuple:
        raise AutogradError(
            f"{caller}: the function given to {caller} should return a single Tensor. Got a tuple of "
            f"{len(outputs.tensors)}. Return the Tensor itself."
        )
    (output,) = outputs.tensors
    if output.numel() != 1:
        raise AutogradError(
            f"{caller}: the Tensor returned by the function given to {caller} should contain a single "
            f"element. Got size {list(output.shape)}. Return a sum of it, or take jacobian()."
        )
    return output
