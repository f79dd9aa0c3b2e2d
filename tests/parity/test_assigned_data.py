"""``tensor.data = other`` on views and on tensors that were saved, beside torch."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import optax
import pytest

import oplib
from oplib.errors import ArgumentValueError, AutogradError

torch = pytest.importorskip("torch")


class Start:
    """A root with history, one of its views, which gets other contents, and a weight."""

    def __init__(self, lib: Any, *, recorded: bool) -> None:
        self.lib = lib
        self.x = self.make(1, 2, 3, 4).requires_grad_(recorded)
        self.root = self.x * 1
        self.view = self.root[:2]
        self.view.data = self.other = self.make(8, 9)
        self.weight = self.make(3, 5).requires_grad_(recorded)

    def make(self, *numbers: float) -> Any:
        return self.lib.tensor(np.asarray(numbers, np.float32))

    def describe(self, *further: Any) -> list[Any]:
        shown = [self.root, self.view, self.other, *further]
        versions = [one._version for one in (self.root, self.view, *further)]
        grads = [None if one.grad is None else one.grad.tolist() for one in (self.x, self.weight)]
        requires = [one.requires_grad for one in shown]
        return [[one.tolist() for one in shown], versions, grads, requires, self.view._base is self.root]


def write_view(s: Start) -> list[Any]:
    s.view.add_(1)
    return s.describe()


def write_root(s: Start) -> list[Any]:
    s.root.mul_(2)
    return s.describe()


def write_further_view(s: Start) -> list[Any]:
    part = s.view[:1]
    part.add_(1)
    return [*s.describe(part), part._base is s.root]


def write_by_index(s: Start) -> list[Any]:
    s.view[1] = 7.0
    s.view[:1] += 1.0
    return s.describe()


def assign_twice(s: Start) -> list[Any]:
    s.view.data = s.make(5, 6)
    s.view.mul_(2)
    return s.describe()


def multiply_by_weight(s: Start) -> list[Any]:
    s.view.mul_(s.weight)
    return s.describe()


def multiply_part_by_weight(s: Start) -> list[Any]:
    s.view[1:].mul_(s.weight[1:])
    return s.describe()


WRITES = [
    write_view, write_root, write_further_view, write_by_index, assign_twice, multiply_by_weight,
    multiply_part_by_weight,
]  # fmt: skip


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_writes_into_a_view_with_other_contents(write: Any, recorded: bool) -> None:
    found, expected = (write(Start(lib, recorded=recorded)) for lib in (oplib, torch))
    assert found == expected


@pytest.mark.parametrize("place", ["root", "view"])
@pytest.mark.parametrize("write", WRITES)
def test_gradients_after_writes_into_a_view_with_other_contents(write: Any, place: str) -> None:
    results = []
    for lib in (oplib, torch):
        start = Start(lib, recorded=True)
        write(start)
        tensor = getattr(start, place)
        (tensor * tensor).sum().backward()
        results.append([start.describe(), start.view.grad_fn.name().removeprefix("oplib::autograd::")])
    assert results[0] == results[1]


@pytest.mark.parametrize("written", ["tensor", "other"])
@pytest.mark.parametrize("saved", ["result", "operand"])
def test_a_write_after_assigned_data_is_noticed_by_the_node_that_saved_the_tensor(
    saved: str, written: str
) -> None:
    for lib in (oplib, torch):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        tensor = x.exp() if saved == "result" else lib.tensor([3.0, 4.0])
        loss = (tensor if saved == "result" else x * tensor).sum()
        tensor.data = other = lib.tensor([5.0, 6.0])
        with lib.no_grad():
            (tensor if written == "tensor" else other).add_(1)
        if written == "other":
            loss.backward()
            continue
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


ACTS: dict[str, Callable[[Any, Any, Any], object]] = {
    "data of the base": lambda lib, base, view: setattr(base, "data", lib.arange(6.0).view(2, 3) * 2),
    "data of the view": lambda lib, base, view: setattr(view, "data", lib.arange(3.0) + 10),
    "a shape of the base": lambda lib, base, view: base.unsqueeze_(0),
    "a shape of the view": lambda lib, base, view: view.unsqueeze_(0),
    "a write": lambda lib, base, view: base.mul_(2),
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("order", list(permutations(ACTS, 4)), ids=str)
def test_shapes_after_assigned_data_again_and_again(order: tuple[str, ...]) -> None:
    results = []
    for lib in (oplib, torch):
        base = lib.arange(6.0).view(2, 3).clone()
        view = base[0]
        for name in order * 3:
            ACTS[name](lib, base, view)
        results.append([(tuple(one.shape), one.tolist(), one._version) for one in (base, view)])
    assert results[0] == results[1]


def test_gradients_of_a_view_of_a_root_whose_shape_and_data_were_changed() -> None:
    results = []
    for lib in (oplib, torch):
        leaf = lib.ones(2, 3).requires_grad_()
        root = leaf * 1
        root.unsqueeze_(0)
        root.data = lib.ones(1, 2, 3) * 5
        root[0].mul_(3)
        (root * 2).sum().backward()
        results.append([root.tolist(), leaf.grad.tolist()])
    assert results[0] == results[1]


@pytest.mark.parametrize("picks", [(0,), (1,), (0, 1), (1, 0), (0, 0, 1)])
def test_gradients_of_a_tensor_that_got_another_shape_without_record_add_up(picks: tuple[int, ...]) -> None:
    results = []
    for lib in (oplib, torch):
        leaf, kept = lib.ones(2, 3, requires_grad=True), lib.zeros(2, 3)
        kept.copy_(leaf * 2)
        with lib.no_grad():
            kept.unsqueeze_(0)
        roots = [(kept, kept * 3)[pick] for pick in picks]
        lib.autograd.backward(roots, [lib.ones(1, 2, 3)] * len(roots))
        results.append(leaf.grad.tolist())
    assert results[0] == results[1]


def test_assigned_data_keeps_no_old_array_alive() -> None:
    x = oplib.ones(2) * 3
    old = weakref.ref(x.array)
    x.data = oplib.ones(2)
    assert old() is None


MODES = {
    "op by op": contextlib.nullcontext,
    "compiled backward": oplib.autograd.compiled_autograd.enable,
}


def make_loss(w: Any) -> Any:
    return (w * 3).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (3,), (4,)])
def test_a_grad_of_another_shape_is_refused_and_named(mode: str, shape: tuple[int, ...]) -> None:
    w = oplib.ones(1, 3, requires_grad=True)
    make_loss(w).backward()
    w.data = oplib.ones(*shape)
    with MODES[mode](), pytest.raises(AutogradError, match=r"grad' of a leaf is from before.*w\.grad = None"):
        make_loss(w).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[3.0] * 3]
    w.grad = None
    with MODES[mode]():
        make_loss(w).backward()
        make_loss(w).backward()
    assert tuple(w.grad.shape) == shape


def test_so_it_is_in_a_program_and_by_an_optimizer() -> None:
    w = oplib.ones(1, 3, requires_grad=True)
    make_loss(w).backward()
    w.data = oplib.ones(2, 3)
    with pytest.raises(AutogradError, match=r"w\.grad = None"):
        oplib.jit(lambda: make_loss(w).backward())()
    optimizer = oplib.optim.Optimizer(optax.sgd(0.1), [w])
    with pytest.raises(AutogradError, match=r"Optimizer\.step: the 'grad' of a leaf is from before"):
        optimizer.step()
    optimizer.zero_grad()
    make_loss(w).backward()
    optimizer.step()
    assert w.tolist() == oplib.full((2, 3), 0.7).tolist()


def test_a_state_of_another_shape_is_named_too() -> None:
    w, other = oplib.ones(1, 3, requires_grad=True), oplib.ones(2, requires_grad=True)
    plain, adam = (oplib.optim.Optimizer(make(0.1), [other, w]) for make in (optax.sgd, optax.adam))
    w.data = oplib.ones(2, 3)
    (make_loss(w) + make_loss(other)).backward()
    with pytest.raises(ArgumentValueError, match=r"number 1, with a state for the shape \[1, 3\]"):
        adam.step()
    plain.step()
    oplib.optim.Optimizer(optax.adam(0.1), [other, w]).step()
