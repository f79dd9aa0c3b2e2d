"""``enable``, ``disable`` and ``reset``."""

import threading

import jax
import pytest

import oplib
from oplib.autograd import compiled_autograd
from oplib.autograd.compiled_autograd import disable, enable, reset
from oplib.errors import AutogradError


def is_enabled():
    return compiled_autograd.compiled_autograd_enabled


@pytest.mark.spec("002.24", "002.25")
def test_both_flags_are_false_at_first_and_enable_sets_one():
    assert not is_enabled()
    assert not compiled_autograd.in_compiled_autograd_region
    with enable(jax.jit):
        assert is_enabled()
        with enable(lambda function: function):
            assert is_enabled()
        assert is_enabled()
    assert not is_enabled()


@pytest.mark.spec("002.25")
def test_the_innermost_compiler_compiles_and_the_outer_one_comes_back(x):
    seen = []

    def make(name):
        return lambda function: seen.append(name) or function

    with enable(make("outer")):
        with enable(make("inner")):
            (x * 2).sum().backward()
        x.grad = None
        (x * 2).sum().backward()
    assert seen == ["inner", "outer"]


@pytest.mark.spec("002.25")
def test_multithreading_is_off_in_the_block(counts):
    with enable():
        assert not oplib.autograd.is_multithreading_enabled()
    assert oplib.autograd.is_multithreading_enabled()


@pytest.mark.spec("002.25")
def test_enable_takes_the_parameters_of_torch_and_decorates(x, counts):
    assert compiled_autograd._enable is enable

    @enable(jax.jit, dynamic=False, ignore_active_disable_ctx=False)
    def step():
        (x * 2).sum().backward()

    step()
    assert counts("captures") == 1
    assert not is_enabled()
    with pytest.raises(AutogradError, match=r"'compiler_fn' cannot be called. Got str"):
        enable("jit")


@pytest.mark.spec("002.25")
def test_a_backward_in_another_thread_is_compiled_there(x, counts):
    with enable():
        thread = threading.Thread(target=lambda: (x * 2).sum().backward())
        thread.start()
        thread.join()
    assert x.grad.tolist() == [2.0, 2.0]
    assert counts("captures") == 1


@pytest.mark.spec("002.26")
def test_disable_runs_eagerly_and_the_prior_compiler_comes_back(x, counts):
    with enable():
        with disable():
            assert not is_enabled()
            (x * 2).sum().backward()
        assert is_enabled()
    with disable():
        with enable():
            assert is_enabled()
        assert not is_enabled()
    assert not is_enabled()
    assert counts("captures") == 0


@pytest.mark.spec("002.26")
def test_an_error_in_a_block_restores_the_prior_state():
    with pytest.raises(KeyError), enable():
        raise KeyError
    assert not is_enabled()


@pytest.mark.spec("002.27")
def test_reset_in_a_block_clears_the_flag_the_programs_and_the_numbers(x, counts):
    names = []

    def compiler(function):
        names.append(function.__name__)
        return function

    with enable(compiler):
        (x * 2).sum().backward()
        reset()
        assert not is_enabled()
        x.grad = None
        with enable(compiler):
            (x * 2).sum().backward()
    assert names == ["CompiledAutograd0"] * 2
    assert not is_enabled()


@pytest.mark.spec("002.27")
def test_reset_is_refused_inside_a_region(x):
    with enable():
        y = x * 2
        y.register_hook(lambda g: reset())
        with pytest.raises(AssertionError, match="compiled backward pass is running in this thread"):
            y.sum().backward()
        assert is_enabled()
