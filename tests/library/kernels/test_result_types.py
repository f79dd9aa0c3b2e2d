"""The mesh axes over which the results of a callback vary in ``shard_map``: as the fake kernel declares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from oplib.errors import ResultError
from oplib.library import custom_op
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = pytest.mark.devices(8)
X, W = jnp.arange(1.0, 9.0), jnp.float32(2.0)


def double_and_triple(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * x, 3 * w


def double_and_lift(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * x, 3 * w[None]


def double_arrays(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    return 2 * x, 3 * w


def declare(value, like):
    kind = jax.typeof(like).manual_axis_type
    return jax.ShapeDtypeStruct(value.shape, value.dtype, manual_axis_type=kind)


def run(kernel, fake, out_specs):
    op = custom_op(kernel)
    op.register_fake(fake)
    return jax.jit(jax.shard_map(op, mesh=make_mesh(), in_specs=(P("i"), P()), out_specs=out_specs))(X, W)


def test_a_result_varies_over_the_axes_that_are_declared_and_no_others():
    twice, thrice = run(double_and_triple, lambda x, w: (declare(x, x), declare(w, w)), (P("i"), P()))
    np.testing.assert_array_equal(twice, 2 * X)
    assert thrice == 3 * W


def test_a_result_without_a_declaration_varies_over_all_axes_of_the_operands():
    def fake(x, w):
        return jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((1,), w.dtype)

    twice, lifted = run(double_and_lift, fake, (P("i"), P("i")))
    np.testing.assert_array_equal(twice, 2 * X)
    assert set(lifted.tolist()) == {6.0}


def test_a_declaration_of_fewer_axes_than_the_result_has_is_refused():
    with pytest.raises(ResultError, match="the fake kernel contradicts the kernel on varying mesh axes"):
        run(double_arrays, lambda x, w: (declare(x, w), declare(w, w)), P())
