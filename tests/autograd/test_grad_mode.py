"""Grad modes: nesting, decorators, threads."""

import asyncio
import inspect

import jax
import pytest

import oplib
from oplib.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from tests.threads import run_in_thread


def test_no_grad_and_enable_grad_nest():
    with no_grad():
        with enable_grad():
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_the_mode_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), no_grad():
        _ = 1 / 0
    assert is_grad_enabled()


def test_one_manager_can_be_entered_inside_itself():
    mode = no_grad()
    with mode, mode:
        assert not is_grad_enabled()
    assert is_grad_enabled()


@pytest.mark.parametrize(
    "decorator", [no_grad, no_grad(), inference_mode, inference_mode(), set_grad_enabled(True)]
)
def test_decorators_with_and_without_parentheses(decorator):
    @decorator
    def ask(value, *, key):
        """Says it."""
        return is_grad_enabled(), value, key

    expected = isinstance(decorator, set_grad_enabled)
    assert ask(1, key=2) == (expected, 1, 2)
    assert ask.__doc__ == "Says it."
    assert is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @no_grad()
    def count(n):
        return is_grad_enabled() or (n and count(n - 1))

    assert not count(3)
    assert is_grad_enabled()


def test_a_decorated_generator_runs_in_the_mode_and_its_consumer_does_not():
    @no_grad()
    def ask():
        try:
            got = yield is_grad_enabled()
            yield got, is_grad_enabled()
        except ValueError:
            yield "caught", is_grad_enabled()
        return "done"

    steps = ask()
    assert next(steps) is False
    assert is_grad_enabled()
    assert steps.send("sent") == ("sent", False)
    assert steps.throw(ValueError) == ("caught", False)
    with pytest.raises(StopIteration, match="done"):
        next(steps)
    assert is_grad_enabled()


def test_closing_a_decorated_generator_closes_it_in_the_mode():
    seen = []

    @no_grad()
    def ask():
        try:
            yield 1
        finally:
            seen.append(is_grad_enabled())

    steps = ask()
    next(steps)
    steps.close()
    assert seen == [False]
    assert is_grad_enabled()


def test_a_generator_that_is_dropped_is_closed_in_the_mode():
    seen = []

    @no_grad()
    def ask():
        try:
            yield
        finally:
            seen.append(is_grad_enabled())

    steps = ask()
    next(steps)
    del steps
    assert seen == [False]


def test_what_a_generator_sets_itself_does_not_outlive_its_step():
    @no_grad()
    def ask():
        set_grad_enabled(True)
        yield is_grad_enabled()
        yield is_grad_enabled()

    steps = ask()
    with no_grad():
        assert next(steps)
        assert not is_grad_enabled()
        assert not next(steps)
    steps.close()
    assert is_grad_enabled()


def test_a_generator_may_hold_a_mode_of_its_own_open_over_a_yield():
    @no_grad()
    def ask():
        with enable_grad():
            yield is_grad_enabled()
        yield is_grad_enabled()

    steps = ask()
    assert next(steps)
    assert is_grad_enabled()
    assert not next(steps)
    assert is_grad_enabled()
    steps.close()


class Pause:
    """Gives control back to whoever drives the coroutine."""

    def __await__(self):
        return (yield "paused")


@pytest.mark.parametrize("mode", [no_grad, inference_mode])
def test_each_step_of_a_decorated_coroutine_runs_in_the_mode(mode):
    @mode()
    async def ask():
        first = is_grad_enabled()
        try:
            await Pause()
        except ValueError:
            return first, is_grad_enabled(), "caught"
        return first, is_grad_enabled(), "sent"

    assert inspect.iscoroutinefunction(ask)
    for resume, what in ((lambda c: c.send(None), "sent"), (lambda c: c.throw(ValueError()), "caught")):
        steps = ask()
        assert steps.send(None) == "paused"
        assert is_grad_enabled()
        with pytest.raises(StopIteration) as stop:
            resume(steps)
        assert stop.value.value == (False, False, what)
        assert is_grad_enabled()


def test_coroutines_that_take_turns_keep_to_their_own_modes():
    async def ask(seen):
        for _ in range(3):
            seen.append(is_grad_enabled())
            await asyncio.sleep(0)

    async def both():
        inside, outside = [], []
        await asyncio.gather(no_grad()(ask)(inside), ask(outside))
        return inside, outside

    assert asyncio.run(both()) == ([False] * 3, [True] * 3)


def test_a_closed_coroutine_closes_in_the_mode():
    seen = []

    @no_grad()
    async def ask():
        try:
            await Pause()
        finally:
            seen.append(is_grad_enabled())

    steps = ask()
    steps.send(None)
    steps.close()
    assert seen == [False]
    assert is_grad_enabled()


