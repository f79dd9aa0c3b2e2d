"""Arrays of one repeated value that Tensors share: no write, donation or export reaches another Tensor."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib


def test_equal_constants_share_their_array():
    first, second = oplib.zeros(3, 5), oplib.zeros(3, 5)
    assert first._storage.array is second._storage.array
    assert oplib.zeros_like(first)._storage.array is first._storage.array
    assert oplib.full((3, 5), 0, dtype=oplib.float32)._storage.array is first._storage.array


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: oplib.full((2,), -0.0), np.float32([-0.0, -0.0])),
        (lambda: oplib.full((2,), 0.0), np.float32([0.0, 0.0])),
        (lambda: oplib.full((2,), float("nan")), np.float32([np.nan, np.nan])),
        (lambda: oplib.full((2,), True), np.bool_([True, True])),
        (lambda: oplib.full((2,), 1), np.int32([1, 1])),
        (lambda: oplib.ones(2, dtype=oplib.int8), np.int8([1, 1])),
        (lambda: oplib.zeros(0), np.zeros(0, np.float32)),
        (lambda: oplib.ones(()), np.float32(1)),
    ],
)
def test_each_value_and_dtype_has_an_array_of_its_own(make, wanted):
    for _ in range(2):
        found = make().numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_a_write_changes_one_tensor_only():
    written, other = oplib.zeros(4), oplib.zeros(4)
    written[1] = 3.0
    written.add_(1.0)
    assert other.tolist() == [0, 0, 0, 0]
    assert written.tolist() == [1, 4, 1, 1]


def test_an_array_that_leaves_oplib_can_be_donated():
    kept, given = oplib.ones(6), oplib.ones(6)
    assert given.array is given.array
    jax.jit(lambda x: x + 1, donate_argnums=0)(given.array).block_until_ready()
    assert kept.tolist() == [1] * 6
    assert oplib.ones(6).tolist() == [1] * 6


def test_tensors_as_donated_arguments_of_jit_do_not_take_the_shared_array_along():
    kept, given = oplib.ones(7), oplib.ones(7)
    jax.jit(lambda x: x.array + 1, donate_argnums=0)(given).block_until_ready()
    assert kept.tolist() == [1] * 7


def test_a_library_that_writes_through_dlpack_changes_one_tensor():
    torch = pytest.importorskip("torch", reason="torch writes through DLPack")
    kept, given = oplib.zeros(16), oplib.zeros(16)
    torch.from_dlpack(given).add_(5.0)
    assert kept.tolist() == [0] * 16


def test_an_op_that_donates_its_argument_leaves_the_shared_array(forget_ops):
    def grow(x: jax.Array) -> jax.Array:
        return x + 1

    schema = "(Tensor(a!) x) -> ()"
    op = oplib.library.custom_op("constants::grow", grow, mutates_args=("x",), donates=("x",), schema=schema)
    kept, given = oplib.zeros(9), oplib.zeros(9)
    for _ in range(3):
        op(given)
    assert kept.tolist() == [0] * 9
    assert given.tolist() == [3] * 9


def test_a_factory_inside_a_trace_makes_a_value_of_the_trace():
    def f(x):
        made = oplib.zeros(3)
        made.add_(oplib.Tensor.from_array(x))
        return made.array

    np.testing.assert_array_equal(jax.jit(f)(jnp.arange(3.0)), [0, 1, 2])
    assert oplib.zeros(3).tolist() == [0, 0, 0]


def test_an_array_that_is_read_in_a_trace_is_no_value_of_the_trace():
    outside = oplib.ones(11)
    traced = jax.jit(lambda x: x + outside.array)(jnp.zeros(11))
    mapped = jax.vmap(lambda x: x + outside.array[0])(jnp.zeros(2))
    assert outside.tolist() == traced.tolist() == [1] * 11
    assert mapped.tolist() == [1, 1]


def test_zero_in_place_keeps_history_dtype_and_version():
    leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
    product = leaf * 3.0
    version = product._version
    product.zero_()
    assert product._version == version + 1
    (product + leaf).sum().backward()
    assert leaf.grad.tolist() == [1, 1]
    counts = oplib.tensor([3, 4]).zero_()
    assert (counts.dtype, counts.tolist()) == (oplib.int32, [0, 0])


def test_zero_in_place_of_a_saved_value_is_noticed():
    leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
    factor = oplib.ones(2)
    product = leaf * factor
    factor.zero_()
    with pytest.raises(oplib.errors.AutogradError, match="modified by an inplace operation"):
        product.sum().backward()


def test_constants_on_another_device_stay_there():
    device = jax.devices()[-1]
    with jax.default_device(device):
        assert oplib.zeros(5).array.devices() == {device}
    assert oplib.zeros(5, device=device).array.devices() == {device}


def test_constants_like_another_keep_the_sign_of_zero_and_follow_the_source_to_its_device():
    free = oplib.tensor([1.0, 2.0, 3.0])
    bound = oplib.tensor([1.0, 2.0, 3.0], device=jax.devices()[0])
    for _ in range(2):
        for value in (0.0, -0.0):
            found = oplib.full_like(free, value).numpy()
            np.testing.assert_array_equal(np.signbit(found), [np.signbit(value)] * 3)
        for source in (free, bound):
            assert oplib.zeros_like(source)._storage.array.committed == source._storage.array.committed


def test_threads_make_right_constants():
    wrong = []

    def work(number):
        found = [oplib.full((size % 7 + 1,), number).tolist() for size in range(200)]
        wrong.extend(one for one in found if one != [number] * len(one))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_many_different_constants_are_not_kept():
    from oplib.tensor.storage import constants

    for size in range(1200):
        oplib.zeros(size)
    assert len(constants.shared_arrays) <= constants._MOST
