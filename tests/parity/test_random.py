"""Random ops on torch and on oplib: shapes, dtypes, what is recorded, and what is refused with which error.

The numbers themselves are others: a seed means something else there.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oplib
import oplib.nn.functional  # noqa: F401  as torch.nn.functional is there
from tests.builtin.samples.random import IMAGE

torch = pytest.importorskip("torch")
NAMES = {"int64": "int32", "float64": "float32", "complex128": "complex64"}  # without 64 bits


def describe(lib: Any, call: Callable[[Any], Any]) -> Any:
    """What can be compared of a result: shape, dtype, history; or of the error, its builtin classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = call(lib)
        except Exception as error:  # noqa: BLE001  whatever it is, it is compared
            return type(error) if lib is torch else type(error).__mro__
    if not isinstance(made, (torch.Tensor, oplib.Tensor)):
        return made
    dtype = str(made.dtype).rpartition(".")[2]
    return tuple(made.shape), NAMES.get(dtype, dtype), made.requires_grad


def assert_alike(call: Callable[[Any], Any]) -> None:
    expected, found = describe(torch, call), describe(oplib, call)
    if isinstance(expected, type):
        assert isinstance(found, tuple), f"torch raises {expected}, oplib gives {found}"
        assert expected in found
    else:
        assert found == expected


def leaf(lib: Any, *shape: int) -> Any:
    return lib.full(shape, 0.5, requires_grad=True)


def goes_on(lib: Any, duplicate: Callable[[Any], Any]) -> list[bool]:
    """Whether a duplicate of a Generator draws what its original draws, and leaves that where it stands."""
    first = lib.Generator().manual_seed(3)
    lib.rand(2, generator=first)
    second = duplicate(first)
    drawn = [lib.rand(2, generator=one).tolist() for one in (first, second, second)]
    return [drawn[0] == drawn[1], drawn[1] == drawn[2], second.initial_seed() == 3]


