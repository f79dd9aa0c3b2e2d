"""Single calls at the corners of functions, each of which once gave something else here than in torch."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits")

Call = Callable[[Any], Any]
BELOW = [-8.3, -9.7, -15.25, -30.4, -100.2, -1000.7, -0.5, 0.25, 2.5, 50.0]
NO_ITEMS = ((0,), (0, 3), (3, 0), (0, 0), (2, 0, 3))
ORDERS = (None, 0, 1, 2, 3, "fro", "nuc", float("inf"), -float("inf"), -1, -2)


def count(lib: Any, *shape: int, dtype: str = "float64") -> Any:
    return lib.arange(int(np.prod(shape)), dtype=getattr(lib, dtype)).reshape(shape)


def scalar(lib: Any, value: float, dtype: str = "float64") -> Any:
    return lib.tensor(value, dtype=getattr(lib, dtype))


def _masked(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.masked")


def differentiate(lib: Any, function: Call, times: int) -> Any:
    x = lib.tensor(BELOW, dtype=lib.float64, requires_grad=True)
    found = function(x)
    for _ in range(times):
        (found,) = lib.autograd.grad(found.sum(), x, create_graph=True)
    return found


def pad(*widths: int, shape: tuple[int, ...], mode: str) -> Call:
    return lambda lib: lib.nn.functional.pad(count(lib, *shape), widths, mode=mode)


def lstsq_residuals(lib: Any) -> Any:
    a = lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], dtype=lib.float64, requires_grad=True)
    b = lib.tensor([[1.0], [2.0], [4.0]], dtype=lib.float64, requires_grad=True)
    residuals = lib.linalg.lstsq(a, b, driver="gels").residuals
    return residuals, lib.autograd.grad(residuals.sum(), (a, b))


CALLS: dict[str, Call] = {
    **{
        f"polygamma {n}": lambda lib, n=n: differentiate(lib, lambda x: lib.polygamma(n, x), 1)
        for n in range(5)
    },
    "digamma": lambda lib: differentiate(lib, lib.digamma, 2),
    "lgamma": lambda lib: differentiate(lib, lib.lgamma, 2),
    **{
        f"zeta {s}": lambda lib, s=s: lib.special.zeta(
            s, lib.tensor([*BELOW, -1.0, -9.0, 0.0], dtype=lib.float64)
        )
        for s in (0.5, 2.0, 2.5, 3.0, 4.0, 9.0)
    },
    "pad circular, less left": pad(-1, 2, shape=(1, 2, 5), mode="circular"),
    "pad circular, less right": pad(2, -1, shape=(1, 2, 5), mode="circular"),
    "pad circular, two dims": pad(2, -1, -1, 1, shape=(1, 2, 3, 5), mode="circular"),
    "pad circular, wholly": pad(-3, -3, shape=(1, 2, 5), mode="circular"),
    **{
        f"pad {mode} {shape}": pad(*widths, shape=shape, mode=mode)
        for mode in ("reflect", "replicate", "circular")
        for shape, widths in (
            ((0, 2, 5), (1, 1)),
            ((0, 2, 5, 4), (1, 1, 2, 2)),
            ((0, 5), (1, 1)),
            ((2, 0, 4), (1, 1)),
        )
    },
    "pinv": lambda lib: lib.linalg.pinv(lib.tensor([[2.0, 100.0], [1.0, 3.0]]), hermitian=True),
    "pinv, bounded": lambda lib: lib.linalg.pinv(
        lib.tensor([[2.0, 9.0], [1.0, 3.0]]), atol=0.1, hermitian=True
    ),
    "lstsq residuals": lstsq_residuals,
    "arange of fractions": lambda lib: lib.arange(-0.9, 2.1, 2.0, dtype=lib.int64),
    "arange of fractions, short": lambda lib: lib.arange(-0.9, 2.1, 2.0, dtype=lib.int32),
    "arange down": lambda lib: lib.arange(2.9, -2.1, -1.5, dtype=lib.int64),
    "arange of a small step": lambda lib: lib.arange(0.0, 1.0, 0.5, dtype=lib.int64),
    "arange to infinity": lambda lib: lib.arange(0, float("inf")),
    "arange from nan": lambda lib: lib.arange(float("nan"), 3),
    "quantile": lambda lib: lib.quantile(scalar(lib, 3.0), 0.5, keepdim=True),
    "quantile along a dim": lambda lib: lib.quantile(scalar(lib, 3.0), 0.5, dim=0, keepdim=True),
    "quantiles": lambda lib: lib.quantile(
        scalar(lib, 3.0), lib.tensor([0.5, 0.2], dtype=lib.float64), keepdim=True
    ),
    "nanquantile": lambda lib: lib.nanquantile(scalar(lib, 3.0), 0.5, keepdim=True),
    "diff of order 0": lambda lib: lib.diff(lib.tensor([1.0, 2.0]), n=0, prepend=lib.tensor([5.0])),
    "diff of order 9": lambda lib: lib.diff(lib.tensor([1.0, 2.0]), n=9, append=lib.tensor([5.0])),
    **{
        f"normalize {dim}": lambda lib, dim=dim: lib.nn.functional.normalize(scalar(lib, 3.0), dim=dim)
        for dim in (0, -1, 1)
    },
    **{
        f"cosine_similarity {dim}": lambda lib, dim=dim: lib.nn.functional.cosine_similarity(
            scalar(lib, 3.0), scalar(lib, -2.0), dim=dim
        )
        for dim in (0, -1, 1)
    },
    "tensordot with 1": lambda lib: lib.tensordot(count(lib, 2, 1), count(lib, 3, 2), dims=([1], [0])),
    "tensordot with two of 1": lambda lib: lib.tensordot(
        count(lib, 2, 1, 4), count(lib, 3, 1), dims=([1, 2], [0, 1])
    ),
    **{
        f"scatter {reduce} of {kind}": lambda lib, reduce=reduce, kind=kind: scalar(lib, 3.0).scatter_(
            0,
            lib.tensor(0),
            5.0 if kind == "a number" else scalar(lib, 5.0),
            **({"reduce": reduce} if reduce else {}),
        )
        for reduce in ("", "add", "multiply")
        for kind in ("a number", "a tensor")
    },
    "scatter, 32 bits": lambda lib: lib.scatter(
        lib.tensor([3.0, 4.0]), 0, lib.tensor([0], dtype=lib.int32), lib.tensor([5.0])
    ),
    "index_put_, 32 bits": lambda lib: lib.tensor([3.0, 4.0]).index_put_(
        (lib.tensor([0], dtype=lib.int32),), lib.tensor(5.0)
    ),
    **{
        f"{name} at no {dtype}": lambda lib, name=name, dtype=dtype: getattr(lib, name)(
            count(lib, 2, 3),
            0,
            lib.zeros((0, 3), dtype=getattr(lib, dtype)),
            *([] if name == "gather" else [count(lib, 2, 3)]),
        )
        for name in ("gather", "scatter", "scatter_add")
        for dtype in ("uint8", "float32", "bool")
    },
    **{
        f"{name} at a place without dims": lambda lib, name=name: getattr(lib, name)(
            count(lib, 4),
            0,
            lib.tensor(1, dtype=lib.int64 if lib.__name__ == "torch" else lib.int32),
            *([] if name == "gather" else [lib.tensor(9.0)]),
        )
        for name in ("gather", "scatter", "scatter_add")
    },
    "scatter at no bytes, a number": lambda lib: lib.scatter(
        count(lib, 3), 0, lib.zeros(0, dtype=lib.uint8), 5.0
    ),
    "vander of a number": lambda lib: lib.linalg.vander(scalar(lib, 3.0), N=3),
    "vander of a number alone": lambda lib: lib.linalg.vander(scalar(lib, 3.0)),
    "batch_norm of nothing": lambda lib: lib.nn.functional.batch_norm(
        lib.zeros(0), None, None, training=True
    ),
    "batch_norm of nothing, by moments": lambda lib: lib.nn.functional.batch_norm(
        lib.zeros(0), lib.zeros(0), lib.ones(0)
    ),
    "batch_norm of a vector": lambda lib: lib.nn.functional.batch_norm(
        lib.zeros(5), None, None, training=True
    ),
    "local_response_norm": lambda lib: lib.nn.functional.local_response_norm(
        count(lib, 1, 3, 4, dtype="int64"), 2
    ),
    "local_response_norm of nothing": lambda lib: lib.nn.functional.local_response_norm(
        count(lib, 0, 3, 4, dtype="int64"), 2
    ),
    "float_power_": lambda lib: count(lib, 3).float_power_(2),
    **{
        f"float_power_ of {dtype}": lambda lib, dtype=dtype: lib.ones(
            3, dtype=getattr(lib, dtype)
        ).float_power_(2)
        for dtype in ("float32", "complex64", "complex128")
    },
    **{
        f"float_power into {dtype}": lambda lib, dtype=dtype: lib.float_power(
            count(lib, 3), 2, out=lib.empty(3, dtype=getattr(lib, dtype))
        )
        for dtype in ("float32", "float64")
    },
    **{
        f"{name} of {shape}": lambda lib, name=name, shape=shape: getattr(lib.nn.functional, name)(
            lib.ones(shape), lib.zeros(shape if "label" in name else shape[:-1], dtype=lib.int64)
        )
        for name in ("multi_margin_loss", "multilabel_margin_loss")
        for shape in ((2, 0), (0,), (0, 0), (2, 3, 0), (2, 1))
    },
    **{
        f"masked.logsumexp of {dtype} as {to}": lambda lib, dtype=dtype, to=to: _masked(lib).logsumexp(
            count(lib, 2, 3, dtype=dtype), 1, dtype=to and getattr(lib, to), mask=count(lib, 2, 3) % 2 > 0
        )
        for dtype in ("int64", "int32", "float32")
        for to in (None, "int64", "float64")
    },
    "float_power_ of ints": lambda lib: count(lib, 3, dtype="int64").float_power_(0.5),
    **{
        f"{name}_ into {shape}": lambda lib, name=name, shape=shape, ndims=ndims: getattr(
            lib.ones(shape), f"{name}_"
        )(*(count(lib, *[2, 3, 3][3 - ndim :], dtype="float32") for ndim in ndims))
        for name, ndims in {
            "addbmm": (3, 3),
            "baddbmm": (3, 3),
            "addmm": (2, 2),
            "addmv": (2, 1),
            "addr": (1, 1),
            "addcmul": (2, 2),
            "addcdiv": (2, 2),
        }.items()
        for shape in ((1,), (1, 1), (), (3,), (3, 3), (2,))
    },
    "addbmm_ of one item": lambda lib: lib.tensor([[1.0]]).addbmm_(lib.ones(2, 1, 3), lib.ones(2, 3, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_at_a_corner_gives_what_it_gives_in_torch(assert_agrees, name):
    assert_agrees(CALLS[name])


@pytest.mark.parametrize("function", ["linalg.norm", "linalg.vector_norm", "linalg.matrix_norm", "norm"])
def test_the_norm_of_no_items_is_that_of_torch(assert_agrees, function):
    for order, shape, dim in itertools.product(ORDERS, NO_ITEMS, (None, 0, -1, (0, 1))):
        is_meant = {
            "vector": not isinstance(order, (str, type(None))),
            "matrix": order is not None and dim == (0, 1),
        }
        if len(shape) > 1 and is_meant.get(function[7:13], order is not None):

            def call(lib, order=order, shape=shape, dim=dim):
                find = lib.linalg if "." in function else lib
                return getattr(find, function.removeprefix("linalg."))(lib.zeros(shape), order, dim)

            assert_agrees(call)


@pytest.mark.parametrize(
    "name", ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "hfftn", "ihfftn"]
)
def test_a_transform_of_a_number_is_refused_as_torch_refuses_it(assert_agrees, name):
    for dim in ((0,), (-1,), (), (0, 1)):
        assert_agrees(
            lambda lib, dim=dim: lib.view_as_real(getattr(lib.fft, name)(scalar(lib, 1.0), dim=dim) + 0j)
        )
    assert_agrees(lambda lib: getattr(lib.fft, name)(lib.ones(4, 4, dtype=lib.float16)))


def test_istft_with_a_real_result_reads_one_half_of_the_frequencies(assert_agrees):
    def program(lib):
        spectra = lib.complex(lib.arange(60.0).reshape(10, 6).sin(), lib.arange(60.0).reshape(10, 6).cos())
        return lib.istft(spectra, 10, center=False, window=lib.ones(10))

    assert_agrees(program)
