"""JAX's settings for debugging and strictness: the tape and registered ops work under each."""

import contextlib

import jax
import jax.numpy as jnp
import pytest

import oplib

SETTINGS = {
    "disable_jit": jax.disable_jit,
    "checking_leaks": jax.checking_leaks,
    "debug_nans": lambda: jax.debug_nans(True),
    "transfer_guard": lambda: jax.transfer_guard_device_to_host("disallow"),
    "strict": lambda: jax.numpy_dtype_promotion("strict"),
    "ranks": lambda: jax.numpy_rank_promotion("raise"),
    "nothing": contextlib.nullcontext,
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_tape_with_numbers_of_python_runs(setting):
    x = oplib.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    with SETTINGS[setting]():
        ((x * 2 + 1.5) ** 2 / 4 - x @ oplib.ones(3, 1)).sum().backward()
    assert x.grad.tolist() == [[0.5, 2.5, 4.5]]


@pytest.mark.parametrize("setting", ["disable_jit", "checking_leaks"])
def test_a_registered_op_runs_in_both_worlds_and_as_part_of_a_step(setting):
    @oplib.custom_op("settings::scaled", autograd="derive")
    def scaled(x: jax.Array, factor: float = 2.0) -> jax.Array:
        return jnp.sin(x) * factor

    @jax.jit
    def step(weight):
        (gradient,) = oplib.autograd.grad(scaled(weight, 3.0).sum(), weight)
        return weight.detach() - gradient

    zeros = jnp.zeros(2)
    with SETTINGS[setting]():
        assert step(oplib.zeros(2, requires_grad=True)).tolist() == [-3.0, -3.0]
        assert jax.grad(lambda a: scaled(a, 3.0).sum())(zeros).tolist() == [3.0, 3.0]
        assert jax.jit(jax.vmap(scaled))(zeros).tolist() == [0.0, 0.0]