CALLS: dict[str, Callable[[Any], Any]] = {
    "randperm": lambda lib: lib.randperm(4),
    "a pickled Generator": lambda lib: goes_on(lib, lambda one: pickle.loads(pickle.dumps(one))),
    "a copied Generator": lambda lib: goes_on(lib, copy.deepcopy),
    "randperm of none": lambda lib: lib.randperm(0),
    "randperm in floats": lambda lib: lib.randperm(4, dtype=lib.float32, requires_grad=True),
    "rand, complex": lambda lib: lib.rand(2, dtype=lib.complex64),
    "bernoulli": lambda lib: lib.bernoulli(leaf(lib, 3)),
    "bernoulli, out=": lambda lib: lib.bernoulli(lib.zeros(3), out=lib.ones(3)),
    "bernoulli of a number": lambda lib: lib.bernoulli(lib.tensor([0, 1]), 0.5),
    "bernoulli, method": lambda lib: leaf(lib, 3).bernoulli(0.5),
    "bernoulli_ of integers": lambda lib: lib.zeros(3, dtype=lib.int32).bernoulli_(),
    "bernoulli_ of a tensor": lambda lib: lib.zeros(3, 2).bernoulli_(lib.tensor([0.5, 1.0])),
    "multinomial": lambda lib: lib.multinomial(leaf(lib, 2, 3), 2),
    "multinomial of a row": lambda lib: lib.ones(3).multinomial(5, True),
    "multinomial of no rows": lambda lib: lib.multinomial(lib.ones(0, 3), 1),
    "multinomial of halves": lambda lib: lib.multinomial(lib.ones(3, dtype=lib.float16), 2),
    "normal": lambda lib: lib.normal(leaf(lib, 2, 1), leaf(lib, 3)),
    "normal of a mean": lambda lib: lib.normal(leaf(lib, 2)),
    "normal of a deviation": lambda lib: lib.normal(mean=0.0, std=leaf(lib, 2)),
    "normal of numbers": lambda lib: lib.normal(0.0, 1.0, (2, 3)),
    "normal of numbers, named": lambda lib: lib.normal(mean=0.0, std=1.0, size=(2,), requires_grad=True),
    "normal of two dtypes": lambda lib: lib.normal(lib.zeros(2, dtype=lib.float16), lib.ones(2)),
    "normal, complex": lambda lib: lib.normal(lib.zeros(2, dtype=lib.complex64), 1.0),
    "random_ of bools": lambda lib: lib.zeros(3, dtype=lib.bool).random_(),
    "geometric_ of integers": lambda lib: lib.zeros(3, dtype=lib.uint8).geometric_(0.5),
    "uniform_, named": lambda lib: lib.zeros(3).uniform_(**{"from": 1, "to": 2}),
    "uniform_, complex": lambda lib: lib.zeros(3, dtype=lib.complex64).uniform_(),
    "exponential_ of infinity": lambda lib: lib.zeros(2).exponential_(float("inf")).tolist(),
    "normal of no deviation": lambda lib: lib.normal(2.0, 0.0, (2,)).tolist(),
}
ERRORS: dict[str, Callable[[Any], Any]] = {
    "randperm, negative": lambda lib: lib.randperm(-1),
    "randperm, no integer": lambda lib: lib.randperm(2.5),
    "randperm, narrow": lambda lib: lib.randperm(300, dtype=lib.uint8),
    "randperm, half": lambda lib: lib.randperm(3000, dtype=lib.float16),
    "randperm, bool": lambda lib: lib.randperm(2, dtype=lib.bool),
    "rand, integers": lambda lib: lib.rand(2, dtype=lib.int32),
    "randint, nothing": lambda lib: lib.randint(5, 5, (2,)),
    "randint, narrow": lambda lib: lib.randint(0, 300, (2,), dtype=lib.uint8),
    "no generator": lambda lib: lib.rand(2, generator=3),
    "manual_seed": lambda lib: lib.Generator().manual_seed("a"),
    "manual_seed, large": lambda lib: lib.Generator().manual_seed(2**64),
    "bernoulli, integers": lambda lib: lib.bernoulli(lib.tensor([0, 1])),
    "bernoulli, item": lambda lib: lib.bernoulli(lib.tensor([1.5])),
    "bernoulli, nan": lambda lib: lib.bernoulli(lib.tensor([float("nan")])),
    "bernoulli, number": lambda lib: lib.bernoulli(lib.zeros(3), 1.5),
    "bernoulli_, shape": lambda lib: lib.zeros(3, 2).bernoulli_(lib.tensor([0.1, 0.9, 0.3])),
    "bernoulli_, number": lambda lib: lib.zeros(3).bernoulli_(-0.5),
    "bernoulli_, complex": lambda lib: lib.zeros(2, dtype=lib.complex64).bernoulli_(),
    "multinomial, negative": lambda lib: lib.multinomial(lib.tensor([-1.0, 2.0]), 1),
    "multinomial, nan": lambda lib: lib.multinomial(lib.tensor([[1.0, 1.0], [float("nan"), 2.0]]), 1),
    "multinomial, infinite": lambda lib: lib.multinomial(lib.tensor([float("inf"), 2.0]), 1, True),
    "multinomial, zeros": lambda lib: lib.multinomial(lib.tensor([[1.0, 1.0], [0.0, 0.0]]), 1),
    "multinomial, many": lambda lib: lib.multinomial(lib.ones(2), 3),
    "multinomial, none": lambda lib: lib.multinomial(lib.ones(2), 0),
    "multinomial, axes": lambda lib: lib.multinomial(lib.ones(2, 2, 2), 1),
    "multinomial, integers": lambda lib: lib.multinomial(lib.tensor([1, 2]), 1),
    "normal, no size": lambda lib: lib.normal(0.0, 1.0),
    "normal, number": lambda lib: lib.normal(lib.zeros(2), -1.0),
    "normal, item": lambda lib: lib.normal(lib.zeros(2), lib.tensor([1.0, -1.0])),
    "normal, shapes": lambda lib: lib.normal(lib.zeros(2), lib.ones(3)),
    "normal, integers": lambda lib: lib.normal(lib.tensor([1, 2]), 1.0),
    "normal, complex": lambda lib: lib.normal(lib.zeros(2), lib.ones(2, dtype=lib.complex64)),
    "uniform_, range": lambda lib: lib.zeros(2).uniform_(2, 1),
    "uniform_, beyond float32": lambda lib: lib.zeros(2).uniform_(0, 1e39),
    "uniform_, beyond float16": lambda lib: lib.zeros(2, dtype=lib.float16).uniform_(-1e5, 0),
    "uniform_, beyond bfloat16": lambda lib: lib.zeros(2, dtype=lib.bfloat16).uniform_(-3e38, 3e38),
    "uniform_, beyond complex64": lambda lib: lib.zeros(2, dtype=lib.complex64).uniform_(0, 1e39),
    "uniform_, nan": lambda lib: lib.zeros(2).uniform_(float("nan"), 0),
    "normal_, nan": lambda lib: lib.zeros(2).normal_(0, float("nan")),
    "normal, nan": lambda lib: lib.normal(lib.zeros(2), lib.tensor([1.0, float("nan")])),
    "normal_, std": lambda lib: lib.zeros(2).normal_(0, -1),
    "exponential_, rate": lambda lib: lib.zeros(2).exponential_(0),
    "log_normal_, std": lambda lib: lib.zeros(2).log_normal_(0, 0),
    "geometric_, p": lambda lib: lib.zeros(2).geometric_(1),
    "cauchy_, sigma": lambda lib: lib.zeros(2).cauchy_(0, -1),
    "random_, nothing": lambda lib: lib.zeros(2).random_(5, 2),
    "random_, floats": lambda lib: lib.zeros(2).random_(2.5, 5),
    "random_, narrow": lambda lib: lib.zeros(2, dtype=lib.uint8).random_(300),
    "attention": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        lib.ones(1, 2, 4), lib.ones(1, 2, 4), lib.ones(1, 2, 4), dropout_p=1.5
    ),
}
FILLING = {
    "uniform_": (),
    "normal_": (),
    "exponential_": (),
    "log_normal_": (),
    "geometric_": (0.5,),
    "cauchy_": (),
    "random_": (),
    "bernoulli_": (),
}
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@pytest.mark.parametrize("case", CALLS)
def test_results_have_the_shape_dtype_and_history_of_torch(case: str) -> None:
    assert_alike(CALLS[case])


