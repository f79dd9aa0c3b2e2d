"""The ops of the digits demo, each alone: values and derivatives against plain functions in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from ops import branches, cross_entropy, linear, rms_norm, sgd_, shift_images

pytestmark = pytest.mark.usefixtures("with_64_bits")


@dataclass(frozen=True)
class Case:
    """An op as a function of its differentiable arrays, and the same function in plain ``jnp``."""

    name: str
    op: Callable[..., Any]
    plain: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


TARGETS = np.array([2, 0, 1, 1], np.int32)


def plain_cross_entropy(logits, reduction):
    losses = -jax.nn.log_softmax(logits)[jnp.arange(len(TARGETS)), TARGETS]
    return {"mean": losses.mean, "sum": losses.sum, "none": lambda: losses}[reduction]()


def plain_rms_norm(x, weight, eps):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def plain_linear(x, weight, bias, activation):
    y = x @ weight + bias
    return jax.nn.relu(y) if activation == "relu" else y


def make_cross_entropy_case(reduction):
    def op(logits):
        # A constant among Tensors, and an array among arrays.
        return cross_entropy(logits, jnp.asarray(TARGETS), reduction)

    return Case(
        f"cross_entropy {reduction}", op, lambda logits: plain_cross_entropy(logits, reduction), ((4, 3),)
    )


def make_linear_cases(activation):
    def with_bias(x, weight, bias):
        return linear(x, weight, bias, activation=activation)

    def without_bias(x, weight):
        return linear(x, weight, activation=activation)

    return [
        Case(
            f"linear {activation}",
            with_bias,
            lambda *arrays: plain_linear(*arrays, activation),
            ((4, 3), (3, 2), (2,)),
        ),
        Case(
            f"linear {activation} without bias",
            without_bias,
            lambda x, weight: plain_linear(x, weight, 0, activation),
            ((4, 3), (3, 2)),
        ),
    ]


CASES = [
    Case("rms_norm", rms_norm, lambda x, weight: plain_rms_norm(x, weight, 1e-6), ((4, 3), (3,))),
    Case(
        "rms_norm of three axes",
        lambda x, weight: rms_norm(x, weight, eps=0.5),
        lambda x, weight: plain_rms_norm(x, weight, 0.5),
        ((2, 4, 3), (3,)),
    ),
    *[make_cross_entropy_case(reduction) for reduction in ("mean", "sum", "none")],
    *[case for activation in ("none", "relu") for case in make_linear_cases(activation)],
    Case(
        "branches",
        lambda x, *weights: branches(x, list(weights)),
        lambda x, *weights: [x @ weight for weight in weights],
        ((4, 3), (3, 2), (3, 1), (3, 5)),
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def draw(case: Case, rng: np.random.Generator, *, batch: tuple[int, ...] = ()) -> list[jax.Array]:
    return [jnp.asarray(rng.normal(size=batch + shape)) for shape in case.shapes]


def draw_cotangents(outputs: list[Any]) -> list[np.ndarray]:
    """Draws a fixed weight per output, so that no error of a gradient cancels."""
    rng = np.random.default_rng(11)
    return [rng.normal(size=output.shape) for output in outputs]


def to_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def differentiate(fn: Callable[..., Any], case: Case) -> Callable[..., tuple[jax.Array, ...]]:
    """Returns JAX's gradient of the weighted sum of all outputs."""
    return jax.grad(reduce_to_number(fn), tuple(range(len(case.shapes))))


def reduce_to_number(fn: Callable[..., Any]) -> Callable[..., Any]:
    def total(*inputs):
        outputs = to_list(fn(*inputs))
        return sum((output * g).sum() for output, g in zip(outputs, draw_cotangents(outputs), strict=True))

    return total


def differentiate_numerically(
    fn: Callable[..., Any], arrays: list[np.ndarray], step=1e-6
) -> list[np.ndarray]:
    grads = []
    for place, array in enumerate(arrays):
        grad = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            up, down = [one.copy() for one in arrays], [one.copy() for one in arrays]
            up[place][index] += step
            down[place][index] -= step
            grad[index] = (fn(*up) - fn(*down)) / (2 * step)
        grads.append(grad)
    return grads


def assert_close(got, expected, rtol=1e-10, atol=1e-10):
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=atol)


def to_tensors(arrays):
    return [oplib.Tensor.from_array(array, requires_grad=True) for array in arrays]


def to_arrays(tensors):
    return [tensor.detach().array for tensor in tensors]


