"""The built-in ops on torch and on oplib: values, dtypes, gradients and kinds of errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")

Program = Callable[..., Any]
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
TOLERANCE = {
    "float64": 1e-11,
    "float32": 2e-6,
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "complex128": 1e-11,
    "complex64": 1e-5,
}
SHAPES = [(2, 3), (), (3,), (0, 3)]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, "int64", "int32", "uint8", "bool"]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Small numbers with zeros, ties and signs among them, as nested lists."""
    rng = np.random.default_rng(seed + len(shape))
    values = rng.integers(-4, 5, shape) / (2 if "float" in dtype else 1)
    if dtype in ("uint8", "bool"):
        values = abs(values)
    return (
        np.asarray(values)
        .astype("bool" if dtype == "bool" else "float64" if "float" in dtype else "int64")
        .tolist()
    )


def make(lib: Any, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    tensor = lib.tensor(draw(shape, dtype, seed), dtype=getattr(lib, dtype)).reshape(shape).clone()
    return tensor.detach().requires_grad_("float" in dtype)


def name_dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def read(tensor: Any) -> np.ndarray:
    if hasattr(tensor, "array"):
        return np.asarray(
            tensor.detach().to(oplib.float64 if "float" in name_dtype(tensor) else tensor.dtype).array
        )
    return tensor.detach().to(torch.float64 if "float" in name_dtype(tensor) else tensor.dtype).numpy()


def run(lib: Any, program: Program, operands: list[tuple[tuple[int, ...], str]]) -> Any:
    """Runs a program and differentiates what it gives; an error is given as its builtin kinds."""
    tensors = [make(lib, shape, dtype, seed) for seed, (shape, dtype) in enumerate(operands)]
    try:
        result = program(lib, *tensors)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        floating = [one for one in results if one.requires_grad]
        weights = [lib.ones(tuple(one.shape), dtype=one.dtype) * 0.75 for one in floating]
        if floating:
            lib.autograd.backward(floating, weights)
    except Exception as error:  # noqa: BLE001  whatever it is, the other must raise it too
        return {kind.__name__ for kind in ERRORS if isinstance(error, kind)} or {type(error).__name__}, error
    return results, [tensor.grad for tensor in tensors]


def assert_as_torch(program: Program, *operands: tuple[tuple[int, ...], str]) -> None:
    theirs, ours = run(torch, program, list(operands)), run(oplib, program, list(operands))
    if isinstance(theirs[0], set):
        assert isinstance(ours[0], set), f"{operands}: torch raised {theirs[1]!r}, oplib gave {ours}"
        assert theirs[0] & ours[0], f"{operands}: torch raised {theirs[1]!r}, oplib {ours[1]!r}"
        return
    if isinstance(ours[0], set):
        raise AssertionError(f"{operands}: torch gave {theirs}") from ours[1]
    for what, mine, its in [("results", ours[0], theirs[0]), ("gradients", ours[1], theirs[1])]:
        assert len(mine) == len(its)
        for one, other in zip(mine, its, strict=True):
            assert_alike(one, other, [dtype for _, dtype in operands], f"{operands}: {what}")


def assert_alike(mine: Any, its: Any, dtypes: list[str], label: str) -> None:
    """Compares two tensors, as exactly as the least exact dtype among theirs and the operands' allows."""
    assert (mine is None) == (its is None), f"{label}: {mine} for {its}"
    if its is None:
        return
    assert name_dtype(mine) == name_dtype(its), label
    assert tuple(mine.shape) == tuple(its.shape), label
    tolerance = max(TOLERANCE.get(dtype, 0) for dtype in (*dtypes, name_dtype(its)))
    np.testing.assert_allclose(read(mine), read(its), rtol=tolerance, atol=tolerance, err_msg=label)


def choose(of: list[Any], dtype: str) -> list[Any]:
    """All shapes for float32, two for other dtypes: no answer depends on dtype and shape together."""
    return of if dtype == "float32" else of[:2]


# Pointwise --------------------------------------------------------------------------------------------------

UNARY = ["neg", "abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu", "clone"]
BINARY: dict[str, Program] = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "pow": lambda lib, x, y: abs(x) ** y if "float" in name_dtype(x) else x ** abs(y),
    "max": lambda lib, x, y: lib.max(x, y),
    **{
        name: lambda lib, x, y, name=name: getattr(lib, name)(x, y)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    "add alpha": lambda lib, x, y: lib.add(x, y, alpha=2),
    "sub alpha": lambda lib, x, y: x.sub(y, alpha=0.5),
    "where": lambda lib, x, y: lib.where(x > 0, x, y),
}
PAIRS = [((2, 3), (3,)), ((), (2,)), ((2, 1), (3,)), ((2, 3), (4,)), ((0, 3), (1, 3))]
NUMBERS = [2, 0, -1, 0.5, 2.0, True]
WITH_NUMBER: dict[str, Program] = {
    "x + n": lambda lib, x, n: x + n,
    "n - x": lambda lib, x, n: n - x,
    "x - n": lambda lib, x, n: x - n,
    "x * n": lambda lib, x, n: n * x,
    "x / n": lambda lib, x, n: x / n,
    "n / x": lambda lib, x, n: n / x,
    "x ** n": lambda lib, x, n: x**n,
    "n ** x": lambda lib, x, n: n**x,
    "x == n": lambda lib, x, n: x == n,
    "x > n": lambda lib, x, n: x > n,
    "x <= n": lambda lib, x, n: x <= n,
    "where": lambda lib, x, n: lib.where(x != 0, x, n),
    "where n": lambda lib, x, n: lib.where(x != 0, n, x),
}


@pytest.mark.matrix(5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tensor_is_torchs(name, dtype):
    for shape in choose(SHAPES, dtype):
        assert_as_torch(lambda lib, x: getattr(x, name)(), (shape, dtype))


@pytest.mark.matrix(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_tensors_is_torchs(name, dtype):
    for first, second in choose(PAIRS, dtype):
        assert_as_torch(BINARY[name], (first, dtype), (second, dtype))


MIXED = [
    ("float32", "float16"),
    ("bfloat16", "float16"),
    ("float16", "float64"),
    ("int32", "bfloat16"),
    ("uint8", "int8"),
]


@pytest.mark.parametrize("name", ["add", "div", "eq", "where", "max"])
def test_two_dtypes_meet_as_in_torch(name):
    for first, second in [
        *MIXED,
        *[(second, first) for first, second in MIXED],
        ("bool", "float32"),
        ("int64", "bool"),
    ]:
        if name == "div" and first == "bool":
            continue  # XLA makes 0 of False / 0.0
        for shapes in [((2,), (2,)), ((), (2,)), ((2,), ())]:
            assert_as_torch(BINARY[name], (shapes[0], first), (shapes[1], second))


@pytest.mark.matrix(5)
@pytest.mark.parametrize(
    ("name", "number"),
    # torch fails with an internal error for True ** x
    [
        pair
        for pair in itertools.product(WITH_NUMBER, NUMBERS)
        if pair != ("n ** x", True) or pair[1] is not True
    ],
)
def test_a_tensor_and_a_number_meet_as_in_torch(name, number):
    for dtype, shape in [
        ("float32", (2, 3)),
        ("float16", (3,)),
        ("float16", ()),
        ("int32", (3,)),
        ("bool", (2, 1)),
    ]:
        assert_as_torch(lambda lib, x: WITH_NUMBER[name](lib, x, number), (shape, dtype))


# Reduction, movement, joining, products ---------------------------------------------------------------------

ONE: dict[str, Program] = {
    "sum": lambda lib, x: x.sum(),
    "sum dim": lambda lib, x: x.sum(0),
    "sum dims": lambda lib, x: x.sum((0, -1), keepdim=True),
    "sum dtype": lambda lib, x: x.sum(-1, dtype=lib.float64),
    "sum no dims": lambda lib, x: lib.sum(x, ()),
    "sum twice": lambda lib, x: x.sum((0, 0)),
    "sum far": lambda lib, x: x.sum(5),
    "mean": lambda lib, x: x.mean(),
    "mean dim": lambda lib, x: x.mean(-1, True),
    "mean dtype": lambda lib, x: x.mean(dtype=lib.float32),
    "max": lambda lib, x: x.max(),
    "max dim": lambda lib, x: x.max(0),
    "max keepdim": lambda lib, x: x.max(-1, keepdim=True),
    "max values": lambda lib, x: lib.max(x, dim=-1).values * 2,
    "max far": lambda lib, x: x.max(3),
    "reshape": lambda lib, x: x.reshape(-1),
    "reshape more": lambda lib, x: x.reshape(3, -1, 1),
    "reshape wrong": lambda lib, x: x.reshape(4, 7),
    "reshape open twice": lambda lib, x: x.reshape(-1, -1),
    "view": lambda lib, x: x.view((3, 2)),
    "transpose": lambda lib, x: x.transpose(0, -1) * 1,
    "transpose far": lambda lib, x: x.transpose(0, 2),
    "t": lambda lib, x: x.t() * 1,
    "permute": lambda lib, x: lib.permute(x, (1, 0)),
    "expand": lambda lib, x: x.expand(4, 2, 3),
    "expand open": lambda lib, x: x.expand(2, -1),
    "expand wrong": lambda lib, x: x.expand(5),
    "squeeze": lambda lib, x: lib.squeeze(x),
    "squeeze dim": lambda lib, x: lib.squeeze(x, 1),
    "unsqueeze": lambda lib, x: lib.unsqueeze(x, -1),
    "unsqueeze far": lambda lib, x: lib.unsqueeze(x, 4),
    "cat": lambda lib, x: lib.cat([x, x * 2], -1),
    "cat wrong": lambda lib, x: lib.cat([x, lib.ones(5, 5, 5)]),
    "cat nothing": lambda lib, x: lib.cat([]),
    "cat dtypes": lambda lib, x: lib.cat((x, lib.ones_like(x, dtype=lib.float64))),
    "stack": lambda lib, x: lib.stack([x, x * 2], 1),
    "stack wrong": lambda lib, x: lib.stack([x, lib.ones(7)]),
    "zeros_like": lambda lib, x: lib.zeros_like(x),
    "ones_like": lambda lib, x: lib.ones_like(x, dtype=lib.float64),
    "detach": lambda lib, x: x.detach(),
    "to": lambda lib, x: x.to(lib.float64),
    "to half": lambda lib, x: x.to(lib.float16),
    "to int": lambda lib, x: x.to(lib.int32),
    "to bool": lambda lib, x: x.to(lib.bool),
    "sum to size": lambda lib, x: lib.ones_like(x, dtype=x.dtype).mul(x).reshape(-1).sum(0),
    "iterate": lambda lib, x: [row * 2 for row in x],
}
MATRICES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 1, 2, 3), (4, 3, 1)),
    ((2, 3), (2, 3)),
    ((), (3,)),
    ((3,), (2,)),
    ((2, 0), (0, 3)),
]