@pytest.mark.parametrize("case", ERRORS)
def test_what_torch_refuses_is_refused_with_its_error(case: str) -> None:
    assert isinstance(describe(torch, ERRORS[case]), type)
    assert_alike(ERRORS[case])


@pytest.mark.parametrize("name", FILLING)
@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64", "uint8", "leaf"])
def test_what_cannot_be_filled_is_refused_with_the_error_of_torch(name: str, dtype: str) -> None:
    def fill(lib: Any) -> Any:
        given = leaf(lib, 3) if dtype == "leaf" else lib.zeros(3, dtype=getattr(lib, dtype))
        return getattr(given, name)(*FILLING[name])

    assert_alike(fill)


@pytest.mark.parametrize("name", FILLING)
def test_filling_is_recorded_and_cuts_the_gradient_to_zeros(name: str) -> None:
    for lib in (torch, oplib):
        x = leaf(lib, 3)
        y = x * 1
        getattr(y, name)(*FILLING[name])
        assert y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_normal_and_bernoulli_give_zeros_to_what_they_are_drawn_from() -> None:
    for lib in (torch, oplib):
        mean, std = leaf(lib, 2), leaf(lib, 2)
        (lib.normal(mean, std) + lib.bernoulli(mean)).sum().backward()
        assert (mean.grad.tolist(), std.grad.tolist()) == ([0.0, 0.0], [0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", DROPOUTS)
def test_dropouts_take_the_ranks_probabilities_and_dtypes_of_torch(name: str) -> None:
    def call(shape: tuple[int, ...], p: float, training: bool, **kind: Any) -> Callable[[Any], Any]:
        return lambda lib: getattr(lib.nn.functional, name)(
            lib.ones(shape, **{key: getattr(lib, dtype) for key, dtype in kind.items()}), p, training
        )

    for rank in (1, 2, 3, 4, 5):
        assert_alike(call((2,) * rank, 0.5, True))
    for p in (-0.1, 0.0, 1.0, 1.1):
        assert_alike(call((2, 3, 2), p, True))
    assert_alike(call((2, 3, 2), -1.0, False))
    for dtype in ("int32", "complex64", "bfloat16"):
        assert_alike(call((2, 3, 2), 0.5, True, dtype=dtype))
    assert_alike(call((0, 3, 2), 0.5, True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DROPOUTS)
def test_dropouts_give_the_values_of_torch(name: str) -> None:
    """All values that come out in many draws are compared, and not which item gets which."""
    found: list[list[float]] = []
    for lib in (torch, oplib):
        x = lib.tensor(IMAGE[:1, :, :1].reshape(1, 3, 4).tolist())
        drop = getattr(lib.nn.functional, name)
        drawn = np.concatenate([np.asarray(drop(x, 0.5, True)).ravel() for _ in range(40)])
        found.append(np.unique(np.round(drawn.astype(np.float64), 3)).tolist())
    assert found[0] == pytest.approx(found[1])
