"""A fake kernel that is right only for the sizes of one call is found, and a sound one never refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import OpMismatchError
from oplib.library import opcheck

from .checked_ops import assert_fails, make_op

X = jnp.arange(12.0).reshape(3, 4)


def transpose(x: jax.Array) -> jax.Array:
    return x.T


def windows(x: np.ndarray, width: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, width, axis=-1).copy()


def squeeze(x: oplib.Tensor) -> oplib.Tensor:
    return x.squeeze(0).clone()


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, "float32")


WRONG = {
    "a constant shape": (transpose, lambda x: shape(4, 3), (X,)),
    "one constant size": (transpose, lambda x: shape(4, x.shape[0]), (X,)),
    "sizes that are equal": (transpose, lambda x: shape(*x.shape), (X[:, :3],)),
    "a size of one": (squeeze, lambda x: shape(*x.shape[1:]), (X[:1],)),
    "a size of zero": (transpose, lambda x: shape(x.shape[1], max(x.shape[0], 1)), (X,)),
    "on the host": (windows, lambda x, width: shape(3, 3, 2), (np.asarray(X), 2)),
}
RIGHT = {
    "a transpose": (transpose, lambda x: shape(x.shape[1], x.shape[0]), (X,)),
    "windows": (
        windows,
        lambda x, width: shape(x.shape[0], x.shape[1] - width + 1, width),
        (np.asarray(X), 2),
    ),
    "one that refuses sizes": (
        transpose,
        lambda x: shape(x.shape[1], 12 // x.shape[1]) if x.size == 12 else shape(*x.shape)[0],
        (X,),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fake_kernel_for_some_sizes_is_found(name):
    kernel, fake, args = WRONG[name]
    op = make_op(kernel, formula=None)
    op.register_fake(fake)
    assert_fails(
        op, args, "test_faketensor", OpMismatchError, "right for the given arguments, and wrong for .* shapes"
    )


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_fake_kernel_passes(name):
    kernel, fake, args = RIGHT[name]
    op = make_op(kernel, formula=None)
    op.register_fake(fake)
    assert opcheck(op, args, test_utils="test_faketensor")
