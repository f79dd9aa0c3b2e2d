"""A graph recorded with JAX's 64 bits on runs backward with them, also after they were turned off."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd.engine import engine, wide_graph

pytestmark = pytest.mark.filterwarnings("error")
DATA = [1.0, 2.0, 3.0]


@oplib.custom_op("wide_graph::square")
def square(x: jax.Array) -> jax.Array:
    return x * x


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


square.register_autograd(lambda ctx, g: g * 2 * ctx.saved_tensors[0], setup_context=_save)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a formula": lambda x: square(x).sum(),
    "exp": lambda x: x.exp().sum(),
    "a sum of gradients": lambda x: (x * x + x / 3).sum(),
    "a cast to 32 bits": lambda x: (x.exp().float() * 2).sum(),
    "places": lambda x: x[oplib.tensor([0, 2])].pow(3).mean(),
    "a view": lambda x: x[1:].sum(),
}


def build(program: Callable[[Any], Any]) -> tuple[Any, Any]:
    with jax.enable_x64(True):
        x = oplib.tensor(DATA, dtype=oplib.float64, requires_grad=True)
        return x, program(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_after_64_bits_were_turned_off_gives_what_it_gives_with_them(name: str) -> None:
    x, y = build(PROGRAMS[name])
    other, expected = build(PROGRAMS[name])
    with jax.enable_x64(True):
        expected.backward()
    y.backward()
    assert x.grad.dtype == oplib.float64
    np.testing.assert_array_equal(x.grad.array, other.grad.array)
    assert not jax.enable_x64.value


def test_grad_and_a_second_pass_are_in_64_bits_too() -> None:
    x, y = build(lambda x: x.exp().sum())
    (first,) = oplib.autograd.grad(y, x, create_graph=True)
    with jax.enable_x64(True):
        total = first.sum()
    (second,) = oplib.autograd.grad(total, x)
    np.testing.assert_allclose(second.array, np.exp(np.asarray(DATA)), rtol=1e-15)


def test_a_hook_of_such_a_pass_sees_64_bits_and_they_are_off_after_an_error() -> None:
    x, y = build(lambda x: x.exp().sum())
    seen: list[Any] = []

    def look(grad: Any) -> None:
        seen.append((grad.dtype, jax.enable_x64.value))
        raise RuntimeError("enough")

    x.register_hook(look)
    with pytest.raises(RuntimeError, match="enough"):
        y.backward()
    assert seen == [(oplib.float64, True)]
    assert not jax.enable_x64.value


def test_a_graph_in_32_bits_of_whole_numbers_in_64_has_no_warnings_either() -> None:
    with jax.enable_x64(True):
        x = oplib.tensor(DATA, dtype=oplib.float32, requires_grad=True)
        y = x.gather(0, oplib.tensor([2, 0])).sum()
    y.backward()
    assert x.grad.dtype == oplib.float32
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("program", [lambda x: -x, lambda x: x[1:], lambda x: x.view(3, 1)])
def test_values_of_64_bits_make_a_graph_need_them_that_was_recorded_without(program: Any) -> None:
    with jax.enable_x64(True):
        x = oplib.tensor(DATA, dtype=oplib.float64, requires_grad=True)
        x.exp()  # plans with 64 bits
    y = program(x)
    assert y.dtype == oplib.float64
    assert wide_graph.needs_64_bits([y])
    assert wide_graph.needs_64_bits([oplib.autograd.graph.get_gradient_edge(y)])


def test_a_graph_without_64_bits_is_walked_only_where_some_were_planned(monkeypatch: Any) -> None:
    x = oplib.tensor(DATA, requires_grad=True)
    build(PROGRAMS["exp"])
    assert engine.wide_plans.any
    assert not wide_graph.needs_64_bits([x.exp().sum()])
    monkeypatch.setattr(engine.wide_plans, "any", False)
    monkeypatch.setattr(engine, "needs_64_bits", None)  # nobody calls it
    x.exp().sum().backward()


def test_a_graph_without_64_bits_runs_where_they_are_on() -> None:
    x = oplib.tensor(DATA, requires_grad=True)
    y = x.exp().sum()
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        y.backward()
    assert x.grad.dtype == oplib.float32
