"""Frames against numpy, and storages that share: what a view reads, writes, counts and remembers."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import oplib
from oplib.tensor.views import Diagonal, Pairs, Reshape, can_view, make_chain, make_window
from oplib.tensor.views.lineage import has_views


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


WINDOWS = {
    "rows": (make_window((4, 3), (2, 3), (1, 1), (0, 1), (2, 3)), (1,), lambda a: a[1:3]),
    "every other": (make_window((5, 3), (3, 3), (2, 1), (0, 1), (3, 3)), (0,), lambda a: a[::2]),
    "one column": (make_window((4, 3), (4, 1), (1, 1), (0,), (4,)), (2,), lambda a: a[:, 2]),
    "turned": (
        make_window((4, 3), (4, 2), (1, 1), (1, None, 0), (2, 1, 4)),
        (1,),
        lambda a: a[:, 1:].T[:, None],
    ),
    "none": (make_window((4, 3), (0, 3), (1, 1), (0, 1), (0, 3)), (0,), lambda a: a[:0]),
}
FRAMES = {
    **WINDOWS,
    "reshape": (Reshape.between((4, 3), (2, 6)), (), lambda a: a.reshape(2, 6)),
    "diagonal": (Diagonal.of((4, 3), -1, 0, 1), (), lambda a: a[[1, 2, 3], [0, 1, 2]]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_takes_and_puts_what_numpy_does(name):
    frame, starts, take = FRAMES[name]
    whole = numbers(*frame.in_shape)
    chain = make_chain((frame,))
    part = take(whole)
    for run in (
        lambda f, *arrays: f(*arrays, starts),
        lambda f, *arrays: jax.jit(f)(*arrays, jnp.asarray(starts)),
    ):
        array = jnp.asarray(whole)
        np.testing.assert_array_equal(run(chain.get, array), part)
        written = whole.copy()
        written[np.isin(written, part)] += 100
        np.testing.assert_array_equal(run(chain.put, array, jnp.asarray(part + 100)), written)
    np.testing.assert_array_equal(chain.read(jnp.asarray(whole), starts), part)


@pytest.mark.parametrize("first", WINDOWS)
def test_two_windows_in_a_row_are_one(first):
    frame, starts, take = WINDOWS[first]
    chain = make_chain((frame,))
    count = len(frame.shape)
    axes = (*range(count), None)
    second = make_window(frame.shape, frame.shape, (1,) * count, axes, (*frame.shape, 1))
    merged, both = chain.extend(second, starts, ())
    assert len(merged.frames) == 1
    whole = numbers(*frame.in_shape)
    np.testing.assert_array_equal(merged.get(whole, both), take(whole)[..., None])


def test_pairs_and_complex_numbers_undo_each_other():
    chain, _ = make_chain((Pairs.of((3,), joins=False),)).extend(Pairs.of((3, 2), joins=True), (), ())
    assert chain.is_identity


@pytest.mark.parametrize(
    ("shape", "strides", "other", "fits"),
    [
        ((2, 3), (3, 1), (6,), True),
        ((2, 3), (1, 2), (6,), False),
        ((2, 3), (1, 2), (2, 3, 1), True),
        ((4, 3), (6, 1), (2, 2, 3), True),
        ((4, 3), (6, 1), (12,), False),
        ((1, 3), (99, 1), (3,), True),
        ((0, 3), (3, 1), (3, 0), True),
    ],
)
def test_strides_tell_whether_memory_has_another_shape(shape, strides, other, fits):
    assert can_view(shape, strides, other) == fits


def test_a_write_reaches_the_base_and_every_other_view():
    x = oplib.tensor(numbers(3, 4))
    row, column, corner = x[1], x.t()[2], x[1:, 2:][0, 0]
    row.mul_(10)
    assert (column.tolist(), corner.item()) == ([2.0, 60.0, 10.0], 60.0)
    column.zero_()
    assert row.tolist() == [40.0, 50.0, 0.0, 70.0]
    assert corner.item() == 0.0
    assert x._version == row._version == corner._version == 2


def test_a_view_is_read_once_and_only_when_it_is_asked():
    x = oplib.tensor(numbers(3, 4))
    view = x[1]
    assert view._storage._kept is None
    assert view.array is view.array
    x.add_(1)
    assert view.tolist() == [5.0, 6.0, 7.0, 8.0]


def test_shape_and_dtype_of_a_view_read_nothing():
    view = oplib.zeros(3, 4).t()[1:].unsqueeze(0)
    assert (view.shape, view.dtype, view.ndim, view.numel()) == ((1, 3, 3), oplib.float32, 3, 9)
    assert view._storage._kept is None


def test_data_shares_memory_and_no_version():
    x = oplib.tensor(numbers(3))
    view, data = x[:2], x.data
    data[0].add_(5)
    assert (x.tolist(), view.tolist(), x._version, data._version) == ([5.0, 1.0, 2.0], [5.0, 1.0], 0, 1)


def test_assigned_data_is_shared_and_history_and_version_stay():
    x, other = oplib.zeros(2, requires_grad=True), oplib.ones(2)
    x.data = other
    other.add_(1)
    assert (x.tolist(), x.requires_grad, x._version) == ([2.0, 2.0], True, 0)


@pytest.mark.parametrize("roundtrip", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_of_views_share_the_copy_of_their_base(roundtrip):
    x = oplib.tensor(numbers(2, 3))
    base, view = roundtrip([x, x.t()[1]])
    view.add_(10)
    assert base.tolist() == [[0.0, 11.0, 2.0], [3.0, 14.0, 5.0]]
    assert x.tolist() == numbers(2, 3).tolist()


def test_views_and_writes_work_in_a_trace():
    def step(array):
        x = oplib.Tensor.from_array(array)
        x[0] += 1
        x.t()[1].mul_(2)
        view = x.reshape(-1)[2:]
        view.sub_(x[1, 0])
        return x.array

    expected = numbers(2, 3)
    expected[0] += 1
    expected[:, 1] *= 2
    expected.reshape(-1)[2:] -= expected[1, 0]
    np.testing.assert_allclose(jax.jit(step)(numbers(2, 3)), expected)


def test_a_traced_value_does_not_escape_through_a_view():
    x = oplib.zeros(2, 3)

    def leak(array):
        x[0].add_(oplib.Tensor.from_array(array))
        return array

    with pytest.raises(oplib.errors.TracingError, match="made outside this trace"):
        jax.jit(leak)(jnp.ones(3))
    assert x.tolist() == [[0.0] * 3] * 2


def test_what_a_view_reads_in_a_trace_does_not_stay_in_it():
    view = oplib.tensor(numbers(2, 3))[1]
    jax.jit(lambda array: array + view.array)(jnp.zeros(3))
    assert view.tolist() == [3.0, 4.0, 5.0]


def test_a_loop_over_places_compiles_once(caplog):
    x = oplib.zeros(7, 3)

    def loop():
        for place in range(7):
            x[place] += place

    x[0] += 0  # what compiles, compiles here
    jnp.asarray(1)  # and how JAX makes scalars, which it compiles once in a process
    with jax.log_compiles(), caplog.at_level("WARNING"):
        loop()
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
    assert x[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_the_gradient_of_a_view_is_that_of_jax_under_jit():
    def loss(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        y = x * 2
        y[0].mul_(x[1])
        y.t()[2].exp_()
        (grad,) = oplib.autograd.grad((y * y).sum(), x)
        return grad.array

    def plain(array):
        y = array * 2
        y = y.at[0].multiply(array[1])
        y = y.at[:, 2].set(jnp.exp(y[:, 2]))
        return (y * y).sum()

    array = jnp.asarray(numbers(2, 3) / 4)
    np.testing.assert_allclose(jax.jit(loss)(array), jax.grad(plain)(array), rtol=1e-5)


@pytest.mark.devices(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_view_of_an_array_over_several_devices_is_written_where_it_lies(kind):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(kind,), devices=jax.devices()[:2])
    with jax.set_mesh(mesh):
        array = jax.device_put(numbers(4, 4), NamedSharding(mesh, PartitionSpec("i")))
        x = oplib.Tensor.from_array(array)
        x[:, 1:3].mul_(2)
        x.t()[0].zero_()
        assert x.sharding.spec[0] == "i"
    expected = numbers(4, 4)
    expected[:, 1:3] *= 2
    expected[:, 0] = 0
    np.testing.assert_array_equal(np.asarray(x.array), expected)


def test_a_dim_that_the_schema_converts_gives_a_view_too():
    x = oplib.tensor(numbers(3, 4))
    x.transpose(oplib.tensor(0), np.int32(1)).mul_(0)
    assert x.tolist() == np.zeros((3, 4)).tolist()


def test_a_tensor_knows_whether_a_view_of_it_lives():
    x = oplib.ones(3)
    assert not has_views(x)
    first = x[1:]
    assert has_views(x)
    second = x[:1]
    del first
    assert has_views(x)
    del second
    assert not has_views(x)
