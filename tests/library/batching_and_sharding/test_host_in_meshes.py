"""Host kernels in programs in which JAX has no callbacks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from oplib.errors import TracingError
from oplib.library import custom_op


@pytest.mark.devices(8)
def test_a_shard_map_over_some_axes_is_refused_with_the_ops_name_and_the_axes() -> None:
    @custom_op("meshes::sine")
    def sine(x: np.ndarray) -> np.ndarray:
        return np.sin(x)

    sine.register_fake(lambda x: x)
    mesh = jax.make_mesh((4, 2), ("i", "k"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    spread = jax.shard_map(sine, mesh=mesh, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    with pytest.raises(
        TracingError, match=r"meshes::sine: .*over only some axes.*over 'i', and XLA cuts along 'k'"
    ):
        jax.jit(spread)(jnp.ones((8, 4)))
    whole = jax.shard_map(sine, mesh=mesh, in_specs=P("i", "k"), out_specs=P("i", "k"))
    np.testing.assert_allclose(jax.jit(whole)(jnp.ones((8, 4))), np.sin(np.ones((8, 4))), rtol=1e-6)
