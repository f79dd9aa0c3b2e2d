"""Products of vectors with a Jacobian, from the left and from the right."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from oplib.autograd.grad_mode import enable_grad
from oplib.tensor import Tensor, box
from oplib.tracebacks import entry_point

from .arguments import Tensors, detach_results, take_vector
from .evaluation import Function, evaluate, take_point
from .strictness import fill_zeros, find_gradients, require_recorded


@entry_point
def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Returns the outputs of a function, and the product of a vector with its Jacobian.

    Args:
        func: takes Tensors and returns a Tensor or a tuple of Tensors.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: the vector, like the outputs; may be omitted if the outputs have one item.
        create_graph: outputs and product are differentiable with respect to ``inputs`` and ``v``.
        strict: raise if an output or a product is independent of an input, instead of giving zeros.

    Returns:
        ``(outputs, product)``. The product has the structure of the inputs.

    Raises:
        AutogradError: ``v`` does not fit, or ``strict`` found an independent result.
        GradientTypeError: an input or output is neither a Tensor nor a tuple of Tensors.

    Source:
        torch.autograd.functional.vjp

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import vjp
        >>> vjp(lambda x: x * x, oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        at = take_point(inputs, "vjp", create_graph=create_graph)
        outputs = evaluate(func, at, "vjp", strict=strict)
        vectors = take_vector(v, outputs, "vjp", create_graph=create_graph)
    found = find_gradients(outputs.tensors, at.tensors, vectors, create_graph=create_graph)
    product = fill_zeros(found, at.tensors, "jacobian", "vjp", strict=strict, create_graph=create_graph)
    results = detach_results((outputs.tensors, product), create_graph=create_graph)
    return outputs.untuple(results[0]), at.untuple(results[1])


@entry_point
def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Returns the outputs of a function, and the product of its Jacobian with a vector.

    The backward pass is linear in its gradients. This function differentiates it with respect to them, so
    every op must have a differentiable backward. :mod:`oplib.autograd.forward_ad` computes the same in one
    pass.

    Args:
        func: takes Tensors and returns a Tensor or a tuple of Tensors.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        v: the vector, like the inputs; may be omitted if the inputs have one item.
        create_graph: outputs and product are differentiable with respect to ``inputs`` and ``v``.
        strict: raise if an output or a product is independent of an input, instead of giving zeros.

    Returns:
        ``(outputs, product)``. The product has the structure of the outputs.

    Raises:
        AutogradError: ``v`` does not fit, or ``strict`` found an independent result.
        GradientTypeError: an input or output is neither a Tensor nor a tuple of Tensors.

    Source:
        torch.autograd.functional.jvp

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import jvp
        >>> jvp(lambda x: x * x, oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        at = take_point(inputs, "jvp", create_graph=create_graph)
        vectors = take_vector(v, at, "jvp", create_graph=create_graph)
        outputs = evaluate(func, at, "jvp", strict=strict)
        found = push_through(outputs.tensors, at.tensors, vectors, strict=strict, create_graph=create_graph)
    product = fill_zeros(found, outputs.tensors, "tangent", "jvp", strict=strict, create_graph=create_graph)
    results = detach_results((outputs.tensors, product), create_graph=create_graph)
    return outputs.untuple(results[0]), outputs.untuple(results[1])


def push_through(
    outputs: Tensors, inputs: Tensors, vectors: Tensors | None, *, strict: bool, create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Pushes a vector forward through a graph, by differentiating its backward pass."""
    cotangents = make_cotangents(outputs)
    grads = find_gradients(outputs, inputs, cotangents, create_graph=True)
    if strict:
        require_recorded(grads, "gradients", "jvp")
    return pull_through(grads, cotangents, vectors, create_graph=create_graph)


def make_cotangents(like: Tensors) -> Tensors:
    """Makes cotangents for a backward pass that is differentiated.

    It is linear, so their values do not matter.
    """
    return tuple(box(jnp.zeros_like(one._storage.array)).requires_grad_() for one in like)


def pull_through(
    grads: tuple[Tensor | None, ...], by: Tensors, vectors: Tensors | None, *, create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Returns the gradients of gradients; some may be None."""
    pairs = list(zip(grads, vectors or (None,) * len(grads), strict=True))
    present = [(one, vector) for one, vector in pairs if one is not None]
    if not present:
        return (None,) * len(by)
    outputs, given = zip(*present, strict=True)
    return find_gradients(outputs, by, None if vectors is None else given, create_graph=create_graph)
