"""Ops that write, on plain arrays: they return new values, in the old buffer if the caller donates it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.library import custom_op


@pytest.fixture
def step():
    @custom_op("dona::step_", mutates_args=("p", "m"))
    def step_(
        p: jax.Array, m: jax.Array, g: jax.Array, rate: float = 0.5
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        new = 0.9 * m + g
        return p - rate * new, new, jnp.sum(g * g)

    return step_


def make_arrays():
    return jnp.ones((8, 128)), jnp.full((8, 128), 2.0), jnp.full((8, 128), 3.0)


def assert_stepped(results):
    p, m, norm = results
    np.testing.assert_allclose(m, 4.8, rtol=1e-6)
    np.testing.assert_allclose(p, 1 - 0.5 * 4.8, rtol=1e-6)
    np.testing.assert_allclose(norm, 9 * 8 * 128)


def test_new_values_come_first_and_the_old_arrays_stay(step) -> None:
    arrays = make_arrays()
    assert_stepped(step.functional(*arrays))
    assert [float(array[0, 0]) for array in arrays] == [1, 2, 3]


def test_it_goes_through_jit_vmap_and_scan(step) -> None:
    p, m, g = make_arrays()
    assert_stepped(jax.jit(step.functional)(p, m, g))
    rows = jax.vmap(step.functional)(p, m, g)
    assert_stepped((rows[0], rows[1], rows[2].sum()))

    def advance(carry, g):
        p, m, norm = step.functional(*carry, g)
        return (p, m), norm

    (last, _), norms = jax.lax.scan(advance, (p, m), jnp.stack([g, g]))
    assert norms.shape == (2,)
    np.testing.assert_allclose(last, 1 - 0.5 * 4.8 - 0.5 * (0.9 * 4.8 + 3), rtol=1e-5)


def test_where_the_caller_donates_the_new_value_stands_in_the_old_buffer(step) -> None:
    p, m, g = make_arrays()
    run = jax.jit(step.functional, donate_argnums=(0, 1))
    text = run.lower(p, m, g).compile().as_text()
    assert "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }" in text
    buffers = [p.unsafe_buffer_pointer(), m.unsafe_buffer_pointer()]
    results = run(p, m, g)
    assert [value.unsafe_buffer_pointer() for value in results[:2]] == buffers
    assert [value.is_deleted() for value in (p, m, g)] == [True, True, False]
    assert_stepped(results)


def test_without_donation_no_buffer_is_reused(step) -> None:
    p, m, g = make_arrays()
    run = jax.jit(step.functional)
    assert "input_output_alias" not in run.lower(p, m, g).compile().as_text()
    results = run(p, m, g)
    assert results[0].unsafe_buffer_pointer() != p.unsafe_buffer_pointer()
    assert not p.is_deleted()


def test_donates_is_about_tensors_and_takes_nothing_from_arrays() -> None:
    @custom_op("dona::add_", mutates_args=("p",), donates=("p",))
    def add_(p: jax.Array, g: jax.Array) -> jax.Array:
        return p + g

    p, _, g = make_arrays()
    for run in (add_.functional, jax.jit(add_.functional)):
        np.testing.assert_allclose(run(p, g), 4.0)
        assert not p.is_deleted()
    buffer = p.unsafe_buffer_pointer()
    given_away = jax.jit(lambda p, g: add_.functional(p, g), donate_argnums=0)(p, g)
    assert (given_away.unsafe_buffer_pointer(), p.is_deleted()) == (buffer, True)


def test_a_host_kernel_always_writes_into_a_copy() -> None:
    @custom_op("dona::fill_", mutates_args=("x",))
    def fill_(x: np.ndarray, value: float) -> None:
        x[...] = value

    x = jnp.zeros((8, 128))
    np.testing.assert_allclose(jax.jit(lambda x: fill_.functional(x, 3.0), donate_argnums=0)(x), 3.0)
    np.testing.assert_allclose(jax.vmap(lambda x: fill_.functional(x, 3.0))(jnp.zeros((2, 3))), 3.0)
