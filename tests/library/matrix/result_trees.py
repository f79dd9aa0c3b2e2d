"""A function whose results are a tree, and ops of every kind that compute it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import oplib
from oplib.library import CustomOpDef, custom_op


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Kept:
    value: Any
    rest: Any
    label: str = dataclasses.field(default="kept", metadata={"static": True})


FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a dict": lambda wave, square, order: {"wave": wave, "rest": {"square": square, "order": order}},
    "a named tuple": lambda wave, square, order: Pair(wave, [square, None, order]),
    "a dataclass": lambda wave, square, order: Kept(wave, {"rest": (square, order)}, "static"),
    "nested tuples": lambda wave, square, order: ((wave, (square,)), order),
    "numbers among arrays": lambda wave, square, order: [wave, {"count": 3, "pair": (square, "text", order)}],
}
PICKS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "a dict": lambda tree: (tree["wave"], tree["rest"]["square"]),
    "a named tuple": lambda tree: (tree.first, tree.second[0]),
    "a dataclass": lambda tree: (tree.value, tree.rest["rest"][0]),
    "nested tuples": lambda tree: (tree[0][0], tree[0][1][0]),
    "numbers among arrays": lambda tree: (tree[0], tree[1]["pair"][0]),
}
KINDS = "formula", "forward", "jvp", "derive", "plain", "plain derive", "host", "tensor"
X, W = jnp.array([0.3, -0.7, 1.1, 0.2]), jnp.float32(1.5)


def compute(x: jax.Array, w: jax.Array, form: str) -> Any:
    """Returns two differentiable arrays and one of integers, in a tree that a static argument chooses."""
    return FORMS[form](w * jnp.sin(x), w * x * x, jnp.argsort(x))


def compute_on_host(x: np.ndarray, w: np.ndarray, form: str) -> Any:
    """Computes the same with numpy."""
    return FORMS[form](w * np.sin(x), w * x * x, np.argsort(x))


def compute_on_tensors(x: oplib.Tensor, w: oplib.Tensor, form: str) -> Any:
    """Computes the same with Tensors."""
    return FORMS[form](w * x.sin(), w * x * x, x.argsort())


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the inputs, and an array of the results."""
    x, w, ctx.form = inputs
    ctx.save_for_backward(x, w, PICKS[ctx.form](output)[1])


def compute_and_save(ctx: Any, x: jax.Array, w: jax.Array, form: str) -> Any:
    """Is the forward of an op."""
    result = compute(x, w, form)
    save(ctx, (x, w, form), result)
    return result


def pull(ctx: Any, grads: Any) -> Any:
    """Computes the backward formula on arrays."""
    x, w, square = ctx.saved_tensors
    wave, other = PICKS[ctx.form](grads)
    by_w = (wave * jnp.sin(x)).sum() + (other * square).sum() / w
    return wave * w * jnp.cos(x) + 2 * other * w * x, by_w, None


def pull_on_tensors(ctx: Any, grads: Any) -> Any:
    """Computes the backward formula on Tensors."""
    x, w, square = ctx.saved_tensors
    wave, other = PICKS[ctx.form](grads)
    by_w = (wave * x.sin()).sum() + (other * square).sum() / w
    return wave * w * x.cos() + 2 * other * w * x, by_w, None


def push(primals: Any, tangents: Any) -> Any:
    """Computes the results and their tangents; None is the tangent of the integers."""
    (x, w, form), (dx, dw, _) = primals, tangents
    wave = dw * jnp.sin(x) + w * jnp.cos(x) * dx
    return compute(x, w, form), FORMS[form](wave, dw * x * x + 2 * w * x * dx, None)


def make_op(kind: str) -> CustomOpDef:
    """Registers the function as an op whose rules are of one kind."""
    name = f"tree_results::{kind.replace(' ', '_')}"
    if kind == "tensor":
        op = custom_op(name, compute_on_tensors)
        op.register_autograd(pull_on_tensors, setup_context=save)
        return op
    if kind == "host":
        op = custom_op(name, compute_on_host)
        op.register_fake(compute)
        op.register_autograd(pull, setup_context=save)
        return op
    op = custom_op(name, compute, compile=not kind.startswith("plain"))
    if kind in ("formula", "plain"):
        op.register_autograd(pull, setup_context=save)
    elif kind == "forward":
        op.register_autograd(pull, forward=compute_and_save)
    elif kind == "jvp":
        op.register_jvp(push)
    else:
        op.register_autograd("derive")
    return op


def list_arrays(tree: Any) -> list[Any]:
    """Returns the floating arrays or Tensors of a tree, in order."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, oplib.Tensor))
    return [leaf for leaf in leaves if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)]
