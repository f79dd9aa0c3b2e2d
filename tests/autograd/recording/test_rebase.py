"""The history of a tensor after writes into its views. The gradients are those of finite differences."""

import threading

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd, grad
from oplib.autograd.recording import rebase

X = np.array([0.5, 1.5, -2.0, 3.0])


def write_windows(x, y):
    y[1:3] = x[:2] * x[1:3]
    y[0] = 7.0


def write_over_all(x, y):
    y[:] = 0.0
    y[2:] += x[:2]


def write_views_of_views(x, y):
    tail = y[1:]
    last = tail[1:]
    tail *= x[:3]
    last *= 2.0
    y *= x[3]


def write_items(x, y):
    for index in (0, 2):
        y[index] = (y[index + 1] * 1) * x[index]


WRITES = pytest.mark.parametrize("write", [write_windows, write_over_all, write_views_of_views, write_items])


def run(write, x):
    y = x * x
    write(x, y)
    return (y * y).sum()


def slope(function, x, step=1e-5):
    """Returns the gradient of a function of a numpy array by central differences."""
    steps = step * np.eye(x.size)
    return np.array([(function(x + one) - function(x - one)) / (2 * step) for one in steps])


@WRITES
def test_the_gradient_goes_through_all_writes(write):
    x = oplib.tensor(X, dtype=oplib.float32, requires_grad=True)
    expected = slope(lambda x: run(write, x), X)
    (first,) = grad(run(write, x), x)
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-5, atol=1e-5)
    with compiled_autograd.enable():
        run(write, x).backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_the_second_derivative_goes_through_writes():
    x = oplib.tensor(X, dtype=oplib.float32, requires_grad=True)
    (first,) = grad(run(write_windows, x), x, create_graph=True)
    (second,) = grad((first * first).sum(), x)
    expected = slope(lambda x: (slope(lambda x: run(write_windows, x), x, 1e-3) ** 2).sum(), X, 1e-3)
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-3)


def test_a_thread_that_writes_another_view_meanwhile_loses_no_history(monkeypatch):
    x = oplib.ones(4, requires_grad=True)
    y = x * 1
    first, second = y[:2], y[2:]
    other = threading.Thread(target=second.mul_, args=(3.0,))
    real = rebase.gradient_edge

    def read_while_another_writes(tensor):
        edge = real(tensor)
        if tensor is y and not other.ident:
            other.start()
            other.join(0.2)  # it waits for this write, or it is done before it
        return edge

    monkeypatch.setattr(rebase, "gradient_edge", read_while_another_writes)
    first.mul_(2.0)
    other.join()
    assert grad(y.sum(), x)[0].tolist() == [2.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("write", [lambda y: y.eq_(4.0), lambda y: y.logical_not_()], ids=["eq_", "not_"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_gradient_ends_at_a_tensor_whose_new_value_has_no_history(write, is_compiled):
    x = oplib.tensor([1.0, 2.0, 0.0], requires_grad=True)
    y = x * 2
    write(y)
    total = (y * x).sum()
    if is_compiled:
        with compiled_autograd.enable(jax.jit):
            total.backward()
    else:
        total.backward()
    assert x.grad.tolist() == y.tolist()
