"""Control flow and optimizers inside ``oplib.jit``: the same as outside."""

import numpy as np
import optax
import pytest

import oplib
from oplib.autograd import grad

from .bodies import Weights, assert_close, make_bodies

pytestmark = pytest.mark.spec("J.15")


@pytest.fixture
def at(with_64_bits):
    return Weights()


@pytest.mark.parametrize("name", ["plain", "detached", "views", "function", "nested", "branching"])
@pytest.mark.slow
def test_gradients_of_captured_tensors_are_those_of_the_eager_call(name, at):
    body = make_bodies(at)[name]

    def step(xs):
        carry, _ = oplib.scan(body, at.init, xs)
        return carry.detach(), grad(carry.sum(), (at.w, at.init), allow_unused=True)

    found, expected = oplib.jit(step)(at.xs.detach()), step(at.xs.detach())
    assert_close([found[0], *found[1]], [expected[0], *expected[1]])


def test_a_result_is_differentiable_outside(at):
    body = make_bodies(at)["plain"]
    found = oplib.jit(lambda xs: oplib.scan(body, at.init, xs)[0].sum())(at.xs)
    expected = oplib.scan(body, at.init, at.xs)[0].sum()
    assert_close(grad(found, at.inputs), grad(expected, at.inputs))


def test_cond_and_while_loop_choose_at_each_call(at):
    @oplib.jit
    def run(x):
        y = oplib.cond(x.sum() > 0, lambda x: x * at.constant, lambda x: -x, x)
        return oplib.while_loop(lambda y: (y * y).sum() < 100, lambda y: y * 2, y)

    for sign in (1, -1):
        x = at.constant.abs() * sign
        y = x * at.constant if sign > 0 else -x
        while (y * y).sum() < 100:
            y = y * 2
        assert_close([run(x)], [y])
    assert run.compilations == 1


def test_micro_batches_are_accumulated_by_a_scan(at):
    xs = at.xs.detach()

    def step(xs):
        def add(total, x):
            return total + grad(((x @ at.w + at.b) ** 2).sum(), at.w)[0], None

        return oplib.scan(add, oplib.zeros_like(at.w), xs)[0].detach()

    expected = grad((((xs @ at.w) + at.b) ** 2).sum(), at.w)
    assert_close([oplib.jit(step)(xs)], expected)


def test_an_optimizer_steps_inside_as_outside():
    def train(compiled):
        w = oplib.tensor([1.0, -2.0], requires_grad=True)
        optimizer = oplib.optim.Optimizer(optax.inject_hyperparams(optax.adam)(learning_rate=0.1), [w])

        def step(x):
            optimizer.zero_grad()
            loss = ((w * x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = oplib.jit(step) if compiled else step
        losses = [run(oplib.ones(2)).item() for _ in range(4)]
        optimizer.hyperparams["learning_rate"] = 0.01
        losses += [run(oplib.ones(2)).item() for _ in range(2)]
        assert not compiled or run.compilations <= 2  # the first call finds no gradients
        return losses, w.tolist(), optimizer.state_dict()["state"][".count"].item()

    for found, expected in zip(train(True), train(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
