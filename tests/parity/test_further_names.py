"""``axis`` and ``keepdims``, which torch takes for ``dim`` and ``keepdim``, on torch and on oplib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.registry import FUNCTIONS
from oplib.errors import ArgumentTypeError

torch = pytest.importorskip("torch")
Program = Callable[[Any], Any]
GRID = [[3.0, 1.0, 2.0], [0.5, 5.0, 4.0]]


def grid(lib: Any) -> Any:
    return lib.tensor(GRID)


# Functions by how they are called besides the axis; each is tried at the root, and as a method if it is one.
CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "all", "any", "nansum"), ()),
    **dict.fromkeys(
        ("logsumexp", "cumsum", "cumprod", "cummax", "logcumsumexp", "softmax", "log_softmax"), ()
    ),
    **dict.fromkeys(("max", "min", "median", "mode", "sort", "argsort", "std", "var", "count_nonzero"), ()),
    **dict.fromkeys(("squeeze", "unsqueeze", "unbind", "diff"), ()),
    **dict.fromkeys(("topk", "kthvalue"), (1,)),
    "chunk": (2,),
    "narrow": (0, 1),
    "select": (0,),
    "quantile": (0.5,),
}
NARROWED = {"narrow": ("start", "length"), "select": ("index",)}  # what stands after dim is given by name
KEEPING = ("sum", "mean", "amax", "argmin", "all", "logsumexp", "max", "median", "var", "quantile")


def call(lib: Any, name: str, *, method: bool, **named: Any) -> Any:
    rest = CALLS[name]
    named |= dict(zip(NARROWED.get(name, ()), rest, strict=False))
    rest = () if name in NARROWED else rest
    if method:
        result = getattr(grid(lib), name)(*rest, **named)
    else:
        result = getattr(lib, name)(grid(lib), *rest, **named)
    return tuple(result) if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("method", [False, True], ids=["function", "method"])
def test_an_axis_is_a_dim(name: str, method: bool, assert_agrees: Any) -> None:
    for _ in range(2):  # the complete path, then the fast path if there is one
        assert_agrees(lambda lib: call(lib, name, method=method, axis=1))


@pytest.mark.parametrize("name", KEEPING)
def test_keepdims_is_keepdim(name: str, assert_agrees: Any) -> None:
    assert_agrees(lambda lib: call(lib, name, method=True, axis=0, keepdims=True))
    assert_agrees(lambda lib: call(lib, name, method=False, dim=0, keepdims=True))


PROGRAMS: dict[str, Program] = {
    "several axes": lambda lib: grid(lib).mean(axis=(0, 1)),
    "an axis and out=": lambda lib: lib.sum(grid(lib), axis=0, out=lib.empty(0)),
    "cat": lambda lib: lib.cat([grid(lib), grid(lib)], axis=1),
    "stack": lambda lib: lib.stack([grid(lib), grid(lib)], axis=1),
    "gather": lambda lib: lib.gather(grid(lib), axis=1, index=lib.tensor([[0], [2]])),
    "index_select": lambda lib: grid(lib).index_select(axis=1, index=lib.tensor([2])),
    "a place that is not there": lambda lib: lib.gather(grid(lib), axis=1, index=lib.tensor([[3]])),
    "in place": lambda lib: grid(lib).cumsum_(axis=1),
    "a turn in place": lambda lib: grid(lib).unsqueeze_(axis=1).squeeze_(axis=1),
    "with a gradient": lambda lib: differentiate(lib),
    "both names": lambda lib: grid(lib).sum(dim=0, axis=0),
    "an unknown name": lambda lib: grid(lib).sum(axes=0),
    "no dim": lambda lib: lib.cumsum(grid(lib)),
    "a wrong axis": lambda lib: grid(lib).sum(axis=5),
    "no axis of that kind": lambda lib: grid(lib).sum(axis="x"),
    "one that has no dim": lambda lib: lib.exp(grid(lib), axis=0),
}


def differentiate(lib: Any) -> Any:
    x = lib.tensor(GRID, requires_grad=True)
    y = x.softmax(axis=0).amax(axis=1, keepdims=True)
    y.sum().backward()
    return y, x.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_an_axis_does_as_on_torch(name: str, assert_agrees: Any) -> None:
    assert_agrees(PROGRAMS[name])


def test_what_does_not_fit_is_said_in_our_words() -> None:
    x = grid(oplib)
    for _ in range(2):
        with pytest.raises(
            ArgumentTypeError, match=r"sum: 'dim' and 'axis' are one argument. Got 0 and 1. Give"
        ):
            x.sum(0, axis=1)
        with pytest.raises(
            ArgumentTypeError, match=r"sum\(\) got an unexpected keyword argument 'axes'. Got 0. Th"
        ):
            x.sum(axes=0)
        with pytest.raises(
            ArgumentTypeError,
            match=r"cumsum\(\) missing 1 required positional argument: 'dim'. Got input=f32\[2,3\]. "
            r"Give it: cumsum\(..., dim=...\)",
        ):
            x.cumsum()
        with pytest.raises(
            ArgumentTypeError, match=r"gather\(\) missing 1 required positional argument: 'index'"
        ):
            oplib.gather(x, axis=0)


def test_arrays_and_traces_take_an_axis() -> None:
    array = jnp.array(GRID)
    np.testing.assert_allclose(oplib.mean(array, axis=1), np.mean(GRID, axis=1), rtol=1e-6)
    summed = jax.jit(lambda a: oplib.sum(a, axis=0, keepdims=True))(array)
    np.testing.assert_allclose(summed, np.sum(GRID, axis=0, keepdims=True))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("rank", range(5))
def test_the_dim_of_a_softmax_may_be_left_out_with_a_warning(
    name: str, rank: int, assert_agrees: Any
) -> None:
    def call(lib: Any) -> Any:
        x = lib.arange(2**rank).to(lib.float32).reshape((2,) * rank)
        with pytest.warns(UserWarning, match=f"^Implicit dimension choice for {name} has been deprecated"):
            return getattr(lib.nn.functional, name)(x)

    assert_agrees(call)


def test_every_function_with_a_dim_takes_an_axis() -> None:
    def accepts(name: str) -> bool:
        names = list(FUNCTIONS[name].__code__.co_varnames[: count_parameters(FUNCTIONS[name])])
        return "dim" not in names or "names" in names or "axis" in names

    assert [name for name in FUNCTIONS if not accepts(name)] == []


def count_parameters(function: Any) -> int:
    code = function.__code__
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
