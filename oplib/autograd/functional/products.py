"""The shared parameters and docstring of the products with Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.autograd.grad_mode import enable_grad
from oplib.tracebacks import entry_point

from .arguments import Group, detach_results
from .evaluation import Function, take_point
from .strictness import Found, fill_zeros

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
                outputs, found, group = compute(func, at, v, create_graph=create_graph, strict=strict)
            filled = fill_zeros(found, group.tensors, kind, name, strict=strict, create_graph=create_graph)
            results = detach_results((outputs.tensors, filled), create_graph=create_graph)
            return outputs.untuple(results[0]), group.untuple(results[1])

        call.__name__ = call.__qualname__ = name
        call.__module__ = compute.__module__
        words = _OF_SCALARS if of_scalar else _OF_VECTORS
        rest = _REST.format(name=name, like=like, structure=structure, **words)
        call.__doc__ = f"{(compute.__doc__ or '').rstrip()}{rest}"
        return entry_point(call)

    return make
