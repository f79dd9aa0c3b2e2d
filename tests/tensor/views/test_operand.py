"""Views that compiled calls read themselves, beside the same programs without the fast path."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.config import config
from oplib.errors import AutogradError
from oplib.tensor.views import chain as chains
from tests.seed import SEED

Function = Callable[..., Any]
_CALLS = 6  # two are waited for, one writes the code of the fast path, and the rest are read in a program
_lengths = itertools.count(53)  # other tests may have read views of small matrices in programs

VIEWS: dict[str, Function] = {
    "view": lambda x: x.view(-1),
    "t": lambda x: x.t(),
    "select": lambda x: x[2],
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[::2],
    "diagonal": lambda x: x.diagonal(),
    "expand": lambda x: x[:1].expand(3, -1),
    "view of a view": lambda x: x.t()[1:].reshape(-1),
    "several": lambda x: x.chunk(2, 1)[1],
    "unfold": lambda x: x.unfold(0, 2, 1),
}
OPS: dict[str, Function] = {
    "number": lambda v: v * 2.0,
    "saved": lambda v: v.exp() + v.sin(),
    "twice": lambda v: v * v,
    "reduced": lambda v: v.sum(),
    "several results": lambda v: v.reshape(-1).max(0)[0] * 1.0,
    "product": lambda v: v.reshape(-1, 1) @ v.reshape(1, -1),
    "list": lambda v: oplib.cat([v, v * 3.0]),
}


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets new chains be read in programs at the third read. Each test has sizes of its own."""
    monkeypatch.setattr(chains, "_READS_BEFORE_PROGRAMS", 2)


@contextmanager
def no_fast_path() -> Generator[None]:
    """Turns the fast path off."""
    before = config.fast_path
    config.fast_path = False
    try:
        yield
    finally:
        config.fast_path = before


def make_values(rows: int = 4) -> np.ndarray[Any, Any]:
    """Makes a matrix whose number of columns no other test uses."""
    return np.random.default_rng(SEED).normal(size=(rows, next(_lengths))).astype(np.float32)


def call_often(call: Callable[[], Any]) -> Any:
    """Calls a function until programs read its views; returns its last result."""
    result = None
    for _ in range(_CALLS):
        result = None  # what lives is not read again
        result = call()
    return result


def count_programs(view: Any) -> int:
    """Counts the programs that read views like this one."""
    return view._storage.chain._program_count


needs_fast_path = pytest.mark.skipif(
    not config.fast_path, reason="only the fast path reads views in programs"
)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_program_that_reads_a_view_gives_the_same_bits(view: str, op: str) -> None:
    values = make_values()

    def run() -> list[Any]:
        found: list[Any] = []
        for wants in (False, True) * _CALLS:
            w = oplib.tensor(values, requires_grad=wants)
            result = OPS[op](VIEWS[view](w))
            found.append(result.detach())
            if wants:
                result.sum().backward()
                found.append(w.grad)
        return [one.numpy() for one in found]

    with no_fast_path():
        expected = run()
    for mine, its in zip(run(), expected, strict=True):
        np.testing.assert_array_equal(mine, its)


@needs_fast_path
def test_a_new_view_is_read_by_the_program_of_its_op() -> None:
    w = oplib.tensor(make_values(), requires_grad=True)
    view, _ = call_often(lambda: ((view := w.t()), view * 2.0))
    assert count_programs(view) == 1
    assert view._storage._kept[0]() is None  # the array of the view was not made


@needs_fast_path
def test_the_array_of_a_saved_view_is_a_result_of_the_program() -> None:
    w = oplib.tensor(make_values(), requires_grad=True)
    others = oplib.ones_like(w.t()).requires_grad_()
    view, result = call_often(lambda: ((view := w.t()), view * others))
    node = result.grad_fn
    whole, part = view._storage._kept
    assert whole() is w.array
    assert any(one is part for one in node.saved)


@needs_fast_path
def test_a_view_that_is_saved_twice_has_one_array() -> None:
    w = oplib.tensor(make_values(), requires_grad=True)
    node = call_often(lambda: (view := w.t()) * view).grad_fn
    first, second, *_ = node.saved
    assert first is second


@needs_fast_path
def test_the_second_read_of_a_view_makes_its_array() -> None:
    w = oplib.tensor(make_values())
    call_often(lambda: w.t() * 2.0)
    view: Any = w.t()
    results = [(view * 2.0).tolist() for _ in range(3)]
    assert results == [(view.clone() * 2.0).tolist()] * 3
    assert view._storage._kept[0]() is w.array


@needs_fast_path
def test_an_equal_view_that_was_read_is_not_read_again() -> None:
    w = oplib.tensor(make_values())
    call_often(lambda: w.t() * 2.0)
    read = w.t()
    array = read.array
    assert w.t()._storage.operand is array


@needs_fast_path
def test_a_loop_over_places_needs_one_program() -> None:
    values = make_values(rows=12)
    y = oplib.tensor(values)
    for place in range(len(values)):
        assert (y[place] + 1.0).tolist() == (values[place] + 1).tolist()
    assert count_programs(y[0]) == 1


