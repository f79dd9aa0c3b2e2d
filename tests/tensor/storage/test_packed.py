"""A part of a packed array is the array that was packed, wherever it is read."""

import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from oplib.tensor.storage.packed import copy_part

PACKED = jnp.arange(20.0)


def assert_part(part):
    assert isinstance(part, jax.Array)
    assert not isinstance(part, jax.core.Tracer)
    assert (part.device, part.committed, part.dtype) == (PACKED.device, PACKED.committed, PACKED.dtype)
    assert part.tolist() == [[5, 6, 7], [8, 9, 10]]


def test_a_part_begins_where_it_says():
    assert_part(copy_part(PACKED, 5, (2, 3)))
    assert copy_part(PACKED, 19, ()).tolist() == 19
    assert copy_part(PACKED, 20, (0, 3)).shape == (0, 3)


def test_the_settings_of_the_reader_change_nothing():
    with jax.transfer_guard("disallow"), jax.disable_jit(), jax.enable_x64(True):
        part = copy_part(PACKED, 5, (2, 3))
    assert_part(part)


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs, jax.no_tracing])
def test_checks_of_jax_are_not_made_of_a_part(setting):
    """Whoever reads it has not computed it."""
    values = jnp.array([jnp.nan, jnp.inf, 1.0])
    with setting(True):
        part = copy_part(values, 0, (1, 2, 1))
    assert np.asarray(part).tobytes() == np.asarray(values[:2]).tobytes()


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_a_part_that_is_read_in_a_trace_is_no_value_of_it(transform):
    read = []

    def run(x):
        read.append(copy_part(PACKED, 5, (2, 3)))
        return x * read[0].sum() if transform is not jax.vmap else x

    transform(run)(jnp.ones(1) if transform is jax.vmap else jnp.float32(1))
    assert_part(read[0])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.complex64])
def test_all_bits_of_a_part_are_kept(dtype):
    values = jnp.array([0.0, -0.0, jnp.nan, jnp.inf, 1e-7, 3.0], dtype)
    part = copy_part(values, 0, (6,))
    assert part.dtype == dtype
    assert np.asarray(part).tobytes() == np.asarray(values).tobytes()


@pytest.mark.devices(8)
def test_a_part_stays_on_the_device():
    with jax.default_device(jax.devices()[1]):
        part = copy_part(PACKED, 5, (2, 3))
    assert_part(part)
    there = jax.device_put(PACKED, jax.devices()[2])
    part = copy_part(there, 5, (2, 3))
    assert (part.device, part.committed) == (jax.devices()[2], True)


@pytest.mark.devices(8)
def test_a_part_of_an_array_on_a_mesh_lies_there():
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P())
    part = copy_part(jax.device_put(PACKED, sharding), 5, (2, 3))
    assert part.sharding.is_equivalent_to(sharding, 2)
    assert part.tolist() == [[5, 6, 7], [8, 9, 10]]


@pytest.mark.devices(8)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_mesh_of_the_reader_takes_no_part(is_committed):
    mesh = Mesh(np.array(jax.devices()), ("i",))
    array = jax.device_put(PACKED, jax.devices()[2]) if is_committed else PACKED
    read = []

    def run(x):
        read.append(copy_part(array, 5, (2, 3)))
        return x

    with jax.set_mesh(mesh):
        run(None)
    mapped = jax.shard_map(run, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    mapped(jnp.ones(8))
    jax.jit(mapped)(jnp.ones(8))
    for part in read:
        assert not isinstance(part, jax.core.Tracer)
        assert (part.devices(), part.committed) == (array.devices(), is_committed)
        assert part.tolist() == [[5, 6, 7], [8, 9, 10]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_reads_a_part():
    PACKED.block_until_ready()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits
        # nobody has compiled for this shape
        os._exit(int(copy_part(PACKED, 5, (1, 2, 1)).tolist() != [[[5], [6]]]))
    assert os.waitpid(child, 0)[1] == 0