@pytest.mark.spec("D.61")
@pytest.mark.parametrize("mode", [no_grad, enable_grad, lambda: oplib.autocast("cpu")])
def test_an_asynchronous_generator_is_not_decorated(mode):
    async def ask():
        with no_grad():
            inside = oplib.is_grad_enabled()
        yield inside, oplib.is_grad_enabled()

    async def consume():
        return [item async for item in ask()]

    with pytest.raises(TypeError, match=r"decorates no asynchronous generator\. Got ask\. Enter the mode"):
        mode()(ask)
    assert asyncio.run(consume()) == [(False, True)]


def test_a_decorated_class_warns_and_makes_instances_in_the_mode():
    class Asking:
        def __init__(self):
            self.seen = is_grad_enabled()

    with pytest.warns(FutureWarning, match=r"decorating a class is deprecated.*Asking\.__init__"):
        make = no_grad()(Asking)
    assert isinstance(make(), Asking)
    assert make().seen is False


@pytest.mark.parametrize("mode", [no_grad, enable_grad, inference_mode])
def test_what_cannot_be_called_is_not_decorated(mode):
    with pytest.raises(TypeError, match=r"it decorates what can be called. Got 3"):
        mode()(3)
    assert is_grad_enabled()


def test_methods_and_static_methods_are_decorated():
    class Asking:
        @no_grad()
        def method(self):
            return self, is_grad_enabled()

        @staticmethod
        @no_grad()
        def static():
            return is_grad_enabled()

    asking = Asking()
    assert asking.method() == (asking, False)
    assert Asking.static() is False


@pytest.mark.parametrize("value", ["x", 1, None, lambda: 3])
def test_set_grad_enabled_takes_a_bool(value):
    with pytest.raises(TypeError, match="argument 'mode' must be bool"):
        set_grad_enabled(value)
    assert is_grad_enabled()


def test_set_grad_enabled_switches_at_once():
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)
    assert is_grad_enabled()


def test_set_grad_enabled_as_a_block_restores_what_was_before_the_call():
    with set_grad_enabled(False):
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_leaves_the_mode_alone():
    @set_grad_enabled(False)
    def ask():
        return is_grad_enabled()

    assert is_grad_enabled()
    assert not ask()
    assert is_grad_enabled()


def test_inference_mode_sets_both_flags():
    with inference_mode():
        assert (is_inference_mode_enabled(), is_grad_enabled()) == (True, False)
        with inference_mode(False):
            assert (is_inference_mode_enabled(), is_grad_enabled()) == (False, True)
        with enable_grad():
            assert (is_inference_mode_enabled(), is_grad_enabled()) == (True, True)
    assert (is_inference_mode_enabled(), is_grad_enabled()) == (False, True)


def test_nothing_is_recorded_under_no_grad():
    x = oplib.tensor([1.0], requires_grad=True)
    with no_grad():
        assert (x * 2).grad_fn is None
        with enable_grad():
            assert (x * 2).grad_fn is not None


def call_in(mode):
    def compute(x):
        with mode():
            return x * 3

    return compute


def call_between(first, last):
    def compute(x):
        first()
        try:
            return x * 3
        finally:
            last()

    return compute


def call_on_inside_off(x):
    with no_grad():
        return call_between(lambda: set_grad_enabled(True), lambda: set_grad_enabled(False))(x)


@pytest.mark.parametrize(
    ("compute", "slope"),
    [
        (call_in(no_grad), 2),
        (call_in(enable_grad), 5),
        (call_in(inference_mode), 2),
        (call_in(lambda: inference_mode(False)), 5),
        (call_in(lambda: set_grad_enabled(False)), 2),
        (call_in(lambda: set_grad_enabled(True)), 5),
        (set_grad_enabled(False)(lambda x: x * 3), 2),
        (call_between(lambda: set_grad_enabled(False), lambda: set_grad_enabled(True)), 2),
        (no_grad()(call_in(enable_grad)), 5),
        (call_on_inside_off, 5),
    ],
)
def test_jax_differentiates_what_the_tape_records(compute, slope):
    x = oplib.tensor(1.0, requires_grad=True)
    (x * 2 + compute(x)).backward()

    def compute_array(array):
        x = oplib.Tensor.from_array(array)
        return (x * 2 + compute(x)).array

    assert x.grad.item() == jax.grad(compute_array)(1.0) == slope


def test_a_new_thread_starts_with_grad_mode_on():
    with no_grad(), set_multithreading_enabled(False):
        seen = run_in_thread(lambda: (is_grad_enabled(), is_multithreading_enabled()))
        assert not is_multithreading_enabled()
    assert seen == (True, True)
    assert is_multithreading_enabled()


def test_set_multithreading_enabled_is_a_call_too():
    set_multithreading_enabled(False)
    assert not is_multithreading_enabled()
    set_multithreading_enabled(True)
    assert is_multithreading_enabled()


@pytest.mark.parametrize("mode", [True, False])
def test_set_grad_enabled_shows_its_mode(mode):
    before = is_grad_enabled()
    switch = set_grad_enabled(mode)
    set_grad_enabled(before)
    assert repr(switch) == f"set_grad_enabled(mode={mode})"
