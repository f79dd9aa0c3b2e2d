"""Grad modes: nesting, decorators, threads."""

import threading

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


def test_coroutines_and_classes_are_refused():
    async def step():
        pass

    for target in (step, int):
        with pytest.raises(TypeError, match="decorates functions and generator functions only"):
            no_grad()(target)


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


def test_a_new_thread_starts_with_grad_mode_on():
    seen = []
    with no_grad(), set_multithreading_enabled(False):
        thread = threading.Thread(
            target=lambda: seen.append((is_grad_enabled(), is_multithreading_enabled()))
        )
        thread.start()
        thread.join()
        assert not is_multithreading_enabled()
    assert seen == [(True, True)]
    assert is_multithreading_enabled()


def test_set_multithreading_enabled_is_a_call_too():
    set_multithreading_enabled(False)
    assert not is_multithreading_enabled()
    set_multithreading_enabled(True)
    assert is_multithreading_enabled()
