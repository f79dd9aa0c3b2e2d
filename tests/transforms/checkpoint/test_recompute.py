"""When and where a checkpoint computes its region again: nested, stopped early, in groups and in threads."""

from __future__ import annotations

import math
from collections import OrderedDict, deque

import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import AutogradError
from oplib.utils.checkpoint import (
    checkpoint,
    set_checkpoint_early_stop,
)
from tests.threads import run_in_threads

from .regions import BOTH, Region, find_gradients


@BOTH
def test_checkpoints_nest(x, w, reentrant):
    def outer(x, w):
        return checkpoint(Region(), x.exp(), w, use_reentrant=reentrant).cos()

    checkpoint(outer, x, w, use_reentrant=reentrant).sum().backward()
    expected = find_gradients(lambda x, w: Region()(x.exp(), w).cos(), x, w)
    assert x.grad.tolist() == pytest.approx(expected[0])
    assert w.grad.tolist() == pytest.approx(expected[1])


def test_checkpoints_nest_three_deep_and_free_what_they_make(x, w):
    region = Region()

    def wrap(function):
        return lambda x, w: checkpoint(function, x * 1, w, use_reentrant=False)

    wrap(wrap(wrap(region)))(x, w).sum().backward()
    assert x.grad.tolist() == pytest.approx(find_gradients(Region(), x, w)[0])
    assert not any(region.alive())


def test_a_repetition_stops_when_all_that_is_needed_is_there(x):
    reached = []

    def function(x):
        result = x.sin() * x
        reached.append(1)
        return result

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(reached) == 1
    checkpoint(function, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(reached) == 3
    with set_checkpoint_early_stop(False):
        result = checkpoint(function, x, use_reentrant=False, early_stop=True)
    result.sum().backward()
    assert len(reached) == 5


def test_stopping_early_is_no_exception_that_the_function_could_catch(x):
    caught = []

    def function(x):
        try:
            return x.sin() * x
        except Exception as error:  # noqa: BLE001  what a function may do
            caught.append(error)
            return x

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert caught == []


def test_stopping_early_leaves_modes_as_they_were(x):
    result = checkpoint(lambda x: x.sin() * x, x, use_reentrant=False)
    with oplib.no_grad():
        result.backward(oplib.ones(2))
        assert not oplib.is_grad_enabled()


def test_results_that_go_backward_together_compute_a_region_once(x):
    calls = []

    def function(x):
        calls.append(1)
        return x.sin(), x.cos()

    sine, cosine = checkpoint(function, x, use_reentrant=False)
    oplib.autograd.backward([sine.sum(), cosine.sum()])
    assert len(calls) == 2


@pytest.mark.spec("D.61")
def test_the_setting_of_early_stopping_is_that_of_the_thread(x):
    reached = []

    def function(x):
        result = x.sin() * x
        reached.append(1)
        return result

    with set_checkpoint_early_stop(False):
        run_in_threads(
            lambda _: checkpoint(function, x.detach().requires_grad_(), use_reentrant=False).sum().backward()
        )
    assert len(reached) == 4


def test_threads_run_regions_of_their_own():
    def work(_):
        leaf = oplib.tensor([0.5, 1.0], requires_grad=True)
        for _ in range(5):
            checkpoint(lambda leaf: (leaf * leaf).exp(), leaf, use_reentrant=False).sum().backward()
        return leaf.grad.tolist()

    expected = [5 * 2 * entry * math.exp(entry * entry) for entry in (0.5, 1.0)]
    assert run_in_threads(work) == [pytest.approx(expected)] * 4


def test_a_backward_inside_the_function_is_allowed(x, w):
    def function(x, w):
        inner = x.detach().requires_grad_()
        (slope,) = grad((inner * inner * w).sum(), inner)
        return (x * slope).sin()

    checkpoint(function, x, w, use_reentrant=False, early_stop=False).sum().backward()
    (expected,) = grad(function(x, w).sum(), x)
    assert x.grad.tolist() == pytest.approx(expected.tolist())


def test_hooks_around_a_checkpoint_see_its_arguments_and_nothing_of_its_inside(x):
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor

    y = x * 1
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = checkpoint(lambda y: y.sin().exp(), y, use_reentrant=False)
    assert packed == [[0.5, 1.0]]
    result.sum().backward()
    assert packed == [[0.5, 1.0]]


def take_from_list(x, taken):
    return taken.pop().sin() * taken.pop() * x


def take_from_dict(x, taken):
    return taken.pop("a").sin() * x


def write_item(x, written):
    written[0][0] = written[0][0].sin()
    return written[0][0] * x


def read_what_was_appended(x, read):
    read.append(read[-1].sin())
    return read[-1] * x


@BOTH
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (take_from_list, lambda w: [w, w]),
        (take_from_dict, lambda w: OrderedDict(a=w)),
        (take_from_dict, lambda w: {"a": w}),
        (write_item, lambda w: ([w], 1)),
        (read_what_was_appended, lambda w: deque([w])),
    ],
)
def test_the_repetition_gets_containers_as_they_were(x, w, function, make, reentrant):
    (expected,) = grad(function(x, make(w)).sum(), x)
    y = checkpoint(function, x, make(w), use_reentrant=reentrant)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * expected).tolist())


@BOTH
def test_a_list_may_change_after_the_call_and_may_hold_itself(x, w, reentrant):
    items, ring = [w], [w]
    ring.append(ring)
    y = checkpoint(lambda x, items, ring: x * items[-1] * ring[0], x, items, ring, use_reentrant=reentrant)
    items.append(w * 0)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((w * w).tolist())


@BOTH
@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x, items: next(items) * x.sin(), StopIteration),
        (lambda x, items: HELD.pop() * x.sin(), IndexError),
    ],
)
def test_an_error_of_the_repetition_says_that_the_function_runs_again(x, function, error, reentrant):
    HELD[:] = [2.0]
    y = checkpoint(function, x, iter([2.0]), use_reentrant=reentrant)
    with pytest.raises(error) as raised:
        y.sum().backward()
    (note,) = [note for note in raised.value.__notes__ if note.startswith("checkpoint")]
    assert "the function ran again in the backward pass" in note
    assert "copy a list before you take items from it" in note
    assert len(note) <= 400


HELD: list[float] = []


@pytest.mark.parametrize("wrap", [lambda step: step, oplib.jit], ids=["plain", "compiled"])
def test_a_view_whose_history_may_not_be_read_is_an_argument(wrap):
    x = oplib.tensor([2.0, 3.0], requires_grad=True)

    @wrap
    def step():
        base = x * 1
        with oplib.no_grad():
            view = base[:1]
        base.mul_(2)
        checkpoint(lambda view, x: x * x * view.shape[0], view, x, use_reentrant=False).sum().backward()
        with pytest.raises(AutogradError, match="has been modified inplace"):
            checkpoint(lambda view, x: x * view, view, x, use_reentrant=False)

    step()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]