@needs_fast_path
def test_the_number_of_programs_of_a_chain_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_MOST_PROGRAMS", 3)
    w = oplib.tensor(make_values())
    for op in (oplib.exp, oplib.sin, oplib.cos, oplib.tanh, oplib.sqrt, oplib.abs):
        for _ in range(_CALLS):
            op(w.t())
    assert count_programs(w.t()) == 3


def test_a_view_shows_what_was_written_into_its_base() -> None:
    values = make_values()
    x = oplib.tensor(values)
    for number in range(_CALLS):
        view = x.t()
        x[1, 2] = number
        assert (view * 1.0)[2, 1].item() == number
        view[2, 1] = number + 0.5
        assert (x[1] * 1.0)[2].item() == number + 0.5


def test_a_write_after_a_view_was_saved_is_found() -> None:
    w = oplib.tensor(make_values(), requires_grad=True)
    for _ in range(_CALLS):
        base = w * 1.0
        result = (base.t() * oplib.ones_like(base.t()).requires_grad_()).sum()
        base.mul_(2.0)
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            result.backward()


def test_create_graph_differentiates_through_a_saved_view() -> None:
    values = make_values()

    def run() -> Any:
        w = oplib.tensor(values, requires_grad=True)
        view = w.t()
        (grad,) = oplib.autograd.grad((view * view * view).sum(), w, create_graph=True)
        return oplib.autograd.grad((grad * grad).sum(), w)[0].numpy()

    for _ in range(_CALLS):
        np.testing.assert_allclose(run(), 36 * values**3, rtol=1e-5)


def test_a_write_reads_a_view_of_the_written_tensor() -> None:
    values = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    for _ in range(_CALLS):
        x = oplib.tensor(values)
        x.add_(x.t())
        assert x.tolist() == (values + values.T).tolist()


def test_hooks_for_saved_tensors_see_arrays() -> None:
    w = oplib.tensor(make_values(), requires_grad=True)
    seen: list[Any] = []
    for _ in range(_CALLS):
        w.t().exp()
        with oplib.autograd.graph.saved_tensors_hooks(
            lambda one: seen.append(one.shape) or one, lambda one: one
        ):
            view = w.t()
            (view * view).sum().backward()
    assert set(seen) == {w.t().shape}


@pytest.mark.parametrize("traced", ["jit", "vmap", "oplib.jit", "disable_jit", "inference"])
def test_traces_and_modes_read_views_as_before(traced: str) -> None:
    values = make_values()
    w = oplib.tensor(values)
    call_often(lambda: w.t() * 2.0)
    expected = values.T * 2

    def double(array: Any) -> Any:
        return (oplib.Tensor.from_array(array).t() * 2.0).array

    for _ in range(3):
        if traced == "jit":
            found = jax.jit(double)(values)
        elif traced == "vmap":
            found = oplib.vmap(lambda one: one.t() * 2.0)(oplib.stack([w, w])).numpy()[1]
        elif traced == "oplib.jit":
            found = oplib.jit(lambda: w.t() * 2.0)().numpy()
        elif traced == "disable_jit":
            with jax.disable_jit():
                found = (w.t() * 2.0).numpy()
        else:
            with oplib.inference_mode():
                found = (w.t() * 2.0).numpy()
        np.testing.assert_array_equal(found, expected)


def test_a_base_that_a_compiled_program_writes_is_read_anew() -> None:
    x = oplib.tensor(make_values())
    step = oplib.jit(lambda: x.mul_(2.0))
    for _ in range(_CALLS):
        before = (x.t() * 1.0).numpy()
        step()
        np.testing.assert_array_equal((x.t() * 1.0).numpy(), before * 2)


def test_threads_that_read_views_see_whole_writes() -> None:
    x = oplib.zeros(3, next(_lengths))
    torn: list[Any] = []

    def read() -> None:
        for _ in range(200):
            shown = (x.t() * 1.0).numpy()
            if not (shown == shown[0, 0]).all():
                torn.append(shown)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for one in readers:
        one.start()
    for number in range(200):
        x.fill_(number)
    for one in readers:
        one.join()
    assert not torn


@pytest.mark.parametrize("number", range(6))
def test_random_programs_of_views_give_the_same_bits(number: int) -> None:
    values = make_values(rows=6)

    def run() -> list[Any]:
        draw = random.Random(f"{SEED} {number}")
        found: list[Any] = []
        w: Any = oplib.tensor(values, requires_grad=True)
        for _ in range(12):
            base = w * 1.0
            name = draw.choice(list(VIEWS))
            view = VIEWS[name](base)
            if name != "several" and draw.random() < 0.3:
                base[draw.randrange(4)] = draw.random()
            results = [OPS[draw.choice(list(OPS))](view) for _ in range(draw.randint(1, 3))]
            w.grad = None
            oplib.stack([one.sum() for one in results]).sum().backward()
            grad: Any = w.grad
            found += [*[one.detach().numpy() for one in results], grad.numpy()]
        return found

    with no_fast_path():
        expected = run()
    for _ in range(2):
        for mine, its in zip(run(), expected, strict=True):
            np.testing.assert_array_equal(mine, its)
