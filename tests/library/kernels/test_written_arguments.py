"""Kernels annotated jax.Array of ops that write: they return the new values first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import ArgumentError, AutogradError, ResultError
from oplib.library import custom_op, ops


def test_an_array_kernel_returns_the_new_values_of_written_arguments_first() -> None:
    @custom_op("compiled::momentum", mutates_args=("params", "state"), operand=("lr",))
    def momentum(
        params: list[jax.Array], state: jax.Array | None, grads: list[jax.Array], *, lr: float
    ) -> tuple[list[jax.Array], jax.Array | None, jax.Array]:
        norm = sum(jnp.sum(grad**2) for grad in grads)
        return (
            [p - lr * g for p, g in zip(params, grads, strict=True)],
            None if state is None else state + 1,
            norm,
        )

    params = [oplib.tensor([1.0]), oplib.tensor([2.0, 3.0])]
    grads = [oplib.tensor([1.0]), oplib.tensor([1.0, 1.0])]
    count = oplib.tensor(0.0)
    norm = momentum(params, count, grads, lr=0.5)
    assert [p.tolist() for p in params] == [[0.5], [1.5, 2.5]]
    assert (count.item(), norm.item()) == (1.0, 3.0)
    assert [p._version for p in (*params, count)] == [1, 1, 1]
    assert momentum(params, None, grads, lr=0.5).item() == 3.0
    assert [p.tolist() for p in params] == [[0.0], [1.0, 2.0]]


def test_functional_gives_the_new_values_of_arrays() -> None:
    @custom_op("compiled::bump", mutates_args=("x",))
    def bump(x: jax.Array) -> jax.Array:
        return x + 1

    assert bump.functional(jnp.zeros(2)).tolist() == [1.0, 1.0]
    assert ops.compiled.bump.default.functional(jnp.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match=r"argument 'x' is written, but arrays cannot be.*functional"):
        bump(jnp.zeros(2))


def test_writing_a_leaf_that_requires_grad_is_refused_and_changes_nothing() -> None:
    @custom_op("compiled::bump2", mutates_args=("x",))
    def bump2(x: jax.Array) -> jax.Array:
        return x + 1

    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match="leaf Variable that requires grad"):
        bump2(x)
    assert (x.tolist(), x._version) == ([1.0], 0)
    with oplib.no_grad():
        bump2(x)
    assert (x.tolist(), x._version) == ([2.0], 1)


def test_a_new_value_of_another_shape_is_refused_and_changes_nothing() -> None:
    @custom_op("compiled::grow", mutates_args=("x", "y"))
    def grow(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x + 1, jnp.concatenate([y, y])

    x, y = oplib.tensor([1.0]), oplib.tensor([2.0])
    with pytest.raises(
        AutogradError,
        match=r"compiled::grow: the new value.*does not fit the tensor. Got f32\[2\] for f32\[1\]",
    ):
        grow(x, y)
    assert (x.tolist(), y.tolist(), x._version) == ([1.0], [2.0], 0)


def test_nothing_is_donated_unless_the_op_declares_it() -> None:
    @custom_op("compiled::keep", mutates_args=("x",))
    def keep(x: jax.Array) -> jax.Array:
        return x + 1

    @custom_op("compiled::take", mutates_args=("x",), donates=("x",))
    def take(x: jax.Array) -> jax.Array:
        return x + 1

    for op, deleted in ((keep, False), (take, True)):
        x = oplib.tensor([1.0, 2.0])
        before = x.array
        op(x)
        assert before.is_deleted() is deleted
        assert x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda xs, s: ([xs[0]], s), r"argument 'xs' does not fit. Got \[f32\[1\]\], expected a list of 2"),
        (lambda xs, s: (xs, 1.0), r"argument 's' does not fit. Got 1.0, expected an array"),
        (lambda xs, s: (xs[0], s), r"argument 'xs' does not fit. Got f32\[1\], expected a list of 2"),
    ],
    ids=["too short", "a number", "no list"],
)
def test_a_new_value_of_another_structure_is_refused(answer: Any, text: str) -> None:
    @custom_op("compiled::restructure", mutates_args=("xs", "s"))
    def restructure(xs: list[jax.Array], s: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        return answer(xs, s)

    xs = [oplib.tensor([1.0]), oplib.tensor([2.0])]
    with pytest.raises(ResultError, match=text):
        restructure(xs, oplib.tensor(0.0))
    assert [x._version for x in xs] == [0, 0]


@pytest.mark.usefixtures("forget_ops")
def test_an_argument_that_is_a_view_of_a_written_one_sees_the_write() -> None:
    @custom_op("written::add_and_weigh", mutates_args=("a",))
    def add_and_weigh(a: oplib.Tensor, c: oplib.Tensor) -> oplib.Tensor:
        a.add_(1)
        return (a * c).sum()

    for call in (add_and_weigh, oplib.jit(add_and_weigh)):
        b = oplib.tensor([1.0, 2.0, 3.0])
        assert call(b, b[0]).item() == (2 + 3 + 4) * 2  # torch gives the same
        assert b.tolist() == [2.0, 3.0, 4.0]

    @custom_op("written::writes_another", mutates_args=("a",))
    def writes_another(a: oplib.Tensor, c: oplib.Tensor) -> None:
        c.add_(1)

    with pytest.raises(AutogradError, match="the kernel wrote argument 'c'"):
        writes_another(b, oplib.ones(1))


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_kernel_on_arrays_writes_into_no_argument_whose_items_share_memory(compiled: bool) -> None:
    @custom_op("written::count_up", mutates_args=("a",))
    def count_up(a: jax.Array) -> jax.Array:
        return a + jnp.arange(3.0)

    a = oplib.zeros(()).expand(3)
    with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
        (oplib.jit(count_up) if compiled else count_up)(a)
    assert a.tolist() == [0.0, 0.0, 0.0]
    count_up(b := oplib.zeros(6)[::2])
    assert b.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("answer", [lambda x: x, lambda x: (x, x, x)])
def test_a_kernel_that_returns_another_number_of_values_is_refused(answer: Any) -> None:
    @custom_op("compiled::short", mutates_args=("x",))
    def short(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return answer(x)

    told = r"compiled::short: the kernel returned .*value of each written argument.*2 in all"
    with pytest.raises(ResultError, match=told):
        short(oplib.ones(2))