@every_case
def test_it_agrees_with_the_plain_function(case, rng):
    arrays = draw(case, rng)
    assert_close(case.op(*arrays), case.plain(*arrays))


@every_case
def test_on_the_tape_its_gradients_are_those_of_jax(case, rng):
    arrays = draw(case, rng)
    tensors = to_tensors(arrays)
    outputs = to_list(case.op(*tensors))
    oplib.autograd.backward(outputs, [oplib.tensor(g, dtype=oplib.float64) for g in draw_cotangents(outputs)])
    assert_close([tensor.grad.array for tensor in tensors], jax.jit(differentiate(case.plain, case))(*arrays))


@every_case
def test_its_gradients_are_those_of_finite_differences(case, rng):
    arrays = draw(case, rng)
    mine = differentiate(case.op, case)(*arrays)
    expected = differentiate_numerically(jax.jit(reduce_to_number(case.op)), list(map(np.asarray, arrays)))
    assert_close(mine, expected, rtol=1e-6, atol=1e-7)


@every_case
def test_under_jit_its_gradients_are_those_of_jax(case, rng):
    arrays = draw(case, rng)
    mine = jax.jit(differentiate(case.op, case))(*arrays)
    assert_close(mine, jax.jit(differentiate(case.plain, case))(*arrays))


@every_case
def test_under_vmap_its_gradients_are_those_of_jax(case, rng):
    arrays = draw(case, rng, batch=(3,))
    mine = jax.jit(jax.vmap(differentiate(case.op, case)))(*arrays)
    assert_close(mine, jax.jit(jax.vmap(differentiate(case.plain, case)))(*arrays))


@every_case
def test_its_forward_derivative_comes_from_its_formula(case, rng):
    arrays, tangents = draw(case, rng), draw(case, rng)
    mine, expected = (
        jax.jit(lambda xs, ts, fn=fn: jax.jvp(fn, xs, ts))(tuple(arrays), tuple(tangents))
        for fn in (case.op, case.plain)
    )
    assert_close(mine, expected)


@every_case
def test_its_second_derivatives_are_those_of_jax(case, rng):
    arrays = draw(case, rng)
    tensors = to_tensors(arrays)
    outputs = to_list(case.op(*tensors))
    cotangents = [oplib.tensor(g, dtype=oplib.float64) for g in draw_cotangents(outputs)]
    grads = oplib.autograd.grad(outputs, tensors, cotangents, create_graph=True)
    seeds = [oplib.tensor(g, dtype=oplib.float64) for g in draw_cotangents(grads)]
    curved = [(grad, seed) for grad, seed in zip(grads, seeds, strict=True) if grad.requires_grad]
    oplib.autograd.backward(*map(list, zip(*curved, strict=True)))
    mine = [
        0 * array if tensor.grad is None else tensor.grad.array
        for tensor, array in zip(tensors, arrays, strict=True)
    ]
    assert_close(mine, jax.jit(differentiate(differentiate(case.plain, case), case))(*arrays))


class TestRmsNorm:
    def test_the_norm_is_saved_and_not_computed_again(self):
        backward = jax.vjp(rms_norm, jnp.ones((4, 3)), jnp.ones(3))[1]
        compiled = jax.jit(backward).lower(jnp.ones((4, 3))).as_text()
        assert "multiply" in compiled
        assert "rsqrt" not in compiled


class TestCrossEntropy:
    def test_logits_of_a_thousand_do_not_overflow(self):
        logits = oplib.tensor([[1000.0, 0.0], [-1000.0, 0.0]], dtype=oplib.float64, requires_grad=True)
        loss = cross_entropy(logits, oplib.tensor([1, 0]), "none")
        loss.sum().backward()
        assert loss.tolist() == [1000.0, 1000.0]
        assert logits.grad.tolist() == [[1.0, -1.0], [-1.0, 1.0]]

    def test_integer_targets_take_part_without_a_gradient(self):
        logits, targets = oplib.ones(2, 3, requires_grad=True), oplib.tensor([0, 2])
        cross_entropy(logits, targets).backward()
        assert targets.grad is None
        assert logits.grad is not None

    def test_another_reduction_is_refused_by_name(self):
        with pytest.raises(RuntimeError, match=r"digits::cross_entropy.*'reduction'.*'average'"):
            cross_entropy(oplib.ones(2, 3), oplib.tensor([0, 2]), "average")


