"""Sizes, dims and bounds by keyword: what torch takes is taken here, and what it refuses is a TypeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import oplib

torch = pytest.importorskip("torch")
Call = Callable[[Any, Any], Any]  # of a library and of its x, [2, 3]

NUMBERS: dict[str, Call] = {  # the results are compared with their values
    "zeros": lambda lib, x: lib.zeros(size=(2, 3)),
    "zeros, none": lambda lib, x: lib.zeros(size=()),
    "zeros, an empty list": lambda lib, x: lib.zeros([]),
    "zeros, a bool after an integer": lambda lib, x: lib.zeros(2, True),
    "randperm, a tensor": lambda lib, x: lib.randperm(lib.tensor(1)),
    "ones": lambda lib, x: lib.ones(size=[2, 3], dtype=lib.float32),
    "new_zeros": lambda lib, x: x.new_zeros(size=(2,)),
    "new_ones": lambda lib, x: x.new_ones(size=(2,)),
    "arange, end": lambda lib, x: lib.arange(end=4),
    "arange, start and end": lambda lib, x: lib.arange(start=1, end=4),
    "arange, all": lambda lib, x: lib.arange(start=1, end=6, step=2),
    "arange, mixed": lambda lib, x: lib.arange(1, end=6, step=2),
    "flip": lambda lib, x: x.flip(dims=[0]),
    "permute": lambda lib, x: x.permute(dims=(1, 0)),
    "reshape": lambda lib, x: x.reshape(shape=(3, 2)),
    "view": lambda lib, x: x.view(size=(3, 2)),
    "view as a dtype": lambda lib, x: x.view(dtype=lib.int32),
    "expand": lambda lib, x: x.expand(size=(2, 2, 3)),
    "repeat": lambda lib, x: x.repeat(repeats=(1, 2)),
    "tile": lambda lib, x: x.tile(dims=[1, 2]),
    "broadcast_to": lambda lib, x: x.broadcast_to(size=(2, 2, 3)),
    "sum_to_size": lambda lib, x: x.sum_to_size(size=(1, 3)),
}
SHAPES: dict[str, Call] = {  # the values are chance's, or nobody's
    "empty": lambda lib, x: lib.empty(size=(2,)),
    "new_empty": lambda lib, x: x.new_empty(size=(2,)),
    "rand": lambda lib, x: lib.rand(size=(2,)),
    "randn": lambda lib, x: lib.randn(size=[2, 3]),
    "randint, all": lambda lib, x: lib.randint(low=0, high=5, size=(2,)),
    "randint, size": lambda lib, x: lib.randint(0, 5, size=(2,)),
    "randint, size after high": lambda lib, x: lib.randint(5, size=(2,)),
    "randint, high": lambda lib, x: lib.randint(high=5, size=(2,)),
    "randint, low by position": lambda lib, x: lib.randint(0, high=5, size=(2,)),
    "randint_like, high": lambda lib, x: lib.randint_like(x, high=5),
    "randint_like, both": lambda lib, x: lib.randint_like(x, low=1, high=5),
    "randint_like, mixed": lambda lib, x: lib.randint_like(x, 1, high=5),
}
REFUSED: dict[str, Call] = {
    "zeros, twice": lambda lib, x: lib.zeros(2, size=(2,)),
    "ones, a number": lambda lib, x: lib.ones(size=2),
    "randn, twice": lambda lib, x: lib.randn(2, size=(2,)),
    "new_ones, twice": lambda lib, x: x.new_ones(2, size=(2,)),
    "randint, high twice": lambda lib, x: lib.randint(5, (2,), high=3),
    "randint, no high": lambda lib, x: lib.randint(low=3, size=(2,)),
    "randint, nothing": lambda lib, x: lib.randint(),
    "randint_like, no high": lambda lib, x: lib.randint_like(x, low=1),
    "randint_like, low twice": lambda lib, x: lib.randint_like(x, 1, 3, low=1),
    "arange, nothing": lambda lib, x: lib.arange(),
    **{
        f"{name}, nothing": lambda lib, x, name=name: getattr(lib, name)()
        for name in ("zeros", "ones", "empty", "rand", "randn")
    },
    **{
        f"{name}, nothing": lambda lib, x, name=name: getattr(x, name)()
        for name in ("new_zeros", "new_ones", "new_empty")
    },
    "zeros, but a dtype": lambda lib, x: lib.zeros(dtype=lib.float32),
    "zeros, a bool": lambda lib, x: lib.zeros(True),
    "full, a bool": lambda lib, x: lib.full((True, 2), 1.0),
    "eye, a bool": lambda lib, x: lib.eye(True),
    "randperm, a bool": lambda lib, x: lib.randperm(True),
    "flip, twice": lambda lib, x: x.flip(0, dims=[0]),
    "flip, a number": lambda lib, x: x.flip(dims=0),
    "permute, twice": lambda lib, x: x.permute(1, 0, dims=(1, 0)),
    "reshape, twice": lambda lib, x: x.reshape(6, shape=(6,)),
    "view, twice": lambda lib, x: x.view(6, size=(6,)),
    "view, size and dtype": lambda lib, x: x.view(size=(6,), dtype=lib.int32),
    "expand, twice": lambda lib, x: x.expand(2, 3, size=(2, 3)),
    "repeat, twice": lambda lib, x: x.repeat(1, 2, repeats=(1, 2)),
    "another op's keyword": lambda lib, x: x.repeat(dims=(1, 2)),
}


def see(lib: Any, call: Call) -> Any:
    return call(lib, lib.ones(2, 3))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_given_by_keyword_make_what_torch_makes(name):
    expected, found = see(torch, NUMBERS[name]), see(oplib, NUMBERS[name])
    assert (found.tolist(), tuple(found.shape)) == (expected.tolist(), tuple(expected.shape))


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_bounds_given_by_keyword_make_the_shape_that_torch_makes(name):
    expected, found = see(torch, SHAPES[name]), see(oplib, SHAPES[name])
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.is_floating_point() == expected.is_floating_point()


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_given_twice_or_not_at_all_is_a_type_error_as_in_torch(name):
    for lib in (torch, oplib):
        with pytest.raises(TypeError):
            see(lib, REFUSED[name])


def test_bounds_given_by_keyword_are_the_bounds():
    assert oplib.randint(low=3, high=4, size=(2,)).tolist() == [3, 3]
    assert oplib.randint(high=1, size=(2,)).tolist() == [0, 0]
    assert oplib.randint_like(oplib.ones(2), 3, high=4).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("of", "to"), [("float32", "int32"), ("int32", "float32"), ("float16", "float32"), ("bool", "uint8")]
)
def test_dtypes_are_given_by_torchs_names(of, to):
    for lib in (torch, oplib):
        first, second = getattr(lib, of), getattr(lib, to)
        assert lib.can_cast(from_=first, to=second) == lib.can_cast(first, second)
        assert lib.promote_types(type1=first, type2=second) == lib.promote_types(first, second)
    assert oplib.can_cast(from_=of, to=to) == torch.can_cast(from_=getattr(torch, of), to=getattr(torch, to))
