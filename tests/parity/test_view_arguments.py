"""Arguments of views: they are converted by the schema before a rule sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import oplib
from oplib.errors import ArgumentError, AutogradError, ConcreteValueError, TracingError

box = oplib.Tensor.from_array
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


@pytest.mark.parametrize(
    "name", ["narrow, length", "select, dim", "view", "diagonal, offset", "split", "slice"]
)
def test_a_traced_number_is_refused_at_the_line_that_needs_it(name: str) -> None:
    call, number = CALLS[name]
    with pytest.raises(ConcreteValueError, match=r"is needed while the function is compiled at .*test_view"):
        oplib.jit(lambda x, n: call(x, n))(make(), oplib.tensor(number))


def test_a_traced_index_stays_an_operand() -> None:
    picked = oplib.jit(lambda x, n: x[n])
    assert [picked(make(), oplib.tensor(n)).tolist() for n in (0, 2)] == [make()[n].tolist() for n in (0, 2)]
    assert picked.compilations == 1


SHOWS: dict[str, Callable[[Any, Any], Any]] = {
    "x[p]": lambda x, p: x[p],
    "x[p - 4]": lambda x, p: x[p - 4],
    "x[:, p]": lambda x, p: x[:, p],
    "x[::2, p]": lambda x, p: x[::2, p],
    "x[None, p]": lambda x, p: x[None, p],
    "x[..., p - 1]": lambda x, p: x[..., p - 1],
    "x[p, p]": lambda x, p: x[p, p],
    "x[1, p]": lambda x, p: x[1, p],
    "narrow": lambda x, p: x.narrow(0, p, 2),
    "narrow of a dim from the end": lambda x, p: x.narrow(-2, p - 2, 3),
    "narrow of all": lambda x, p: x.narrow(0, p * 0, 4),
    "select": lambda x, p: x.select(1, p),
    "view of a view": lambda x, p: x[p][1:].t()[p - 1],
    "view of another shape": lambda x, p: x[p].view(-1)[2:],
    "repeated": lambda x, p: x[p, None].expand(3, 6, 2),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "zero_": lambda x, p: x[p].zero_(),
    "fill_": lambda x, p: x[p].fill_(p),
    "narrow": lambda x, p: x.narrow(1, p, 2).mul_(3),
    "select": lambda x, p: x.select(2, p - 1).clamp_(max=5),
    "+=": lambda x, p: x.__setitem__(p, x[p].__iadd__(1)),
    "number": lambda x, p: x.__setitem__(p, 7),
    "row": lambda x, p: x.__setitem__(p, x[p - 1]),
    "item of a row": lambda x, p: x[p].__setitem__(p, 7),
    "several": lambda x, p: x.__setitem__((p, [0, 2]), 5),
    "after another": lambda x, p: write_both(x, x[p]),
    "from another": lambda x, p: x[p].add_(x[p - 1]),
    "detached": lambda x, p: x[p].detach().zero_(),
}


def write_both(x: Any, row: Any) -> None:
    x.add_(1)
    row.mul_(2)


def write(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(x: Any, p: Any) -> Any:
        x = x * 1
        change(x, p)
        return x

    return run


TRACED = pytest.mark.parametrize(
    "show", [*SHOWS.values(), *map(write, WRITES.values())], ids=[*SHOWS, *WRITES]
)
PAIRS = {
    "program": oplib.jit,
    "vmap": lambda f: lambda x, p: oplib.vmap(f)(oplib.stack([x, x]), oplib.stack([p, p]))[1],
    "scan": lambda f: lambda x, p: oplib.scan(lambda c, i: (c, f(c * 1, i)), x, p[None])[1][0],
    "jax.jit": lambda f: lambda x, p: box(jax.jit(lambda a, i: f(box(a), box(i)).array)(x.array, p.array)),
}


@TRACED
@pytest.mark.parametrize("wrap", PAIRS.values(), ids=PAIRS)
def test_a_view_may_start_at_a_traced_place(show: Any, wrap: Any) -> None:
    want = show(make(torch), torch.tensor(2))
    assert wrap(show)(make(), oplib.tensor(2)).tolist() == want.tolist()


@pytest.mark.slow
@TRACED
def test_its_gradients_are_those_of_torch(show: Any) -> None:
    x = make(torch).requires_grad_()
    (show(x * 1, torch.tensor(2)) ** 2).sum().backward()

    def differentiate(call: Any) -> Any:
        same = make().requires_grad_()
        (call(same * 1, oplib.tensor(2)) ** 2).sum().backward()
        return same.grad.tolist()

    def inside(x: Any, p: Any) -> Any:
        (grad,) = oplib.autograd.grad((show(x * 1, p) ** 2).sum(), [x], create_graph=True)
        return grad, oplib.autograd.grad((grad**2).sum(), [x])[0]

    assert x.grad is not None
    assert differentiate(oplib.jit(show)) == x.grad.tolist()
    assert differentiate(PAIRS["scan"](show)) == x.grad.tolist()
    pair = [oplib.jit(inside), inside]
    grads = [[one.tolist() for one in run(make().requires_grad_(), oplib.tensor(2))] for run in pair]
    assert grads[0] == grads[1]
    assert grads[0][0] == x.grad.tolist()
    of_jax = jax.grad(lambda a, i: (show(box(a) * 1, box(i)) ** 2).sum().array)
    assert jax.jit(of_jax)(make().array, oplib.tensor(2).array).tolist() == x.grad.tolist()


def test_one_program_serves_all_traced_places() -> None:
    step = oplib.jit(write(WRITES["+="]))
    for place in range(4):
        want = write(WRITES["+="])(make(torch), torch.tensor(place))
        assert step(make(), oplib.tensor(place)).tolist() == want.tolist()
    assert step.compilations == 1
    text = step.lower(make(), oplib.tensor(0)).as_text()
    assert text.count("dynamic_update_slice") == 1  # the value is not stored twice


def test_writes_at_a_traced_place_reach_captured_tensors_and_no_others() -> None:
    x, p = make(), oplib.tensor(2)
    oplib.jit(lambda p: x[p].zero_())(p)
    want = make(torch)
    want[2].zero_()
    assert x.tolist() == want.tolist()
    for store in (lambda i: x[box(i)].zero_(), lambda i: x.__setitem__(box(i), 7.0)):
        with pytest.raises(TracingError, match="stored in a tensor made outside this trace"):
            jax.jit(lambda i, store=store: store(i) and None)(p.array)
        with pytest.raises(TracingError, match="a tensor that is not mapped"):
            oplib.vmap(lambda p, store=store: store(p.array) and p)(oplib.arange(2))
    assert x.tolist() == want.tolist()


def test_a_result_that_a_program_gives_of_a_traced_place_cannot_be_written() -> None:
    x, p = make(), oplib.tensor(2)
    for step in (lambda x, p: x[p], lambda _, p: x.narrow(0, p, 2)):
        shown = oplib.jit(step)(x, p)
        assert shown.tolist() == step(make(), p).tolist()
        with pytest.raises(AutogradError, match="would not reach its base, because it is a copy"):
            shown.add_(1)
    own = oplib.jit(lambda x, p: (x * 1)[p])(x, p)
    assert own.add_(1).tolist() == (make()[2] + 1).tolist()


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