class TestBranches:
    def test_an_unused_branch_gets_zeros(self):
        x, used, unused = to_tensors([jnp.ones((1, 2)), jnp.ones((2, 2)), jnp.ones((2, 3))])
        branches(x, [used, unused])[0].sum().backward()
        assert unused.grad.tolist() == [[0.0] * 3] * 2
        assert used.grad.tolist() == [[1.0, 1.0]] * 2

    def test_only_members_that_require_grad_get_one(self):
        x, learned = to_tensors([jnp.ones((1, 2)), jnp.ones((2, 2))])
        fixed = oplib.ones(2, 3, dtype=oplib.float64)
        sum(y.sum() for y in branches(x, [fixed, learned])).backward()
        assert fixed.grad is None
        assert learned.grad.tolist() == [[1.0, 1.0]] * 2
        assert x.grad.tolist() == [[5.0, 5.0]]


class TestSgd:
    def make_state(self, rng):
        params = to_tensors(draw(CASES[-1], rng))
        return params, [oplib.zeros_like(param) for param in params]

    def test_it_agrees_with_the_textbook_step(self, rng):
        params, velocities = self.make_state(rng)
        expected, momenta = [param.numpy() for param in map(oplib.Tensor.detach, params)], [0.0] * len(params)
        for rate in (0.5, 0.25, 0.125):
            grads = draw(CASES[-1], rng)
            with oplib.no_grad():
                assert sgd_(params, velocities, to_tensors(grads), lr=rate, momentum=0.5) is None
            momenta = [
                0.5 * momentum + np.asarray(grad) for momentum, grad in zip(momenta, grads, strict=True)
            ]
            expected = [param - rate * momentum for param, momentum in zip(expected, momenta, strict=True)]
        assert_close(to_arrays(params), expected)
        assert_close(to_arrays(velocities), momenta)

    def test_it_writes_in_place(self, rng):
        params, velocities = self.make_state(rng)
        shared, version = params[0].detach(), params[0]._version
        with oplib.no_grad():
            sgd_(params, velocities, to_tensors(draw(CASES[-1], rng)), lr=0.1)
        assert params[0]._version > version
        assert shared.tolist() == params[0].tolist()
        assert params[0].is_leaf
        assert params[0].requires_grad

    def test_a_rate_that_changes_at_every_step_compiles_nothing_new(self, rng, caplog):
        params, velocities = self.make_state(rng)
        grads = to_tensors(draw(CASES[-1], rng))
        with oplib.no_grad():
            sgd_(params, velocities, grads, lr=1.0)
            jnp.asarray(1.0)  # compiles JAX's creation of scalars, once per process
            with jax.log_compiles():
                for step in range(20):
                    sgd_(params, velocities, grads, lr=0.7 / (step + 3))
                assert "Compiling" not in caplog.text
                sgd_(params, velocities, grads, lr=1.0, momentum=0.625)
                assert "Compiling" in caplog.text

    def test_while_grad_mode_is_on_it_may_not_write_into_parameters(self, rng):
        params, velocities = self.make_state(rng)
        with pytest.raises(RuntimeError, match=r"digits::sgd_: a leaf Variable.*oplib.no_grad\(\)"):
            sgd_(params, velocities, velocities, lr=0.1)


class TestShiftImages:
    IMAGES = np.arange(1.0, 19.0).reshape(2, 3, 3)
    OFFSETS = np.array([[1, -1], [0, 5]])
    SHIFTED = np.array([[[0, 0, 0], [2, 3, 0], [5, 6, 0]], np.zeros((3, 3))])

    def test_it_moves_each_image_by_its_own_offset(self):
        shifted = shift_images(oplib.tensor(self.IMAGES, dtype=oplib.float64), oplib.tensor(self.OFFSETS))
        assert shifted.tolist() == self.SHIFTED.tolist()

    def test_under_jit_it_is_called_back(self):
        assert_close(jax.jit(shift_images)(self.IMAGES, self.OFFSETS), self.SHIFTED)

    def test_under_vmap_it_moves_batches_of_images(self):
        images, offsets = np.stack([self.IMAGES] * 2), np.stack([self.OFFSETS, 0 * self.OFFSETS])
        assert_close(jax.vmap(shift_images)(images, offsets), np.stack([self.SHIFTED, self.IMAGES]))

    def test_its_gradient_is_declared_to_be_zero(self):
        images = oplib.ones(2, 3, 3, requires_grad=True)
        assert not shift_images(images, oplib.tensor(self.OFFSETS)).requires_grad
