"""Functions of arrays that are compiled: what JAX's settings say of them."""

import jax
import pytest

import oplib


def take_logarithm(x):
    return x.log() * 2


def test_the_error_of_debug_nans_names_the_line_of_the_user():
    compiled, x = oplib.jit(take_logarithm), oplib.tensor([-1.0, 2.0])
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="invalid value") as caught:
        compiled(x)
    (note,) = (one for one in caught.value.__notes__ if one.startswith("Traced at"))
    line = take_logarithm.__code__.co_firstlineno + 1
    assert note == f"Traced at {__file__}:{line}, in take_logarithm: return x.log() * 2"
