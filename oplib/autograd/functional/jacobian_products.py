"""Products of vectors with a Jacobian, from the left and from the right."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from oplib.tensor import Tensor, box

from .arguments import Group, Tensors, take_vector
from .evaluation import Function, evaluate
from .products import Product, product
from .strictness import find_gradients, require_recorded


@product("jacobian", like="outputs")
def vjp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the outputs of a function, and the product of a vector with its Jacobian."""
    outputs = evaluate(func, at, "vjp", strict=strict)
    vectors = take_vector(v, outputs, "vjp", create_graph=create_graph)
    found = find_gradients(outputs.tensors, at.tensors, vectors, create_graph=create_graph)
    return outputs, found, at


@product("tangent", structure="outputs")
def jvp(func: Function, at: Group, v: Any, *, create_graph: bool, strict: bool) -> Product:
    """Returns the outputs of a function, and the product of its Jacobian with a vector.

    The backward pass is linear in its gradients. This function differentiates it with respect to them, so
    every op must have a differentiable backward. :mod:`oplib.autograd.forward_ad` computes the same in one
    pass.
    """
    vectors = take_vector(v, at, "jvp", create_graph=create_graph)
    outputs = evaluate(func, at, "jvp", strict=strict)
    found = push_through(outputs.tensors, at.tensors, vectors, strict=strict, create_graph=create_graph)
    return outputs, found, outputs


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
