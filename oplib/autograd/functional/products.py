"""Products of vectors with Jacobians and Hessians, with their shared parameters and docstring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.autograd.grad_mode import enable_grad
from oplib.errors import AutogradError
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .arguments import Function, Group, Tensors, detach_results, take_point, take_vector
from .evaluation import Found, evaluate, fill_zeros, find_gradients, make_zeros_like, require_recorded

_REST = """

    Args:
        func: takes Tensors and returns {returned}.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: the vector, like the {like}; may be omitted if the {like} have one item.
        create_graph: {outputs} and product are differentiable with respect to ``inputs`` and ``v``.
        strict: raise if {results} is independent of an input, instead of giving zeros.

    Returns:
        ``({outputs}, product)``. The product has the structure of the {structure}.

    Raises:
        AutogradError: ``v`` does not fit, {condition}or ``strict`` found an{wrap}independent result.
        GradientTypeError: an input or output is neither a Tensor nor a tuple of Tensors.

    Source:
        torch.autograd.functional.{name}

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import {name}
        >>> {name}({example}, oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 10.0]))
        {shown}
    """
_OF_VECTORS = {
    "outputs": "outputs",
    "wrap": " ",
    "returned": "a Tensor or a tuple of Tensors",
    "results": "an output or a product",
    "condition": "",
    "example": "lambda x: x * x",
    "shown": "(tensor([1., 4.]), tensor([ 2., 40.]))",
}
_OF_SCALARS = {
    "outputs": "output",
    "wrap": "\n            ",
    "returned": "a Tensor of one item",
    "results": "a result",
    "condition": "the output does not have one item, ",
    "example": "lambda x: (x * x * x).sum()",
    "shown": "(tensor(9.), tensor([  6., 120.]))",
}


Product = tuple[Group, Found, Group]
"""The outputs of a function; the product, None standing for zeros; the Tensors that the product is like."""


def product(kind: str, *, like: str = "inputs", structure: str = "inputs", of_scalar: bool = False):
    """Makes a public function from one that gets new inputs, and is called in grad mode.

    The docstring of that function becomes the beginning of the public one.

    Args:
        kind: which error names a product that is independent of an input, see :data:`INDEPENDENT`.
        like: the name of the Tensors that the vector resembles.
        structure: the name of the Tensors that the product resembles.
        of_scalar: whether the function has one output of one item.
    """

    def make(compute: Callable[..., Product]):
        name = compute.__name__

        def call(
            func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
        ) -> Any:
            with enable_grad():
                at = take_point(inputs, name, create_graph=create_graph)
                outputs, products, group = compute(func, at, v, create_graph=create_graph, strict=strict)
            filled = fill_zeros(products, group.tensors, kind, name, strict=strict, create_graph=create_graph)
            results = detach_results((outputs.tensors, filled), create_graph=create_graph)
            return outputs.untuple(results[0]), group.untuple(results[1])

        call.__name__ = call.__qualname__ = name
        call.__module__ = compute.__module__
        words = _OF_SCALARS if of_scalar else _OF_VECTORS
        rest = _REST.format(name=name, like=like, structure=structure, **words)
        call.__doc__ = f"{(compute.__doc__ or '').rstrip()}{rest}"
        return entry_point(call)

    return make


@product("jacobian", like="outputs")
def vjp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the outputs of a function, and the product of a vector with its Jacobian."""
    outputs = evaluate(func, at.tensors, "vjp", strict=strict)
    vectors = take_vector(v, outputs, "vjp", create_graph=create_graph)
    return outputs, find_gradients(outputs.tensors, at.tensors, vectors, create_graph=create_graph), at


@product("tangent", structure="outputs")
def jvp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the outputs of a function, and the product of its Jacobian with a vector.

    The backward pass is linear in its gradients. This function differentiates it with respect to them, so
    every op must have a differentiable backward. :mod:`oplib.autograd.forward_ad` computes the same in one
    pass.
    """
    vectors = take_vector(v, at, "jvp", create_graph=create_graph)
    outputs = evaluate(func, at.tensors, "jvp", strict=strict)
    cotangents = _make_cotangents(outputs.tensors)
    grads = find_gradients(outputs.tensors, at.tensors, cotangents, create_graph=True)
    if strict:
        require_recorded(grads, "gradients", "jvp")
    return outputs, find_gradients(grads, cotangents, vectors, create_graph=create_graph), outputs


def _make_cotangents(like: Tensors) -> Tensors:
    """Makes cotangents for a backward pass that is differentiated.

    It is linear, so their values do not matter.
    """
    return tuple(make_zeros_like(tensor).requires_grad_() for tensor in like)


@product("hessian", of_scalar=True)
def vhp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the output of a scalar function, and the product of a vector with its Hessian."""
    vectors = take_vector(v, at, "vhp", create_graph=create_graph)
    output, gradient = _differentiate(func, at, "vhp", strict=strict)
    return output, find_gradients(gradient, at.tensors, vectors, create_graph=create_graph), at


@product("hessian tangent", of_scalar=True)
def hvp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the output of a scalar function, and the product of its Hessian with a vector.

    If the second derivatives are continuous, :func:`vhp` gives the same with one pass less.
    """
    vectors = take_vector(v, at, "hvp", create_graph=create_graph)
    output, gradient = _differentiate(func, at, "hvp", strict=strict)
    cotangents = _make_cotangents(at.tensors)
    products = find_gradients(gradient, at.tensors, cotangents, create_graph=True)
    return output, find_gradients(products, cotangents, vectors, create_graph=create_graph), at


def _differentiate(func: Function, at: Group, caller: str, *, strict: bool) -> tuple[Group, Found]:
    """Runs the function, and returns its output and the recorded gradient of the output."""
    output = evaluate(func, at.tensors, caller, strict=strict)
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
