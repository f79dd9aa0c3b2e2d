"""Random numbers in the bodies of control flow: they come from keys that the loop carries or slices."""

import jax
import jax.numpy as jnp
import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import TracingError

pytestmark = pytest.mark.spec("J.15")


def test_a_carried_key_gives_new_numbers_at_each_call():
    def draw(key, _):
        key, here = jax.random.split(key)
        return key, oplib.rand(2, generator=oplib.Generator.from_key(here))

    key, numbers = oplib.scan(draw, jax.random.key(0), None, length=3)
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert len(set(numbers.flatten().tolist())) == 6


@pytest.mark.parametrize("wrap", [lambda function: function, oplib.jit], ids=["eager", "compiled"])
def test_a_draw_from_a_generator_from_outside_says_to_carry_a_key(wrap):
    def drop(carry, x):
        return F.dropout(carry * x), x

    words = r"body of a scan.* Carry a key, give oplib\.scan one for each turn .*operand of cond"
    with pytest.raises(TracingError, match=words):
        wrap(lambda x: oplib.scan(drop, oplib.ones(4), x))(oplib.ones(3))
    with pytest.raises(TracingError, match=words):
        wrap(lambda x: oplib.cond(x, F.dropout, lambda x: x, x))(oplib.tensor(1.0))


def test_keys_may_be_slices():
    def draw(carry, key):
        return carry, oplib.rand(2, generator=oplib.Generator.from_key(key))

    numbers = oplib.scan(draw, oplib.zeros(()), jax.random.split(jax.random.key(0), 3))[1]
    assert len(set(numbers.flatten().tolist())) == 6
