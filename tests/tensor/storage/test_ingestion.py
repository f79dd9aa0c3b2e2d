"""What tensors are made of: numbers, nested sequences, arrays of other libraries. Memory is copied."""

import array

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, DataError, DtypeError


class Exporter:
    """An object that hands out memory by DLPack alone."""

    def __init__(self, value):
        self.value = value

    def __dlpack__(self, **options):
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()


class Convertible:
    """An object with numpy's protocol alone."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype)


@pytest.mark.parametrize(
    ("data", "values", "dtype"),
    [
        (3, 3, "int32"),
        (True, True, "bool"),
        ([1, 2.5], [1.0, 2.5], "float32"),
        ([True, 2], [1, 2], "int32"),
        ([1, 2j], [1 + 0j, 2j], "complex64"),
        ([], [], "float32"),
        ([[], []], [[], []], "float32"),
        ((np.float16(1), 2), [1.0, 2.0], "float16"),
        ([np.float16(1), np.float32(2)], [1.0, 2.0], "float32"),
        ([np.int8(1), 2.0], [1.0, 2.0], "float32"),
        ([jnp.ones((), "bfloat16"), 2], [1.0, 2.0], "bfloat16"),
        ([jnp.ones(2, "bfloat16"), np.ones(2, np.float16)], [[1.0, 1.0], [1.0, 1.0]], "float32"),
        ([oplib.tensor(1), oplib.tensor(2.5)], [1.0, 2.5], "float32"),
        (array.array("h", [1, 2]), [1, 2], "int32"),
        (memoryview(b"ab"), [97, 98], "int32"),
        (range(3), [0, 1, 2], "int32"),
        (Exporter(np.arange(3, dtype=np.int16)), [0, 1, 2], "int16"),
        (Exporter(jnp.ones(2, "bfloat16")), [1.0, 1.0], "bfloat16"),
        (Convertible([1.5, 2.5]), [1.5, 2.5], "float32"),
    ],
)
def test_data_is_read_with_the_common_dtype_of_its_items(data, values, dtype):
    with jax.enable_x64(dtype == "float64"):
        made = oplib.tensor(data, dtype="float32") if isinstance(data, Convertible) else oplib.tensor(data)
    assert (made.tolist(), str(made.array.dtype)) == (values, dtype)


@pytest.mark.parametrize("make", [np.array, lambda value: Exporter(np.array(value))])
def test_memory_that_others_can_write_is_copied(make):
    source = make([1.0, 2.0, 3.0])
    made = oplib.tensor(source, dtype=oplib.float32)
    memory = source.value if isinstance(source, Exporter) else source
    memory[:] = 0.0
    assert made.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([[1], [1, 2]], DataError, "nested sequences must have equal lengths"),
        (["a"], DtypeError, "the data is not made of numbers"),
        ([None, 1], DtypeError, "the data is not made of numbers"),
        ([oplib.ones(1, requires_grad=True)], AutogradError, "a Tensor that requires grad, whose history"),
    ],
)
def test_what_makes_no_tensor_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        oplib.tensor(data)


def test_a_dtype_that_would_lose_numbers_is_refused():
    for value in (np.array([1j]), [1j]):
        with pytest.raises(DtypeError, match="float32 cannot hold complex numbers"):
            oplib.tensor(value, dtype=oplib.float32)
    with pytest.raises(DtypeError, match="holds no numbers"):
        oplib.tensor(np.array(["a"]), dtype=oplib.float32)
    assert oplib.tensor([255, 0], dtype=oplib.uint8).tolist() == [255, 0]
    for outside in (256, -1):
        with pytest.raises(DtypeError, match="uint8"):
            oplib.tensor([outside, 0], dtype=oplib.uint8)


def test_traced_numbers_in_sequences_are_stacked():
    result = jax.jit(lambda x: oplib.tensor([[x, 1.0], [2.0, x * 2]]).array)(3.0)
    assert result.tolist() == [[3.0, 1.0], [2.0, 6.0]]
