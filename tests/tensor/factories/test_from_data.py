"""Tensors from data of every kind."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import ArgumentValueError, AutogradError, DataError, DataTypeError, DtypeError
from oplib.tensor import Tensor, as_tensor, from_dlpack, from_numpy, tensor
from oplib.tensor.dtypes import names as dtypes


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, "int32", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        (1j, "complex64", ()),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        ([1, 2.5, True], "float32", (3,)),
        ([True, 2], "int32", (2,)),
        (((1, 2), [3, 4]), "int32", (2, 2)),
        (range(3), "int32", (3,)),
        ([1, 2j], "complex64", (2,)),
        (np.float16(1), "float16", ()),
        (np.ones((2, 1), np.int8), "int8", (2, 1)),
        ([np.float32(1)], "float32", (1,)),
        ([np.ones(2, np.int16)], "int16", (1, 2)),
        (np.ones(2, ">f4"), "float32", (2,)),
        (np.ones(2, jnp.bfloat16), "bfloat16", (2,)),
    ],
    ids=repr,
)
def test_data_has_the_dtype_and_shape_of_torch(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    made = tensor(data)
    assert (made.dtype, made.shape) == (dtype, shape)
    assert made.array.weak_type is False
    np.testing.assert_array_equal(made.numpy(), np.asarray(data, dtype=dtype))


@pytest.mark.parametrize("data", [[[1], [1, 2]], [1, [2]], [[1, 2], 3]])
def test_ragged_data_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="nested sequences must have equal lengths at each depth"):
        tensor(data)


@pytest.mark.parametrize("data", ["text", None, [None], {1}, {"a": 1}, object(), ["a"], b"bytes", [1, None]])
def test_data_that_is_no_number_is_refused(data: Any) -> None:
    with pytest.raises(DtypeError, match=r"tensor: the data is not made of numbers that fit a dtype\. Got "):
        tensor(data)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.array(["2020-01-01"], "M8[D]")])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_arrays_of_no_numbers_are_refused(array: Any, dtype: Any) -> None:
    with pytest.raises(DtypeError, match=r"Convert it( to numbers or bools)? first"):
        tensor(array, dtype=dtype)


def test_an_explicit_dtype_converts_as_in_torch() -> None:
    assert tensor([1.7, -1.7], dtype=dtypes.int32).tolist() == [1, -1]
    assert tensor([0, 2], dtype=dtypes.bool).tolist() == [False, True]
    assert tensor(np.array([1.0]), dtype=dtypes.float16).dtype == dtypes.float16


@pytest.mark.parametrize(("data", "dtype"), [([300], "uint8"), (-1, "uint8"), ([2**40], "int32")])
def test_integers_that_do_not_fit_an_explicit_dtype_are_refused(data: Any, dtype: str) -> None:
    with pytest.raises(DtypeError, match=f"values do not fit {dtype}"):
        tensor(data, dtype=dtype)


def test_complex_data_does_not_become_real() -> None:
    with pytest.raises(DtypeError, match="float32 cannot hold complex numbers"):
        tensor([1j], dtype=dtypes.float32)


def test_only_floating_and_complex_tensors_require_grad() -> None:
    assert tensor([1.0], requires_grad=True).requires_grad
    assert tensor([1j], requires_grad=True).is_leaf
    with pytest.raises(AutogradError, match=r"only floating and complex .* gradients\. Got i32\[1\]"):
        tensor([1], requires_grad=True)


@pytest.mark.parametrize("make", [tensor, as_tensor, from_numpy, from_dlpack])
def test_what_comes_from_numpy_is_a_copy(make: Any) -> None:
    for _ in range(10):  # a race: JAX may read the memory after it has returned
        values = np.zeros(100_000, np.float32)
        made = make(values)
        values[:] = 7
        assert not made.numpy().any()


def test_what_comes_from_torch_is_a_copy() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.bool):
        source = torch.ones(1000).to(dtype)
        made = [tensor(source), as_tensor(source), from_dlpack(source)]
        source.zero_()
        assert all(x.numpy().astype(bool).all() and f"torch.{x.dtype}" == str(dtype) for x in made)


def test_what_comes_from_torch_keeps_the_rules_for_64_bits() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DtypeError, match="a float64 array while JAX's x64 is off"):
        tensor(torch.ones(2, dtype=torch.float64))
    assert tensor(torch.arange(3)).dtype == dtypes.int32
    with pytest.raises(BufferError, match="require gradient"):
        tensor(torch.ones(2, requires_grad=True))


def test_a_jax_array_is_boxed_strong_and_converted() -> None:
    weak = jnp.asarray(1.0)
    assert weak.weak_type
    assert tensor(weak).array.weak_type is False
    assert tensor(jnp.ones(2), dtype=dtypes.int8).dtype == dtypes.int8


def test_copying_a_tensor_warns_and_cuts_its_history() -> None:
    source = tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match=r"the data is a Tensor.*source\.detach\(\)\.clone\(\)"):
        copied = tensor(source)
    assert copied is not source
    assert copied._storage is not source._storage
    assert not copied.requires_grad


@pytest.mark.cpu
def test_as_tensor_returns_a_tensor_itself() -> None:
    source = tensor([1.0], requires_grad=True)
    assert as_tensor(source) is source
    assert as_tensor(source, dtype=dtypes.float32, device="cpu") is source
    assert isinstance(as_tensor([1.0]), Tensor)


def test_sequences_of_tensors_are_joined() -> None:
    x = tensor([1.0, 2.0])
    assert tensor([tensor(1.0), tensor(2.0)]).tolist() == [1.0, 2.0]
    assert tensor([x, x]).shape == (2, 2)


def test_a_history_is_not_lost_in_a_sequence() -> None:
    with pytest.raises(AutogradError, match=r"the data holds a Tensor that requires grad.*oplib\.stack"):
        tensor([1.0, tensor(2.0, requires_grad=True)])


def test_sequences_of_traced_tensors_are_stacked() -> None:
    def stack(a: jax.Array) -> jax.Array:
        x = Tensor.from_array(a)
        return tensor([[x, 1], [2.5, a]]).array

    np.testing.assert_array_equal(jax.jit(stack)(3.0), [[3, 1], [2.5, 3]])
    joined = jax.jit(lambda a: tensor([0, a, Tensor.from_array(a)], dtype="bfloat16").array)(3.0)
    assert (joined.dtype, joined.tolist()) == ("bfloat16", [0.0, 3.0, 3.0])
    with pytest.raises(DataError, match="items of a sequence must have one shape"):
        jax.jit(lambda a: tensor([a, [a]]).array)(1.0)


def test_from_numpy_takes_numpy_arrays_only() -> None:
    with pytest.raises(DataTypeError, match=r"from_numpy: 'array' is not a numpy array\. Got list"):
        from_numpy([1.0])  # type: ignore[arg-type]


def test_from_dlpack_takes_only_what_speaks_it() -> None:
    with pytest.raises(DataTypeError, match=r"from_dlpack: 'data' has no __dlpack__\. Got list"):
        from_dlpack([1.0])


def test_a_leaf_knows_the_trace_in_which_it_was_made() -> None:
    outside = tensor(1.0)
    inside: list[Any] = []
    jax.jit(lambda: inside.append(tensor(1.0)))()
    assert outside._trace == tensor(2.0)._trace
    assert outside._trace != inside[0]._trace


def test_from_dlpack_copies_and_refuses_to_share():
    array = np.arange(3, dtype=np.float32)
    for copy in (None, True):
        made = from_dlpack(array, copy=copy)
        array += 1
        assert made.tolist() == (array - 1).tolist()
    with pytest.raises(ArgumentValueError, match=r"never shares memory.*copy=False"):
        from_dlpack(array, copy=False)
