"""What chains keep: numbers that are written through them, and views of whole arrays while these live."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

import oplib
from oplib.errors import AutogradError
from oplib.tensor.views.chain import number_to_array

NUMBERS = (0.0, -0.0, 1.5, math.nan, math.inf)


def list_signs(tensor: Any) -> list[Any]:
    return [(str(one), math.copysign(1, one)) for one in tensor.tolist()]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_number_is_stored_as_it_is_however_often(dtype: str) -> None:
    x = oplib.zeros(len(NUMBERS), dtype=getattr(oplib, dtype))
    for _ in range(4):
        for place, number in enumerate(NUMBERS):
            x[place] = number
        assert list_signs(x) == list_signs(np.asarray(NUMBERS))


def test_equal_complex_numbers_keep_the_signs_of_their_zeros() -> None:
    x = oplib.zeros(2, dtype=oplib.complex64)
    for _ in range(4):
        for number in (complex(1, -0.0), complex(1, 0.0), complex(-0.0, 0.0)):
            x[1] = number
            parts = x[1].item().real, x[1].item().imag
            assert list(map(str, parts)) == [str(number.real), str(number.imag)]


def test_equal_numbers_of_other_dtypes_stay_apart() -> None:
    for _ in range(4):
        for dtype in (oplib.bool, oplib.int8, oplib.uint8, oplib.int32, oplib.float32, oplib.complex64):
            x = oplib.zeros(2, dtype=dtype)
            x[0] = 1
            assert x.dtype == dtype
            assert x.tolist() == [1, 0]


def test_a_number_is_kept_on_the_device_from_its_second_use_on() -> None:
    number = np.asarray(0.12345, np.float32)
    first, second, third = (number_to_array(0.12345, number.dtype, lambda: number) for _ in range(3))
    assert first is number
    assert isinstance(second, jax.Array)
    assert second is third


def test_no_number_of_a_trace_is_kept() -> None:
    number = np.asarray(0.54321, np.float32)

    def store(y: Any) -> Any:
        x = oplib.Tensor.from_array(y)
        for _ in range(3):
            x[0] = 0.54321
            number_to_array(0.54321, number.dtype, lambda: number)
        return x.array

    with jax.checking_leaks():
        stored = jax.jit(store)(jnp.zeros(2))
    assert stored.tolist() == [number, 0.0]
    x = oplib.zeros(2)
    x[0] = 0.54321
    assert x.tolist() == [number, 0.0]


def test_a_wide_number_is_kept_only_while_64_bits_are_on() -> None:
    number = np.asarray(1 + 2**-40)
    for _ in range(3):
        assert number_to_array(1 + 2**-40, number.dtype, lambda: number) is number
    with jax.enable_x64(True):
        for _ in range(3):
            x = oplib.zeros(2, dtype=oplib.float64)
            x[0] = 1 + 2**-40
            assert x.tolist() == [1 + 2**-40, 0.0]


def test_equal_views_of_one_array_are_read_once_while_one_lives() -> None:
    x = oplib.arange(6.0).reshape(2, 3).clone()
    for _ in range(2):  # the first read of a chain is not kept
        x.t().tolist()
    first, second = x.t(), x.t()
    assert second.array is first.array
    assert first.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_write_into_the_base_or_a_view_is_seen_by_equal_views() -> None:
    x = oplib.arange(6.0).reshape(2, 3).clone()
    for _ in range(2):
        x.t().tolist()
    first = x.t()
    before = first.array
    x.add_(1.0)
    assert x.t().tolist() == first.tolist() == [[1, 4], [2, 5], [3, 6]]
    x.t().mul_(2.0)
    assert x.t().tolist() == first.tolist() == [[2, 8], [4, 10], [6, 12]]
    assert before.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_view_whose_array_was_deleted_is_read_again() -> None:
    x = oplib.arange(6.0).reshape(2, 3).clone()
    for _ in range(2):
        x.t().tolist()
    first = x.t()
    first.array.delete()
    assert x.t().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_no_view_of_a_trace_is_kept() -> None:
    x = oplib.arange(6.0).reshape(2, 3).clone()
    for _ in range(2):
        x.t().tolist()

    def compute(y: Any) -> Any:
        parts = [x.t(), x.t()]
        return sum((part.array for part in parts), y)

    with jax.checking_leaks():
        found = jax.jit(compute)(jnp.zeros((3, 2)))
    assert found.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert x.t().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_gradients_pass_equal_views() -> None:
    weight = oplib.arange(4.0).reshape(2, 2).clone().requires_grad_()
    state = oplib.ones(1, 2)
    for _ in range(3):
        state = state @ weight.T

    def compute(array: Any) -> Any:
        found = jnp.ones((1, 2))
        for _ in range(3):
            found = found @ array.T
        return found.sum()

    state.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == jax.grad(compute)(jnp.arange(4.0).reshape(2, 2)).tolist()


def test_windows_that_overlap_are_written_where_those_shown_share_no_item() -> None:
    x, expected = oplib.zeros(7), np.zeros(7, np.float32)
    values = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    np.lib.stride_tricks.sliding_window_view(expected, 2, writeable=True)[1::2] = values
    x.unfold(0, 2, 1)[1::2].copy_(oplib.tensor(values))
    assert x.tolist() == expected.tolist()
    with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
        x.unfold(0, 2, 1)[1:].mul_(2.0)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x[:],
    "transposed": lambda x: x.transpose(0, 2),
    "permuted twice": lambda x: x.permute(1, 2, 0).permute(1, 0, 2),
    "new axis": lambda x: x[:, None].transpose(1, 3),
    "dropped axis": lambda x: x.squeeze(1),
    "dropped and permuted": lambda x: x.squeeze(1).t(),
    "dropped and new": lambda x: x.squeeze(1)[None, :, None],
    "selected": lambda x: x[1],
    "some": lambda x: x.transpose(0, 2)[1:3],
    "every second": lambda x: x[::2].transpose(0, 1),
    "repeated": lambda x: x.expand(3, 5, 4),
    "repeated new axis": lambda x: x.expand(2, 3, 1, 4),
    "other shape": lambda x: x.reshape(4, 3).t(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_gradient_of_a_view_is_the_derivative_of_its_read(name: str) -> None:
    x = oplib.tensor(np.arange(12, dtype=np.float32).reshape(3, 1, 4))
    storage: Any = VIEWS[name](x)._storage
    chain, starts = storage.chain, storage.starts
    grad = jnp.asarray(np.random.default_rng(0).normal(size=chain.shape).astype(np.float32))
    (expected,) = jax.vjp(lambda whole: chain.get(whole, starts), x.array)[1](grad)
    np.testing.assert_array_equal(chain.pull_back(grad, starts), expected)


def test_the_gradient_of_a_transposed_matrix_is_read_by_the_chain_of_the_other_transposition() -> None:
    there: Any = oplib.rand(7, 11).t()._storage
    back: Any = oplib.rand(11, 7).t()._storage
    np.testing.assert_array_equal(back.chain.pull_back(there.base.array, ()), there.array)
    assert back.chain._inverse is there.chain
    assert "pull" not in back.chain._forms


@pytest.mark.parametrize("name", ["some", "every second", "repeated"])
def test_the_gradient_of_a_view_varies_over_the_mesh_as_that_of_the_part_does(name: str) -> None:
    def pull(grad: Any) -> Any:
        return chain.pull(grad, starts)

    storage: Any = VIEWS[name](oplib.zeros(3, 1, 4))._storage
    chain, starts = storage.chain, storage.starts
    grad = jnp.arange(float(math.prod(chain.shape))).reshape(chain.shape)
    mesh = jax.make_mesh((1,), ("a",), axis_types=(AxisType.Auto,))
    varying = jax.shard_map(pull, mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_array_equal(varying(grad), pull(grad))