@pytest.mark.matrix(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("name", ONE)
def test_a_call_with_one_tensor_is_torchs(name, dtype):
    for shape in choose(SHAPES, dtype):
        assert_as_torch(ONE[name], (shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_a_matrix_product_is_torchs(dtype):
    for first, second in MATRICES:
        assert_as_torch(lambda lib, x, y: x @ y, (first, dtype), (second, dtype))
        assert_as_torch(lambda lib, x, y: x.mm(y), (first, dtype), (second, dtype))


def test_a_matrix_product_takes_one_dtype_as_torchs():
    assert_as_torch(lambda lib, x, y: lib.matmul(x, y), ((2, 3), "float32"), ((3, 2), "float64"))
    assert_as_torch(lambda lib, x, y: x @ y, ((2, 3), "float32"), ((3, 2), "int64"))


# Subscripts -------------------------------------------------------------------------------------------------

SUBSCRIPTS: dict[str, Callable[[Any], Any]] = {
    "1": lambda lib: 1,
    "-1": lambda lib: -1,
    "2": lambda lib: 2,
    "-4": lambda lib: -4,
    "0, 1": lambda lib: (0, 1),
    ":": lambda lib: slice(None),
    "1:": lambda lib: slice(1, None),
    ":-1": lambda lib: slice(None, -1),
    "::2": lambda lib: slice(None, None, 2),
    "::-1": lambda lib: slice(None, None, -1),
    "5:": lambda lib: slice(5, None),
    ":, 1:3": lambda lib: (slice(None), slice(1, 3)),
    "..., 0": lambda lib: (..., 0),
    "...": lambda lib: ...,
    "None": lambda lib: None,
    "0, None, 1": lambda lib: (0, None, 1),
    "None, ..., None": lambda lib: (None, ..., None),
    "..., ...": lambda lib: (..., ...),
    "three": lambda lib: (0, 0, 0, 0),
    "list": lambda lib: [1, 0, 1],
    "places": lambda lib: lib.tensor([1, 0, -1]),
    "place": lambda lib: lib.tensor(1),
    "grid": lambda lib: lib.tensor([[1, 0], [0, 0]]),
    "two": lambda lib: (lib.tensor([1, 0]), lib.tensor([0, 2])),
    "two broadcast": lambda lib: (lib.tensor([[1], [0]]), lib.tensor([0, 2])),
    "two apart": lambda lib: (lib.tensor([1, 0]), None, lib.tensor([0, 2])),
    "number and places": lambda lib: (0, lib.tensor([0, 2])),
    "slice and places": lambda lib: (slice(0, 1), lib.tensor([0, 2])),
    "places and number": lambda lib: (lib.tensor([0, 1]), 1),
    "far place": lambda lib: lib.tensor([0, 9]),
    "no places": lambda lib: lib.tensor([], dtype=lib.int64),
    "mask": lambda lib: lib.tensor([True, False]),
    "whole mask": lambda lib: lib.tensor([[True, False, True], [False, True, False]]),
    "slice and mask": lambda lib: (slice(None), lib.tensor([True, False, True])),
    "wrong mask": lambda lib: lib.tensor([True, False, False, True, True]),
    "floats": lambda lib: lib.tensor([0.5]),
    "mismatch": lambda lib: (lib.tensor([0, 1]), lib.tensor([0, 1, 2])),
}


@pytest.mark.matrix(5)
@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_taking_items_out_is_torchs(name):
    for shape, dtype in [((2, 3), "float32"), ((3,), "int64"), ((2, 3, 4), "float32"), ((), "float32")]:
        assert_as_torch(lambda lib, x: x[SUBSCRIPTS[name](lib)] * 1, (shape, dtype))


@pytest.mark.matrix(5)
@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_putting_a_number_in_is_torchs(name):
    def program(lib: Any, x: Any) -> Any:
        y = x * 1
        y[SUBSCRIPTS[name](lib)] = 7
        return y * x

    for shape, dtype in [((2, 3), "float32"), ((3,), "int64"), ((2, 3, 4), "float32"), ((), "float32")]:
        assert_as_torch(program, (shape, dtype))


@pytest.mark.matrix(5)
@pytest.mark.parametrize(
    "name", sorted(SUBSCRIPTS.keys() - {"two broadcast", "grid", "list", "places"})
)  # no order
def test_putting_a_tensor_in_is_torchs(name):
    def program(lib: Any, x: Any, value: Any) -> Any:
        y = x * 2
        y[SUBSCRIPTS[name](lib)] = value
        return y * x

    for shape, value in [
        ((2, 3), ()),
        ((2, 3), (3,)),
        ((2, 3), (1, 2)),
        ((2, 3), (4,)),
        ((3,), ()),
        ((3,), (3,)),
    ]:
        assert_as_torch(program, (shape, "float32"), (value, "float32"))


# In place ---------------------------------------------------------------------------------------------------

IN_PLACE: dict[str, Program] = {
    "add_": lambda lib, x, y: (x * 1).add_(y),
    "add_ alpha": lambda lib, x, y: (x * 1).add_(y, alpha=2),
    "sub_": lambda lib, x, y: (x * 1).sub_(y),
    "mul_": lambda lib, x, y: (x * 1).mul_(y),
    "div_": lambda lib, x, y: (x * 1).div_(y),
    "pow_": lambda lib, x, y: (abs(x) + 1).pow_(y),
    "+=": lambda lib, x, y: grow(x * 1, y),
    "copy_": lambda lib, x, y: (x * 1).copy_(y),
    "fill_": lambda lib, x, y: (x * 1.0).fill_(y.sum()),
    "fill_ tensor": lambda lib, x, y: (x * 1.0).fill_(y),
    "number": lambda lib, x, y: (x * 1).mul_(2.5).add_(1),
    "zero_": lambda lib, x, y: (x * 1).zero_() + y,
    **{
        f"{name}_": lambda lib, x, y, name=name: getattr(abs(x) + y * y + 1, f"{name}_")()
        for name in ("neg", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu")
    },
    "a leaf": lambda lib, x, y: x.add_(y),
    "a leaf by setitem": lambda lib, x, y: x.__setitem__(..., y),
    "twice": lambda lib, x, y: (x * 1).mul_(y).mul_(y).exp_().mul_(0.5),
    "saved before": lambda lib, x, y: saved_before(x, y),
    "saved before unread": lambda lib, x, y: saved_unread(x, y),
    "of a constant": lambda lib, x, y: lib.zeros(2, 3).add_(x).mul_(y),
    "after detach": lambda lib, x, y: through_detached(x, y),
}


def grow(x: Any, y: Any) -> Any:
    x += y
    return x


def saved_before(x: Any, y: Any) -> Any:
    z = x * 1
    product = z * y
    z.add_(1)
    return product


def saved_unread(x: Any, y: Any) -> Any:
    z = x * 1
    total = z + y
    z.mul_(3)
    return total * z


def through_detached(x: Any, y: Any) -> Any:
    z = x * 1
    product = z * y
    z.detach().zero_()
    return product


@pytest.mark.matrix(5)
@pytest.mark.parametrize(
    "dtypes", [("float32", "float32"), ("float16", "float32"), ("int32", "float32"), ("int64", "int32")]
)
@pytest.mark.parametrize("name", IN_PLACE)
def test_writing_in_place_is_torchs(name, dtypes):
    for first, second in choose([((2, 3), (3,)), ((), ()), ((3,), (2, 3))], dtypes[0]):
        assert_as_torch(IN_PLACE[name], (first, dtypes[0]), (second, dtypes[1]))
