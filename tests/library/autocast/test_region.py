"""Regions of autocast: arrays, compiled functions, traces, threads, and the modes that they leave behind."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.config import config
from oplib.errors import ArgumentTypeError, ArgumentValueError
from oplib.modes import modes
from oplib.transforms.checkpoint.checkpoint import checkpoint

X = jnp.ones((2, 2))


def multiply(x):
    return oplib.matmul(x, x)


def test_arrays_are_cast_too():
    assert multiply(X).dtype == "float32"
    with oplib.autocast("cpu"):
        assert multiply(X).dtype == "bfloat16"
    assert multiply(X).dtype == "float32"


@pytest.mark.parametrize(("compile_it", "x"), [(jax.jit, X), (oplib.jit, oplib.ones(2, 2))])
def test_a_compiled_function_is_compiled_for_each_setting(compile_it, x):
    traced = []

    @compile_it
    def run(x):
        traced.append(1)
        return multiply(x)

    def call():
        return str(run(x).dtype)

    found = [call()]
    for _ in range(2):
        for dtype in (oplib.bfloat16, oplib.float16):
            with oplib.autocast("cpu", dtype):
                found.append(call())
    found.append(call())
    assert found == ["float32", "bfloat16", "float16", "bfloat16", "float16", "float32"]
    assert len(traced) == 3


def test_control_flow_is_compiled_for_each_setting():
    def run():
        return oplib.cond(oplib.tensor(True), multiply, lambda x: multiply(x) * 2, oplib.ones(2, 2)).dtype

    with oplib.autocast("cpu"):
        assert run() == "bfloat16"
    assert run() == "float32"


def test_a_region_inside_of_a_compiled_function_casts():
    @jax.jit
    def run(x):
        with oplib.autocast("cpu"):
            low = multiply(x)
        return low, multiply(x)

    assert [one.dtype for one in run(X)] == ["bfloat16", "float32"]


def test_gradients_have_the_dtype_of_the_arguments():
    def loss(x):
        with oplib.autocast("cpu"):
            return oplib.mse_loss(multiply(x), x)

    gradient = jax.grad(loss)(X)
    assert gradient.dtype == "float32"
    with oplib.autocast("cpu"):
        low = jax.grad(lambda x: multiply(x).sum().astype("float32"))(X)
    assert (low.dtype, low.tolist()) == ("float32", [[4.0, 4.0], [4.0, 4.0]])


def test_a_cast_in_a_program_follows_the_values():
    w = oplib.ones(2, 2).requires_grad_()

    @oplib.jit
    def run(x):
        return x @ w

    with oplib.autocast("cpu"):
        run(oplib.ones(2, 2))
        eager = oplib.ones(2, 2) @ w
        assert run(oplib.ones(2, 2)).tolist() == eager.tolist() == [[2.0, 2.0], [2.0, 2.0]]
        with oplib.no_grad():
            w.mul_(2)
        assert run(oplib.ones(2, 2)).tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_a_cast_is_made_again_after_a_write():
    w = oplib.ones(2, 2).requires_grad_()
    with oplib.autocast("cpu"):
        before = (w @ oplib.ones(2, 2)).tolist()
        with oplib.no_grad():
            w.mul_(3)
        after = (w @ oplib.ones(2, 2)).tolist()
    assert (before[0][0], after[0][0]) == (2.0, 6.0)


def test_a_cast_made_without_recording_does_not_lose_the_gradient():
    w = oplib.ones(2, 2).requires_grad_()
    with oplib.autocast("cpu"):
        with oplib.no_grad():
            multiply(w)
        multiply(w).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


@pytest.mark.spec("D.61")
@pytest.mark.parametrize("settings", [{}, {"cache_enabled": True}, {"cache_enabled": False}], ids=str)
def test_each_use_of_a_parameter_has_a_cast_of_its_own(settings):
    w = oplib.ones(2, 2).requires_grad_()
    with oplib.autocast("cpu", **settings):
        some, other = oplib.ones(2, 2) @ w, oplib.ones(2, 2) @ w
        assert some.grad_fn.next_functions[1][0] is not other.grad_fn.next_functions[1][0]
    (some + other).sum().backward()
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert w.grad.dtype == "float32"


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_repeats_in_the_setting_of_its_forward(use_reentrant):
    seen = []

    def region(x):
        seen.append(multiply(x).dtype)
        return multiply(x).float()

    x = oplib.ones(2, 2).requires_grad_()
    with oplib.autocast("cpu"):
        y = checkpoint(region, x, use_reentrant=use_reentrant)
    y.sum().backward()
    assert seen == ["bfloat16", "bfloat16"]


def test_other_threads_are_not_in_the_region():
    found = []
    with oplib.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(str(multiply(X).dtype)))
        thread.start()
        thread.join()
    assert found == ["float32"]


def test_an_error_leaves_the_region():
    before = config.uses_fast_path
    with pytest.raises(ValueError, match="stop"), oplib.autocast("cpu"):
        raise ValueError("stop")
    assert (modes.autocast, modes.watchers, config.uses_fast_path) == (None, 0, before)


def test_a_wide_dtype_turns_autocast_off_with_a_warning():
    with pytest.warns(UserWarning, match="cpu has no autocast with float64, so it is off"):
        region = oplib.autocast("cpu", "float64")
    with region:
        assert not oplib.is_autocast_enabled("cpu")


def test_a_device_type_without_autocast_is_refused():
    with pytest.raises(
        ArgumentValueError, match=r"device type 'mps' does not support autocast. Expected one"
    ):
        oplib.autocast("mps")
    with pytest.raises(ArgumentTypeError, match=r"argument 'device_type' must be str. Got int"):
        oplib.autocast(3)  # type: ignore[arg-type]


def test_a_region_of_another_device_type_changes_nothing():
    with oplib.autocast("cuda"):
        assert multiply(X).dtype == "float32"
        assert oplib.is_autocast_enabled("gpu")
