"""The functions of the array API standard, beside those of jax.numpy, which implements the standard too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentValueError

from .calls import CALLS, FLOATS

xp = oplib.array_api
NAMES = (
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "asin",
    "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "can_cast", "ceil", "clip", "concat", "conj", "copysign", "cos", "cosh",
    "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "divide", "empty", "empty_like", "equal",
    "exp", "expand_dims", "expm1", "eye", "finfo", "flip", "floor", "floor_divide", "from_dlpack", "full",
    "full_like", "greater", "greater_equal", "hypot", "iinfo", "imag", "isdtype", "isfinite", "isin",
    "isinf", "isnan", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose", "max",
    "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "multiply", "negative", "nextafter",
    "nonzero", "not_equal", "ones", "ones_like", "permute_dims", "positive", "pow", "prod", "real",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign",
    "signbit", "sin", "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros",
    "zeros_like",
)  # fmt: skip
LINALG = (
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
)  # fmt: skip
FFT = (
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
    "rfft", "rfftfreq", "rfftn",
)  # fmt: skip
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]


def to_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def test_the_namespace_has_the_names_of_the_standard_and_no_others():
    others = {"fft", "linalg", "__array_namespace_info__", *DTYPES, *CONSTANTS}
    assert set(xp.__all__) == {*NAMES, *others}
    assert set(xp.linalg.__all__) == set(LINALG)
    assert set(xp.fft.__all__) == set(FFT)
    assert [name for name in xp.__all__ if not hasattr(xp, name)] == []
    assert xp.__array_api_version__ == "2024.12"


def test_each_function_of_the_standard_is_called_in_a_test():
    extensions = {*(f"linalg.{name}" for name in LINALG), *(f"fft.{name}" for name in FFT)}
    assert set(CALLS) == {*NAMES, *extensions}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_returns_what_jax_numpy_does(name):
    if name == "cumulative_prod" and not hasattr(jnp, name):
        pytest.skip("this version of jax.numpy has no cumulative_prod")
    found = to_list(CALLS[name](xp, oplib.tensor))
    expected = to_list(CALLS[name](jnp, jnp.asarray))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, jax.Array):
            assert type(one) is oplib.Tensor
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), np.asarray(other), rtol=1e-5, atol=1e-6)
            assert one.shape == other.shape
        else:
            assert one == other


DIFFERENTIABLE = [
    "max",
    "std",
    "prod",
    "concat",
    "take_along_axis",
    "cumulative_sum",
    "vecdot",
    "linalg.trace",
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_function_is_recorded_as_its_ops(name):
    leaves = []

    def make(data):
        array = jnp.asarray(data)
        leaves.append(oplib.Tensor.from_array(array, requires_grad=array.dtype == jnp.float32))
        return leaves[-1]

    results = [one for one in to_list(CALLS[name](xp, make)) if one.requires_grad]
    oplib.autograd.backward([one.sum() for one in results])
    values = [leaf.array for leaf in leaves]

    def loss(*floats):
        given = iter(floats)
        made = iter(values)

        def take(data):
            value = next(made)
            return next(given) if value.dtype == jnp.float32 else value

        found = to_list(CALLS[name](jnp, take))
        return sum(one.sum() for one in found if one.dtype == jnp.float32)

    floats = [leaf for leaf in leaves if leaf.requires_grad]
    expected = jax.grad(loss, argnums=tuple(range(len(floats))))(*[leaf.array for leaf in floats])
    for leaf, other in zip(floats, expected, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), other, rtol=1e-5, atol=1e-6)


def test_a_tensor_names_its_namespace_and_refuses_unknown_versions():
    x = oplib.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ArgumentValueError, match=r"no such version. Got '1999.01'. There are 2021.12"):
        x.__array_namespace__(api_version="1999.01")


def test_a_tensor_moves_to_a_device_by_the_name_of_the_standard():
    x = oplib.ones(2)
    assert x.to_device("cpu").device == x.device
    with pytest.raises(ArgumentValueError, match=r"JAX has no streams\. Got 3"):
        x.to_device("cpu", stream=3)


def test_the_info_tells_devices_and_dtypes():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": None,
    }
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == oplib.float32
    assert info.default_dtypes()["integral"] == xp.arange(1).dtype
    assert set(info.dtypes(kind="real floating")) == {"float32"}
    assert set(info.dtypes(kind=("bool", "integral"))) == {
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    }
    with jax.enable_x64(True):
        assert set(info.dtypes()) == set(DTYPES)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: xp.squeeze(oplib.ones(2, 1), axis=0), r"only axes of size 1.*f32\[2,1\] and axis 0"),
        (lambda: xp.take(oplib.ones(2, 1), oplib.tensor([0])), r"take: without an axis.*f32\[2,1\]"),
        (lambda: xp.cumulative_sum(oplib.ones(2, 1)), "cumulative_sum: without an axis"),
        (lambda: xp.asarray([1.0], copy=False), "cannot be taken without a copy"),
        (lambda: xp.asarray(oplib.ones(1), dtype=oplib.int32, copy=False), "the dtype or device differs"),
        (lambda: xp.reshape(oplib.ones(2, 3).mT, (6,), copy=False), "view"),
        (lambda: xp.take_along_dim(oplib.ones(1), oplib.tensor([0])), "has no attribute 'take_along_dim'"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises((ArgumentValueError, RuntimeError, AttributeError), match=text):
        call()


def test_asarray_copies_a_tensor_only_if_it_is_asked_to():
    x = oplib.tensor(FLOATS)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.astype(x, x.dtype, copy=False) is x
    assert xp.astype(x, x.dtype) is not x


def test_a_tensor_stands_for_its_dtype():
    assert xp.can_cast(oplib.tensor([1], dtype=oplib.int8), xp.int16)
    assert xp.result_type(oplib.ones(2), oplib.int8, 1) == oplib.float32
