"""Ops that draw random numbers: repetition, distribution and derivatives.

A generator of random bits takes a third of a second to compile, so a run takes some of the ops, drawn by
``OPLIB_TEST_SEED``; ``OPLIB_OPS_SAMPLES=all`` takes them all.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import ArgumentError, AutogradError, TracingError
from oplib.library.op_objects.overload import list_overloads
from oplib.tensor import Tensor
from tests.builtin.samples.drawing import Sample
from tests.builtin.samples.random import SAMPLES
from tests.seed import draw_cases

OPS = {op.name(): op for op in list_overloads() if op.namespace == "oplib" and op.record.draws}
PASSING_ON = (
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "sdpa_dropout",
    "rrelu_with_slopes",
)


def choose(count: int, *, without: tuple[str, ...] = (), among: tuple[str, ...] = ()) -> list[Any]:
    """Returns ``count`` samples, or all if the environment says so."""
    cases = [
        (f"oplib::{name}", sample)
        for name, samples in SAMPLES.items()
        for sample in samples
        if name not in without and (not among or name in among)
    ]
    return draw_cases(cases, count, "random numbers")


KEYS = jax.random.split(jax.random.key(7), 2)


def name_case(value: Any) -> str:
    return str(value).removeprefix("oplib::") if isinstance(value, str) else ""


def seeded(seed: int = 0) -> oplib.Generator:
    return oplib.Generator().manual_seed(seed)


def place_arrays(sample: Sample) -> list[int]:
    return [place for place, value in enumerate(sample.args) if isinstance(value, np.ndarray)]


def call(name: str, sample: Sample, key: Any, *arrays: Any) -> Any:
    """Calls an op with other arrays, or its own."""
    args = list(sample.args)
    for place, array in zip(place_arrays(sample), arrays, strict=False):
        args[place] = array
    return OPS[name](*args, **sample.kwargs, generator=key)


def list_arrays(sample: Sample) -> list[Any]:
    return [jnp.asarray(sample.args[place]) for place in place_arrays(sample)]


# Every op that draws --------------------------------------------------------------------------------------


def test_every_op_that_draws_has_samples() -> None:
    assert {name.removeprefix("oplib::") for name in OPS} == set(SAMPLES)


@pytest.mark.parametrize(("name", "sample"), choose(5), ids=name_case)
def test_a_key_determines_the_draws_in_both_worlds_under_jit_and_vmap(name: str, sample: Sample) -> None:
    arrays = list_arrays(sample)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        first = call(name, sample, KEYS[0], *arrays)
        on_tensors = call(name, sample, KEYS[0], *map(Tensor.from_array, arrays))
        second = call(name, sample, KEYS[1], *arrays)
        mapped = jax.jit(jax.vmap(lambda key: call(name, sample, key, *arrays)))(KEYS)
    assert not first.weak_type
    assert first.dtype == on_tensors.dtype == mapped.dtype
    for one, other in ((first, on_tensors.numpy()), (first, mapped[0]), (second, mapped[1])):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5)
    if first.size > 2:
        assert not np.array_equal(first, mapped[1])


@pytest.mark.parametrize(
    ("name", "sample"),
    choose(2, without=(*PASSING_ON, "multinomial")),
    ids=name_case,
)
def test_draws_have_no_gradient_by_their_parameters(name: str, sample: Sample) -> None:
    leaves = [
        Tensor.from_array(array, requires_grad=array.dtype.kind in "fc") for array in list_arrays(sample)
    ]
    drawn = call(name, sample, KEYS[0], *leaves)
    if drawn.requires_grad:
        drawn.backward(Tensor.from_array(jnp.ones_like(drawn.array)))
    moved = [leaf.grad.numpy().any() for leaf in leaves if leaf.grad is not None]
    assert len(moved) == (sum(leaf.requires_grad for leaf in leaves) if drawn.requires_grad else 0)
    assert not any(moved)


@pytest.mark.parametrize(("name", "sample"), choose(1, among=PASSING_ON), ids=name_case)
def test_the_gradient_of_a_dropout_is_that_of_finite_differences(name: str, sample: Sample) -> None:
    direction = np.linspace(0.5, 1.5, sample.args[0].size).reshape(sample.args[0].shape)
    with jax.enable_x64(True):
        x = jnp.asarray(sample.args[0], jnp.float64)
        rest = [array.astype(jnp.float64) for array in list_arrays(sample)[1:]]

        def run(moved: Any) -> Any:
            return jnp.sum(jnp.sin(call(name, sample, KEYS[0], moved, *rest)))

        value_and_grad = jax.jit(jax.value_and_grad(run))
        found = float(jnp.sum(value_and_grad(x)[1] * direction))
        leaf = Tensor.from_array(x, requires_grad=True)
        call(name, sample, KEYS[0], leaf, *map(Tensor.from_array, rest)).sin().sum().backward()
        on_tape = float((leaf.grad.array * direction).sum())
        ends = [value_and_grad(x + step * direction)[0] for step in (1e-6, -1e-6)]
        expected = float(ends[0] - ends[1]) / 2e-6
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert on_tape == pytest.approx(expected, rel=1e-5, abs=1e-5)


# Distributions --------------------------------------------------------------------------------------------

COUNT = 20_000
ROOT = math.sqrt(COUNT)


def distance(values: np.ndarray, distribution: Any) -> float:
    """Returns the largest distance of an empirical distribution from a given one (Kolmogorov and Smirnov)."""
    expected = distribution(np.sort(values.astype(np.float64)))
    steps = np.arange(len(values) + 1) / len(values)
    return max(np.abs(expected - steps[1:]).max(), np.abs(expected - steps[:-1]).max())


def of_normal(mean: float, deviation: float) -> Any:
    return lambda x: 0.5 * (1 + np.vectorize(math.erf)((x - mean) / deviation / math.sqrt(2)))


CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "uniform_": (lambda x, g: x.uniform_(-1, 3, generator=g), lambda x: (x + 1) / 4),
    "normal_": (lambda x, g: x.normal_(2, 3, generator=g), of_normal(2, 3)),
    "exponential_": (lambda x, g: x.exponential_(2, generator=g), lambda x: 1 - np.exp(-2 * x)),
    "log_normal_": (lambda x, g: x.log_normal_(0, 0.5, generator=g), lambda x: of_normal(0, 0.5)(np.log(x))),
    "cauchy_": (lambda x, g: x.cauchy_(1, 2, generator=g), lambda x: 0.5 + np.arctan((x - 1) / 2) / np.pi),
    "rand": (lambda x, g: oplib.rand_like(x, generator=g), lambda x: x),
    "randn": (lambda x, g: oplib.randn(COUNT, generator=g), of_normal(0, 1)),
    "normal": (lambda x, g: oplib.normal(x + 2, x + 3, generator=g), of_normal(2, 3)),
    "normal of numbers": (lambda x, g: oplib.normal(2, 3, (COUNT,), generator=g), of_normal(2, 3)),
}


@pytest.mark.parametrize("case", CONTINUOUS)
def test_continuous_numbers_have_their_distribution(case: str) -> None:
    draw, distribution = CONTINUOUS[case]
    values = draw(oplib.zeros(COUNT), seeded()).numpy()
    assert distance(values, distribution) < 1.63 / ROOT  # a correct one exceeds this once in a hundred seeds
    assert distance(values, lambda x: distribution(x * 0.9)) > 1.63 / ROOT  # a wrong one is found


@pytest.mark.slow
def test_halves_are_drawn_finer_than_they_are() -> None:
    drawn = oplib.zeros(COUNT, dtype=oplib.float16).exponential_(generator=seeded())
    assert drawn.dtype == oplib.float16
    assert drawn.min().item() > 0
    assert distance(drawn.numpy(), lambda x: 1 - np.exp(-x)) < 1.63 / ROOT


def test_geometric_numbers_have_their_frequencies() -> None:
    drawn = oplib.zeros(COUNT, dtype=oplib.int32).geometric_(0.25, generator=seeded()).numpy()
    found = np.bincount(drawn, minlength=9)[:9] / COUNT
    np.testing.assert_allclose(found, [0, *(0.25 * 0.75**times for times in range(8))], atol=4 / ROOT)


def test_bernoulli_numbers_have_the_probabilities_of_their_places() -> None:
    chances = oplib.tensor([0.0, 0.1, 0.5, 1.0])
    drawn = oplib.zeros(COUNT, 4).bernoulli_(chances, generator=seeded()).numpy()
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), chances.numpy(), atol=4 / ROOT)
    assert drawn[:, 0].sum() == 0
    assert drawn[:, 3].all()
    ones = oplib.zeros(COUNT, dtype=oplib.bool).bernoulli_(0.3, generator=seeded())
    assert ones.float().mean().item() == pytest.approx(0.3, abs=4 / ROOT)


def test_places_are_drawn_with_their_weights() -> None:
    weights = oplib.tensor([[1.0, 0.0, 3.0, 4.0], [0.0, 5.0, 0.0, 0.0]])
    drawn = oplib.multinomial(weights, COUNT, replacement=True, generator=seeded()).numpy()
    np.testing.assert_allclose(np.bincount(drawn[0], minlength=4) / COUNT, [0.125, 0, 0.375, 0.5], atol=0.02)
    assert (drawn[1] == 1).all()


def test_without_replacement_no_place_is_drawn_twice_and_the_first_has_its_weight() -> None:
    weights = oplib.tensor([1.0, 0.0, 3.0, 4.0]).expand(COUNT, 4)
    drawn = oplib.multinomial(weights, 3, generator=seeded()).numpy()
    assert all(len(set(row)) == 3 for row in drawn[:100].tolist())
    assert 1 not in drawn
    np.testing.assert_allclose(
        np.bincount(drawn[:, 0], minlength=4) / COUNT, [0.125, 0, 0.375, 0.5], atol=0.02
    )
    # Of the places left after 3, weighted 4 of 8, comes 2 with 3 of the 4 that remain.
    second = drawn[drawn[:, 0] == 3][:, 1]
    assert (second == 2).mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.slow
def test_many_places_are_drawn_as_evenly_as_few() -> None:
    drawn = oplib.multinomial(oplib.ones(1000), 100_000, replacement=True, generator=seeded()).numpy()
    found = np.bincount(drawn, minlength=1000)
    assert ((found - 100) ** 2 / 100).sum() < 1143  # chi squared of 999 exceeds this once in a thousand seeds


def test_randperm_gives_each_order_as_often() -> None:
    generator = seeded()
    orders = [tuple(oplib.randperm(3, generator=generator).tolist()) for _ in range(300)]
    assert len(set(orders)) == 6
    assert min(map(orders.count, orders)) > 25


def test_randperm_takes_dtypes_that_hold_its_numbers() -> None:
    assert oplib.randperm(4, dtype=oplib.float32, requires_grad=True).requires_grad
    assert sorted(oplib.randperm(256, dtype=oplib.uint8).tolist()) == list(range(256))
    assert oplib.randperm(0).shape == (0,)


@pytest.mark.slow
def test_random_integers_reach_the_ends_of_their_range() -> None:
    generator = seeded()
    drawn = oplib.zeros(5000, dtype=oplib.int8).random_(generator=generator).numpy()
    assert (drawn.min(), drawn.max()) == (0, 127)
    drawn = oplib.zeros(5000, dtype=oplib.int8).random_(-128, None, generator=generator).numpy()
    assert (drawn.min(), drawn.max()) == (-128, 127)
    drawn = oplib.randint(-(2**31), 2**31, (5000,), generator=generator).numpy().astype(np.int64)
    assert drawn.min() < -(2**31) * 0.99
    assert drawn.max() > 2**31 * 0.99
    assert set(oplib.zeros(500).random_(to=3, generator=generator).tolist()) == {0, 1, 2}


# Generators and traces ------------------------------------------------------------------------------------


def draw_all(x: Any, generator: Any) -> list[Any]:
    """Draws in several ways."""
    return [
        oplib.rand(2, generator=generator),
        oplib.randint(0, 9, (2,), generator=generator),
        oplib.randperm(4, generator=generator),
        oplib.multinomial(x, 1, generator=generator),
        x.clone().exponential_(generator=generator),
        F.dropout(x, generator=generator),
        F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5, generator=generator),
    ]


HALF = jnp.full(3, 0.5)


@pytest.mark.slow
def test_a_step_that_is_given_a_key_draws_anew_for_each_key_and_the_same_for_the_same() -> None:
    @jax.jit
    def step(key: Any) -> list[Any]:
        return [one.array for one in draw_all(Tensor.from_array(HALF), oplib.Generator.from_key(key))]

    first, again, other = step(KEYS[0]), step(KEYS[0]), step(KEYS[1])
    eager = draw_all(Tensor.from_array(HALF), oplib.Generator.from_key(KEYS[0]))
    for one, same, outside in zip(first, again, eager, strict=True):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_allclose(one, outside.numpy(), rtol=1e-6)
    assert not all(np.array_equal(one, differs) for one, differs in zip(first, other, strict=True))


def test_a_draw_under_a_trace_without_a_generator_raises_with_the_cure() -> None:
    state = oplib.get_rng_state()
    for draw in (oplib.bernoulli, F.dropout, lambda x: oplib.normal(x, x)):
        with pytest.raises(TracingError, match=r"Generator: a draw inside a trace .*from_key\(key\) inside"):
            jax.jit(lambda x, draw=draw: draw(Tensor.from_array(x)).array)(HALF)
    assert oplib.get_rng_state() == state


def test_a_seed_repeats_every_way_to_draw() -> None:
    x = Tensor.from_array(HALF)
    first, again = draw_all(x, seeded(3)), draw_all(x, seeded(3))
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.numpy(), same.numpy())


def test_the_global_generator_can_be_kept_and_gone_back_to() -> None:
    state = oplib.get_rng_state()
    try:
        oplib.manual_seed(11)
        assert oplib.initial_seed() == 11
        kept = oplib.get_rng_state()
        first = draw_all(Tensor.from_array(HALF), None)
        oplib.set_rng_state(kept)
        for one, same in zip(first, draw_all(Tensor.from_array(HALF), None), strict=True):
            np.testing.assert_array_equal(one.numpy(), same.numpy())
        assert oplib.seed() == oplib.initial_seed()
    finally:
        oplib.set_rng_state(state)


# Dropout --------------------------------------------------------------------------------------------------

DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)


@pytest.mark.filterwarnings("ignore:dropout")
@pytest.mark.parametrize("dropout", DROPOUTS, ids=lambda one: one.__name__)
def test_nothing_is_drawn_where_nothing_is_to_be_done(dropout: Any) -> None:
    x, generator = oplib.ones(2, 3, 4), seeded()
    state = generator.get_state()
    assert dropout(x, 0.5, training=False, generator=generator) is x
    assert dropout(x, 0.0, training=True, generator=generator) is x
    assert not dropout(x, 1.0, training=True, generator=generator).numpy().any()
    assert generator.get_state() == state


def test_dropout_keeps_the_mean_and_so_many_items() -> None:
    dropped = F.dropout(oplib.ones(COUNT), 0.2, generator=seeded()).numpy()
    assert set(np.unique(dropped)) == {0.0, 1.25}
    assert (dropped == 0).mean() == pytest.approx(0.2, abs=4 / ROOT)


@pytest.mark.parametrize(
    ("dropout", "shape", "lead"),
    [
        (F.dropout1d, (50, 40, 3), 2),
        (F.dropout1d, (2000, 3), 1),
        (F.dropout2d, (50, 40, 2, 3), 2),
        (F.dropout3d, (50, 40, 2, 1, 3), 2),
        (F.dropout3d, (2000, 2, 1, 3), 1),
    ],
)
def test_a_channel_is_dropped_as_a_whole(dropout: Any, shape: tuple[int, ...], lead: int) -> None:
    dropped = dropout(oplib.ones(shape), 0.25, generator=seeded()).numpy()
    channels = dropped.reshape(math.prod(shape[:lead]), -1)
    assert (channels == channels[:, :1]).all()
    assert (channels[:, 0] == 0).mean() == pytest.approx(0.25, abs=0.04)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = oplib.randn(COUNT, generator=seeded())
    dropped = F.alpha_dropout(x, 0.3, training=True, generator=seeded(1)).numpy()
    assert dropped.mean() == pytest.approx(0, abs=6 / ROOT)
    assert dropped.var() == pytest.approx(1, abs=10 / ROOT)


def test_dropout_in_place_writes_into_its_argument() -> None:
    leaf = oplib.ones(50, requires_grad=True)
    x = leaf * 1
    y = F.dropout(x, 0.5, inplace=True, generator=seeded())
    assert y is x
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), y.detach().numpy())
    with pytest.raises(AutogradError, match="dropout: a leaf Variable that requires grad"):
        F.dropout(leaf, inplace=True)


def test_the_weights_of_attention_are_dropped_and_scaled() -> None:
    query, value = oplib.zeros(1, 1, 4), oplib.eye(8)[None]
    key = oplib.zeros(1, 8, 4)
    found = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, generator=seeded()).numpy()
    assert set(np.unique(found)) == {0.0, 0.25}  # a weight is 1/8, or twice that
    nothing = F.scaled_dot_product_attention(query, key, value, dropout_p=1.0)
    assert not nothing.numpy().any()


@pytest.mark.slow
def test_attention_with_dropout_shares_heads() -> None:
    query, key = oplib.ones(1, 4, 3, 2), oplib.ones(1, 2, 5, 2)
    found = F.scaled_dot_product_attention(
        query, key, key, dropout_p=0.1, enable_gqa=True, generator=seeded()
    )
    assert found.shape == (1, 4, 3, 2)


def test_dropout_is_an_op_on_arrays_too_and_writes_into_tensors_only():
    array, key = jnp.ones(8), jax.random.key(0)
    dropped = F.dropout(array, 0.5, generator=key)
    assert isinstance(dropped, jax.Array)
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert jax.grad(lambda a: F.dropout(a, 0.5, generator=key).sum())(array).tolist() == dropped.tolist()
    with pytest.raises(ArgumentError, match="dropout_: only a Tensor can be written in place"):
        F.dropout(array, 0.5, inplace=True, generator=key)
