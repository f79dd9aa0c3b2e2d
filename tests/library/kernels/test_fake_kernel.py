"""A fake kernel that raises, beside a kernel that runs: the first call of a signature warns."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import pytest

from oplib.library import custom_op
from oplib.tensor import Tensor


def on_arrays(x: jax.Array) -> jax.Array:
    return x + 1


def on_tensors(x: Tensor) -> Tensor:
    return x + 1


def fail(x):
    raise KeyError("mine")


@pytest.mark.parametrize("kernel", [on_arrays, on_tensors])
def test_the_first_call_warns_and_later_ones_do_not(kernel):
    op = custom_op(kernel)
    op.register_fake(fail)
    x = Tensor.from_array(jnp.ones(2))
    text = r"local::.*: the fake kernel at .*test_fake_kernel.py:\d+ raised an error. Got KeyError: 'mine'"
    with pytest.warns(UserWarning, match=text) as caught:
        assert op(x).tolist() == [2, 2]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert op(x).tolist() == [2, 2]


def test_each_signature_warns_once():
    op = custom_op(on_arrays)
    op.register_fake(fail)
    for length in (2, 3):
        due = rf"The kernel returned \[f32\[{length}\]\], so this call goes on"
        with pytest.warns(UserWarning, match=due):
            jax.jit(op)(jnp.ones(length))
        jax.jit(op)(jnp.ones(length))
