"""The derivative of loops with side effects: that of the same loop without them."""

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.functional import hessian

seen = []


@oplib.custom_op("stepped::note", tags=oplib.Tag.ordered)
def note(x: np.ndarray) -> None:
    seen.append(x.shape)


class Bodies:
    """Bodies of loops, with or without a side effect, that capture a weight."""

    def __init__(self, *, effects):
        self.effects = effects
        self.weight = oplib.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
        self.fixed = oplib.tensor([0.3, 0.7])

    def note(self, x):
        if self.effects:
            note(x)

    def plain(self, carry, x):
        self.note(carry)
        return (self.weight @ carry).sin() + x, carry * x

    def with_integers(self, carry, x):
        number, state = carry
        self.note(number)
        return (number + 1, (state * self.fixed).exp() * number), (number, state @ self.weight)

    def unused(self, carry, x):
        self.note(x)
        return carry, x * self.weight.sum()


def make_carry(name, requires_grad):
    state = oplib.tensor([0.1, -0.4], requires_grad=requires_grad)
    return (oplib.tensor(1), state) if name == "with_integers" else state, state


def compute(name, *, effects, reverse, by_state, by_slices, length=3):
    bodies = Bodies(effects=effects)
    carry, state = make_carry(name, by_state)
    slices = oplib.arange(2.0 * length).reshape(length, 2).div(4).requires_grad_(by_slices)
    last, ys = oplib.scan(getattr(bodies, name), carry, slices, reverse=reverse)
    flat, _ = oplib.pytree.tree_flatten((last, ys))
    total = sum((leaf.sin().sum() for leaf in flat if leaf.is_floating_point()), start=oplib.zeros(()))
    total.backward()
    values = [leaf.tolist() for leaf in flat]
    return values, [
        None if leaf.grad is None else leaf.grad.tolist() for leaf in (state, slices, bodies.weight)
    ]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("by_state", "by_slices"), [(True, True), (False, True), (True, False), (False, False)]
)
@pytest.mark.parametrize("name", ["plain", "with_integers", "unused"])
def test_values_and_gradients_are_those_of_the_loop_without_side_effects(name, by_state, by_slices, reverse):
    options = {"reverse": reverse, "by_state": by_state, "by_slices": by_slices}
    seen.clear()
    values, gradients = compute(name, effects=True, **options)
    jax.effects_barrier()
    assert len(seen) == 3
    expected_values, expected = compute(name, effects=False, **options)
    for got, due in zip(values, expected_values, strict=True):
        np.testing.assert_allclose(got, due, rtol=1e-6)
    for got, due in zip(gradients, expected, strict=True):
        assert (got is None) == (due is None)
        if due is not None:
            np.testing.assert_allclose(got, due, rtol=1e-5, atol=1e-7)


def test_a_loop_of_no_steps_has_gradients():
    got = compute("plain", effects=True, reverse=False, by_state=True, by_slices=True, length=0)
    assert got == compute("plain", effects=False, reverse=False, by_state=True, by_slices=True, length=0)


def test_complex_gradients_and_second_derivatives_are_those_of_the_loop():
    def run(x, *, effects):
        bodies = Bodies(effects=effects)
        return oplib.scan(lambda c, _: ((bodies.note(c.real), c * c * (1 + 2j))[1], None), x, length=2)[0]

    results = []
    for effects in (True, False):
        x = oplib.tensor(0.5 + 0.25j, requires_grad=True)
        (gradient,) = grad(run(x, effects=effects).abs(), x)
        results.append(gradient.item())
    np.testing.assert_allclose(*results, rtol=1e-5)

    def differentiate_twice(*, effects):
        bodies, slices = Bodies(effects=effects), oplib.tensor([2.0, 3.0])

        def body(carry, x):
            bodies.note(carry)
            return (carry * x).sin(), None

        return hessian(lambda x: oplib.scan(body, x, slices)[0], oplib.tensor(0.4)).item()

    np.testing.assert_allclose(
        differentiate_twice(effects=True), differentiate_twice(effects=False), rtol=1e-5
    )
