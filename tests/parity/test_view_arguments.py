"""Arguments of views: they are converted by the schema before a rule sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import oplib
from oplib.errors import ArgumentError, ConcreteValueError

CALLS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "narrow, dim": (lambda x, n: x.narrow(n, 0, 2), 1),
    "narrow, start": (lambda x, n: x.narrow(1, n, 2), 1),
    "narrow, length": (lambda x, n: x.narrow(1, 0, n), 1),
    "select, dim": (lambda x, n: x.select(n, 1), 1),
    "select, index": (lambda x, n: x.select(1, n), 1),
    "diagonal, offset": (lambda x, n: x.diagonal(n, 0, 1), 1),
    "diagonal, dim1": (lambda x, n: x.diagonal(0, n, 2), 1),
    "diagonal, dim2": (lambda x, n: x.diagonal(0, 0, n), 1),
    "unfold, dim": (lambda x, n: x.unfold(n, 2, 1), 1),
    "unfold, size": (lambda x, n: x.unfold(1, n, 1), 2),
    "unfold, step": (lambda x, n: x.unfold(1, 2, n), 1),
    "view": (lambda x, n: x.view(n, -1), 2),
    "view, list": (lambda x, n: x.view([n, -1]), 2),
    "reshape": (lambda x, n: x.reshape(n, 24), 2),
    "unflatten, dim": (lambda x, n: x.unflatten(n, (2, 3)), 1),
    "unflatten, sizes": (lambda x, n: x.unflatten(1, (n, 3)), 2),
    "flatten, start": (lambda x, n: x.flatten(n), 1),
    "flatten, end": (lambda x, n: x.flatten(0, n), 1),
    "permute": (lambda x, n: x.permute(n, 0, 2), 1),
    "expand": (lambda x, n: x[:, :1].expand(4, n, 2), 3),
    "broadcast_to": (lambda x, n: x[:, :1].broadcast_to((4, n, 2)), 3),
    "transpose": (lambda x, n: x.transpose(n, 0), 1),
    "movedim": (lambda x, n: x.movedim(n, 0), 1),
    "squeeze": (lambda x, n: x[:, :1].squeeze(n), 1),
    "unsqueeze": (lambda x, n: x.unsqueeze(n), 1),
    "as_strided, size": (lambda x, n: x.as_strided((n, 2), (6, 1)), 2),
    "as_strided, stride": (lambda x, n: x.as_strided((2, 2), (n, 1)), 2),
    "as_strided, offset": (lambda x, n: x.as_strided((2, 2), (2, 1), n), 1),
    "split": (lambda x, n: x.split(n)[1], 1),
    "split, sizes": (lambda x, n: x.split([n, 3])[0], 1),
    "split, dim": (lambda x, n: x.split(2, n)[1], 1),
    "chunk": (lambda x, n: x.chunk(n)[1], 2),
    "unbind": (lambda x, n: x.unbind(n)[1], 1),
    "tensor_split": (lambda x, n: x.tensor_split(n, 1)[0], 2),
    "hsplit": (lambda x, n: x.hsplit(n)[0], 2),
    "index": (lambda x, n: x[:, n], 1),
    "slice": (lambda x, n: x[n:3], 1),
    "transpose_": (lambda x, n: (x * 1).transpose_(n, 0), 1),
    "unsqueeze_": (lambda x, n: (x * 1).unsqueeze_(n), 1),
    "as_strided_": (lambda x, n: (x * 1).as_strided_((n, 2), (6, 1)), 2),
    "flip": (lambda x, n: x.flip(n), 1),
    "tile": (lambda x, n: x.tile(n), 2),
}
KINDS: dict[str, Callable[[int], Any]] = {
    "Tensor": oplib.tensor,
    "array of jax": jnp.int32,
    "number of numpy": np.int64,
    "array of numpy": np.array,
}
EVERY_CALL = pytest.mark.parametrize(("call", "number"), CALLS.values(), ids=list(CALLS))


def make(lib: Any = oplib) -> Any:
    return lib.arange(48.0).reshape(4, 6, 2) * 1


@EVERY_CALL
@pytest.mark.parametrize("kind", KINDS)
def test_a_view_keeps_the_number_that_its_argument_was(call: Any, number: int, kind: str) -> None:
    want = call(make(torch), number)
    given = KINDS[kind](number)
    view = call(make(), given)
    if kind in ("Tensor", "array of numpy"):
        given += 1
    assert tuple(view.shape) == tuple(want.shape)
    assert view.tolist() == want.tolist()


@EVERY_CALL
def test_the_gradient_and_a_program_use_that_number_too(call: Any, number: int) -> None:
    x, same = make(torch).requires_grad_(), make().requires_grad_()
    (call(x * 1, number) ** 2).sum().backward()
    given = oplib.tensor(number)
    view = call(same * 1, given)
    given += 1
    (view**2).sum().backward()
    assert same.grad is not None
    assert same.grad.tolist() == x.grad.tolist()

    def step(x: Any) -> Any:
        given = oplib.tensor(number)
        view = call(x, given)
        given += 1
        return view

    assert oplib.jit(step)(make()).tolist() == call(make(), number).tolist()


def test_a_write_goes_to_the_items_that_the_view_showed_first() -> None:
    x, start = make(), oplib.tensor(1)
    window = x.narrow(1, start, 2)
    start += 2
    window.zero_()
    want = make(torch)
    want.narrow(1, 1, 2).zero_()
    assert x.tolist() == want.tolist()


def test_windows_along_a_moving_start_with_a_compiled_backward() -> None:
    x, start, windows = make().requires_grad_(), oplib.tensor(0), []
    with oplib.autograd.compiled_autograd.enable():
        for number in range(3):
            windows.append(x.narrow(1, start, 2) * (number + 1))
            start += 2
        sum(window.sum() for window in windows).backward()
    assert x.grad is not None
    assert x.grad[0, :, 0].tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("name", ["narrow, start", "select, index", "view", "diagonal, offset", "split"])
def test_a_traced_number_is_refused_at_the_line_that_needs_it(name: str) -> None:
    call, number = CALLS[name]
    with pytest.raises(ConcreteValueError, match=r"is needed while the function is compiled at .*test_view"):
        oplib.jit(lambda x, n: call(x, n))(make(), oplib.tensor(number))


def test_a_traced_index_stays_an_operand() -> None:
    picked = oplib.jit(lambda x, n: x[n])
    assert [picked(make(), oplib.tensor(n)).tolist() for n in (0, 2)] == [make()[n].tolist() for n in (0, 2)]
    assert picked.compilations == 1


def test_a_start_of_narrow_is_a_whole_number_without_dims() -> None:
    for start in (oplib.tensor([1]), oplib.tensor(1.0), np.array(True)):
        with pytest.raises(ArgumentError, match="start must be an 0-dim integral Tensor"):
            make().narrow(1, start, 2)


@pytest.mark.parametrize("low", [0.0, -1.0, float("nan"), float("-inf")])
@pytest.mark.parametrize("high", [float("nan"), float("inf")])
def test_bounds_of_uniform_are_finite(low: float, high: float) -> None:
    for lib in (torch, oplib):
        with pytest.raises(RuntimeError):
            lib.zeros(2).uniform_(low, high)


@pytest.mark.parametrize("flag", [True, False])
def test_a_constant_mask_without_dims_works_in_a_program(flag: bool) -> None:
    x, same = make(torch)[0, 0], make()[0, 0]
    got = oplib.jit(lambda x: x[oplib.tensor(flag)])(same)
    assert (got.tolist(), tuple(got.shape)) == (
        x[torch.tensor(flag)].tolist(),
        tuple(x[torch.tensor(flag)].shape),
    )

    def write(lib: Any, x: Any) -> Any:
        x = x * 1
        x[lib.tensor(flag)] = 5.0
        return x

    assert oplib.jit(lambda x: write(oplib, x))(same).tolist() == write(torch, x).tolist()
