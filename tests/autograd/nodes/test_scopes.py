"""Names of ``jax.named_scope`` stand in the operations of the backward too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import oplib

PRODUCTS = ("dot_general", "tanh", "logistic", "mul", "sub", "add")


def apply(x: Any, weights: list[Any], library: Any) -> Any:
    with jax.named_scope("encoder"):
        x = library.tanh(x @ weights[0])
    with jax.named_scope("decoder"), jax.named_scope("head"):
        x = library.exp(x @ weights[1])
    return x.sum()


def list_names(lowered: Any, kind: str) -> list[str]:
    """Returns the names of the operations of one kind, forward and backward."""
    text = lowered.as_text(debug_info=True)
    return [name for name in re.findall(r'loc\("([^"]*)"', text) if name.endswith(f"/{kind}")]


def lower_step(run: Callable[..., Any]) -> Any:
    weights = [oplib.ones(3, 3, requires_grad=True) for _ in range(2)]

    @oplib.jit
    def step(x: oplib.Tensor) -> Any:
        return run(lambda: apply(x, weights, oplib), weights)

    return step.lower(oplib.ones(2, 3))


def test_products_of_the_backward_have_the_names_that_they_have_in_jax() -> None:
    def run(loss: Callable[[], Any], weights: list[Any]) -> None:
        loss().backward()

    names = list_names(lower_step(run), "dot_general")
    plain = jax.jit(jax.grad(lambda w, x: apply(x, w, jnp))).lower([jnp.ones((3, 3))] * 2, jnp.ones((2, 3)))
    expected = list_names(plain, "dot_general")
    for scope in ("encoder", "decoder", "head"):
        count = sum(scope in name for name in expected)
        assert sum(scope in name for name in names) == count > 0, (names, expected)


def test_a_backward_of_the_backward_has_them_too() -> None:
    def run(loss: Callable[[], Any], weights: list[Any]) -> Any:
        (first,) = oplib.autograd.grad(loss(), weights[:1], create_graph=True)
        return oplib.autograd.grad((first * first).sum(), weights[:1])

    names = list_names(lower_step(run), "dot_general")
    assert names
    assert all("encoder" in name or "decoder/head" in name for name in names)


def test_hooks_of_a_node_run_among_its_names() -> None:
    def run(loss: Callable[[], Any], weights: list[Any]) -> None:
        with jax.named_scope("outer"):
            y = weights[0] * 2
        y.register_hook(lambda grad: grad.erf())
        (y.sum() + loss()).backward()

    (name,) = list_names(lower_step(run), "erf")
    assert "outer" in name


def test_an_eager_call_stores_no_names() -> None:
    with jax.named_scope("eager"):
        y = oplib.ones(2, requires_grad=True) * 2
    assert y.grad_fn._scope is None
