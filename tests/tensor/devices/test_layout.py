"""Layouts: shardings compared by the items that each device holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from oplib.tensor.devices.layout import constrain, describe_sharding, is_spread, place_like, read_layout

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("J.19")]


def make_mesh(kind=AxisType.Auto):
    return jax.make_mesh((4, 2, 1), ("data", "model", "none"), axis_types=(kind,) * 3)


SPECS = [P(), P("data"), P("data", None), P("model"), P(None, "data"), P("data", "none")]
SPECS += [P(("data", "model"))]


def test_layouts_are_equal_where_each_device_holds_the_same_items():
    mesh, shape = make_mesh(), (16, 8)
    for one in SPECS:
        for other in SPECS:
            pair = NamedSharding(mesh, one), NamedSharding(mesh, other)
            alike = pair[0].devices_indices_map(shape) == pair[1].devices_indices_map(shape)
            layouts = [read_layout(sharding, 2) for sharding in pair]
            assert (layouts[0] == layouts[1]) is alike
            assert not alike or hash(layouts[0]) == hash(layouts[1])


def test_layouts_differ_by_devices_rank_and_what_else_there_is():
    mesh = make_mesh()
    whole = read_layout(NamedSharding(mesh, P()), 2)
    alone = read_layout(SingleDeviceSharding(jax.devices()[0]), 2)
    assert whole != alone
    assert alone != read_layout(SingleDeviceSharding(jax.devices()[1]), 2)
    assert whole != read_layout(NamedSharding(mesh, P()), 1)
    assert whole != "P()"


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_an_array_is_laid_out_as_told_and_has_its_values(kind):
    mesh = make_mesh(kind)
    right = np.arange(64.0).reshape(8, 8)
    array = jax.device_put(right, NamedSharding(mesh, P("data")))
    for spec in (P(), P("model"), P(None, "data")):
        sharding = NamedSharding(mesh, spec)
        found = jax.jit(lambda x, sharding=sharding: constrain(x * 1, sharding))(array)
        assert found.sharding.is_equivalent_to(sharding, 2)
        np.testing.assert_array_equal(found, right)


def test_an_array_follows_another_only_to_a_mesh():
    spread = jax.device_put(jnp.ones(8), NamedSharding(make_mesh(), P("data")))
    assert (is_spread(spread), is_spread(jnp.ones(8)), is_spread(np.ones(8))) == (True, False, False)
    assert place_like(jnp.zeros(8), spread).sharding == spread.sharding
    alone = jnp.zeros(8)
    assert place_like(alone, jnp.ones(8)) is alone


def test_a_sharding_is_shown_with_its_mesh():
    shown = describe_sharding(NamedSharding(make_mesh(), P("data", None)))
    assert shown == "P('data', None) over (data=4, model=2, none=1)"
    assert describe_sharding(SingleDeviceSharding(jax.devices()[1])) == str(jax.devices()[1])
