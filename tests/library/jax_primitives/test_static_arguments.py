"""Static arguments of compiled kernels, and operands, which are not static."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, CompilationWarning
from oplib.library import custom_op, ops
from oplib.library.dispatch import dispatcher


def test_static_arguments_are_distinguished_by_type_and_bits() -> None:
    @custom_op("compiled::sign_of")
    def sign_of(x: jax.Array, value: float) -> jax.Array:
        return x * np.copysign(1.0, value)

    @custom_op("compiled::kind_of")
    def kind_of(x: jax.Array, value: int | float | bool) -> jax.Array:  # noqa: PYI041  told apart
        return x * {bool: 1.0, int: 2.0, float: 3.0}[type(value)]

    x = jnp.ones(())
    for _ in range(2):
        assert [float(sign_of(x, value)) for value in (0.0, -0.0)] == [1.0, -1.0]
        assert [float(kind_of(x, value)) for value in (True, 1, 1.0)] == [1.0, 2.0, 3.0]
        assert [float(jax.jit(kind_of, static_argnums=1)(x, value)) for value in (True, 1, 1.0)] == [
            1.0,
            2.0,
            3.0,
        ]


def test_a_nan_argument_does_not_compile_again_and_again() -> None:
    traces: list[float] = []

    @custom_op("compiled::fill")
    def fill(x: jax.Array, value: float) -> jax.Array:
        traces.append(value)
        return jnp.full_like(x, value)

    for _ in range(4):
        assert np.isnan(fill(jnp.ones(1), float("nan"))).all()
    assert len(traces) == 1


def test_an_operand_that_changes_at_every_call_compiles_nothing_new() -> None:
    traces: list[object] = []

    @custom_op("compiled::step", operand=("lr",))
    def step(x: jax.Array, *, lr: float) -> jax.Array:
        traces.append(lr)
        return x - lr

    for count in range(20):  # warnings are errors here
        assert float(step(jnp.ones(()), lr=count / 7)) == pytest.approx(1 - count / 7)
        assert step(oplib.tensor(1.0), lr=count / 7).item() == pytest.approx(1 - count / 7)
    assert len(traces) == 1


def test_an_operand_is_a_zero_dimensional_array_in_setup_context() -> None:
    seen: list[object] = []

    @custom_op("compiled::operand_setup", operand=("scale",))
    def operand_setup(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    def setup(ctx, inputs, output):
        seen.append((isinstance(inputs[1], jax.Array), inputs[1].shape))
        ctx.scale = inputs[1]

    operand_setup.register_autograd(lambda ctx, grad: (grad * ctx.scale, None), setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    for scale in (2.0, 3.0):
        operand_setup(x, scale).sum().backward()
    assert x.grad.item() == 5.0
    assert seen == [(True, ())]


def test_a_static_argument_warns_once_at_its_eighth_value() -> None:
    @custom_op("compiled::warned")
    def warned(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    x = jnp.ones(1)
    for count in range(7):
        warned(x, float(count))
    with pytest.warns(
        CompilationWarning, match=r"compiled::warned: static argument 'scale' has taken 8 values.*operand"
    ):
        warned(x, 7.0)
    for count in range(8, 20):  # warnings are errors here, so a second one would fail
        warned(x, float(count))


@pytest.mark.fast_path
def test_the_cache_of_the_fast_paths_of_an_op_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatcher.CAPACITY == 256
    monkeypatch.setattr(dispatcher, "CAPACITY", 8)  # each specialization is compiled

    @custom_op("compiled::bounded")
    def bounded(x: jax.Array, name: str) -> jax.Array:
        return x

    x = jnp.ones(1)
    for count in range(10):
        bounded(x, f"v{count}")
    find = ops.compiled.bounded.default.call.__globals__["__find"]
    assert 0 < len(find.__self__) <= 4


def test_a_static_argument_of_the_wrong_type_is_refused_after_a_right_one() -> None:
    @custom_op("compiled::strict")
    def strict(x: jax.Array, count: int = 1) -> jax.Array:
        return x * count

    assert strict(jnp.ones(()), 2) == 2.0
    with pytest.raises(ArgumentError, match="argument 'count'"):
        strict(jnp.ones(()), "2")
    with pytest.raises(ArgumentError, match="argument 'count'"):
        strict(jnp.ones(()), 2.5)


@pytest.mark.parametrize("value", [[2], np.array([1, 2]), jnp.ones(3), {}], ids=str)
def test_a_static_argument_that_cannot_be_hashed_is_explained_by_its_schema(value: Any) -> None:
    @custom_op("compiled::unhashable")
    def unhashable(x: jax.Array, count: int = 1, scale: float = 1.0) -> jax.Array:
        return x * count * scale

    for _ in range(2):  # the second call takes the fast path
        assert unhashable(jnp.ones(()), 2, 0.5) == 1.0
        with pytest.raises(ArgumentError, match="argument 'count'"):
            unhashable(jnp.ones(()), value)
        with pytest.raises(ArgumentError, match="argument 'scale'"):
            unhashable(jnp.ones(()), 1, value)


def test_a_traced_static_argument_is_refused_with_the_reason() -> None:
    @custom_op("compiled::traced_static")
    def traced_static(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    with pytest.raises(ArgumentError, match=r"argument 'scale'.*Its value is traced"):
        jax.jit(lambda scale: traced_static(jnp.ones(()), scale))(2.0)


def test_an_array_of_one_element_passes_for_a_static_number() -> None:
    @custom_op("compiled::element")
    def element(x: jax.Array, count: int) -> jax.Array:
        return x * count

    assert [float(element(jnp.ones(()), count)) for count in (jnp.array(2), np.array(2), 2)] == [2.0] * 3


def test_list_arguments_are_distinguished_by_the_types_of_their_items() -> None:
    @custom_op("compiled::lists")
    def lists(x: jax.Array, values: list[float]) -> jax.Array:
        return x * sum(values)

    assert lists(jnp.ones(()), [1.0, 2.0]) == 3.0
    assert lists(jnp.ones(()), (1, 2)) == 3.0
    with pytest.raises(ArgumentError, match="element 0 does not fit"):
        lists(jnp.ones(()), ["a"])


def test_a_kernel_that_changes_its_list_argument_changes_no_later_trace() -> None:
    @custom_op("compiled::popping")
    def popping(x: jax.Array, dims: list[int]) -> jax.Array:
        count = len(dims)
        dims.clear()
        return x * count

    assert [popping(jnp.ones(size), [1, 2])[0] for size in (1, 2)] == [2.0, 2.0]
