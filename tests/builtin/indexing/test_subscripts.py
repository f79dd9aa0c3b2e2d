"""Subscripts beyond the comparison with torch in ``tests/parity``: other kinds, traces, compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, DimensionError, TracingError
from oplib.tensor import upcalls


def grid():
    return oplib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    "index",
    [
        np.int64(1),
        np.array([1, 0]),
        jnp.array([1, 0]),
        [1, 0],
        range(2),
        (slice(None), np.array([True, False, True])),
        (0, jnp.array([2, 0])),
    ],
    ids=repr,
)
def test_subscripts_of_numpy_and_jax_work_as_in_numpy(index):
    assert grid()[index].tolist() == np.asarray(grid())[index].tolist()


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        (2, DimensionError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, -4), DimensionError, "index -4 is out of bounds for dimension [01] with size 3"),
        ((0, 0, 0), DimensionError, "too many indices for tensor of dimension 2"),
        ([0, 5], DimensionError, "index 5 is out of bounds"),
        (1.5, DimensionError, "only integers, slices .* are valid indices. Got 1.5. Convert it"),
        ([b"a"], ArgumentTypeError, "only integers, slices .* are valid indices"),
        ("a", ArgumentTypeError, "only integers, slices .* are valid indices. Got 'a'. Convert it"),
        (slice(None, None, -1), ArgumentValueError, "step must be greater than zero"),
        (1.5, DimensionError, "only integers, slices"),
        (np.array([0.5]), DimensionError, "only integers, slices"),
        (np.array([True, False, True]), DimensionError, "shape of the mask at index 0 does not match"),
        ((np.array([0, 1]), np.array([0, 1, 2])), DimensionError, "could not be broadcast together"),
    ],
    ids=repr,
)
def test_a_place_that_is_not_there_is_refused(index, kind, text):
    with pytest.raises(kind, match=text):
        grid()[index]
    with pytest.raises(kind, match=text):
        grid()[index] = 0.0


def test_the_error_of_an_index_into_an_empty_axis_names_it_empty():
    empty = oplib.ones(0)
    for ask in (lambda: empty[0], lambda: empty.select(0, 0), lambda: empty.select_scatter(empty, 0, 0)):
        with pytest.raises(DimensionError, match=r"The tensor is empty there: index only axes whose size"):
            ask()


def test_a_value_that_does_not_fit_its_place_is_refused_and_nothing_is_written():
    x = grid()
    with pytest.raises(ArgumentError, match="setitem: the value does not broadcast"):
        x[0] = oplib.ones(2)
    assert x._version == 0


def test_a_traced_mask_has_no_size_and_the_error_names_the_cure():
    with pytest.raises(TracingError, match=r"Use oplib.where\(mask, x, other\)"):
        jax.jit(lambda a: oplib.Tensor.from_array(a)[oplib.Tensor.from_array(a) > 0].array)(jnp.ones(3))


def test_a_number_is_stored_under_a_traced_mask():
    def program(a):
        x = oplib.Tensor.from_array(a) * 1
        x[x > 1] = 9.0
        return x.array

    assert jax.jit(program)(jnp.array([0.0, 2.0])).tolist() == [0.0, 9.0]


def test_places_are_the_same_in_a_trace():
    def program(a, places):
        x = oplib.Tensor.from_array(a) * 1
        x[0, 1:] = 7.0
        return (x[1:, ::2] + x[0, 1]).array, x[:, oplib.Tensor.from_array(places)].array

    sliced, picked = jax.jit(program)(grid().array, jnp.array([2, 0]))
    assert sliced.tolist() == [[10.0, 12.0]]
    assert picked.tolist() == [[7.0, 0.0], [5.0, 3.0]]


def test_a_loop_over_places_compiles_once(caplog):
    x = oplib.zeros(50, 3)

    def visit(place):
        x[place] = x[place] + 1.0
        x[place : place + 2] = x[place : place + 2] * 2.0

    for place in (7, 8, 7):
        visit(place)
    with jax.log_compiles(True), caplog.at_level("WARNING"):
        for place in range(40):
            visit(place)
    assert [record for record in caplog.records if "XLA compilation" in record.getMessage()] == []
    with jax.log_compiles(True), caplog.at_level("WARNING"):
        x[0:5] = 1.0
    assert [record for record in caplog.records if "XLA compilation" in record.getMessage()] != []


@pytest.mark.devices(2)
def test_places_of_an_array_over_several_devices_are_static_and_right():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = oplib.Tensor.from_array(jax.device_put(grid().array, sharding))
    assert x[1].tolist() == [3.0, 4.0, 5.0]
    assert x[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    x[1, 0] = 9.0
    assert x.tolist() == [[0.0, 1.0, 2.0], [9.0, 4.0, 5.0]]


SHAPES = (
    lambda one, other: (one,),
    lambda one, other: (one, other),
    lambda one, other: (slice(None), other),
    lambda one, other: (one[:, None], other),
    lambda one, other: (one, slice(1, 3), other),
    lambda one, other: (one, None, other),
    lambda one, other: (..., one),
    lambda one, other: (1, one, other),
    lambda one, other: (slice(None, None, 2), one, None),
    lambda one, other: (one.reshape(3, 1), Ellipsis, other),
)


@pytest.mark.parametrize("make", SHAPES)
def test_a_form_of_subscripts_with_tensors_is_read_once_and_right_each_time(make):
    array = np.arange(4 * 4 * 4).reshape(4, 4, 4)
    whole = oplib.tensor(array)
    for one, other in (([0, 1, 2], [3, 0, 1]), ([3, 3, 3], [0, -1, -4]), ([-1, 0, 2], [1, 1, 1])):
        places = np.array(one), np.array(other)
        given = make(*[oplib.tensor(each) for each in places])
        np.testing.assert_array_equal(whole[given].numpy(), array[make(*places)])
        written, expected = whole.clone(), array.copy()
        written[given] = 7
        expected[make(*places)] = 7
        np.testing.assert_array_equal(written.numpy(), expected)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_a_form_that_was_read_refuses_places_that_are_not_there(dtype):
    whole = oplib.zeros(2, 3)
    good = oplib.tensor([0, 1], dtype=getattr(oplib, dtype))
    for _ in range(2):
        assert whole[:, good].shape == (2, 2)
        assert whole[good, good].shape == (2,)
        for wrong in (3, -4):
            bad = oplib.tensor([0, wrong], dtype=getattr(oplib, dtype))
            with pytest.raises(DimensionError, match=f"index {wrong} is out of bounds for dimension 1"):
                whole[:, bad]
            with pytest.raises(DimensionError, match=f"index {wrong} is out of bounds for dimension 0"):
                whole[bad, good]


def test_a_mask_and_a_number_are_no_form_with_tensors():
    whole = oplib.arange(3)
    assert whole[oplib.tensor([0, 2])].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="dtype uint8"):
        assert whole[oplib.tensor([1, 0, 1], dtype=oplib.uint8)].tolist() == [0, 2]
    assert whole[oplib.tensor([True, False, True])].tolist() == [0, 2]
    assert whole[oplib.tensor(2)].tolist() == 2


@pytest.mark.parametrize("rows", [2, 2**15])  # a large tensor is written in its own buffer
def test_a_tensor_that_fits_is_stored_by_one_call_and_copied(rows, monkeypatch):
    monkeypatch.setattr(upcalls, "stored", None)
    whole, value = oplib.zeros(rows, 8), oplib.arange(8.0)
    row = whole[1]
    for _ in range(3):  # the first calls compile
        whole[1] = value
        row.mul_(2.0)
        assert (row.tolist(), value.tolist()) == ([2.0 * item for item in range(8)], list(range(8)))
    version = whole._version
    value.add_(1.0)
    whole[0] = whole[1]
    assert whole[0].tolist() == row.tolist() == [2.0 * item for item in range(8)]
    assert whole._version == version + 1


def test_a_stored_tensor_without_history_cuts_off_what_it_replaces():
    leaf, value = oplib.ones(2, 3, requires_grad=True), oplib.arange(3.0)
    whole = leaf * 2
    whole[1] = value
    whole.backward(oplib.ones(2, 3))
    assert leaf.grad.tolist() == [[2.0] * 3, [0.0] * 3]
    with oplib.no_grad():
        whole = oplib.zeros(2, 3)
        whole[1] = leaf[0]
    assert not whole.requires_grad
    whole[0] = leaf[0]
    whole.sum().backward()
    assert leaf.grad.tolist() == [[3.0] * 3, [0.0] * 3]
