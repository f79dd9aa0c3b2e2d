"""Random numbers in ``oplib.vmap``: drawn for each example, for all alike, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import TracingError

BATCH = np.full((3, 40), 0.5, np.float32)
WAYS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda a: oplib.rand(40),
    "randperm": lambda a: oplib.randperm(40),
    "bernoulli of what is mapped": oplib.bernoulli,
    "dropout": F.dropout,
}
FURTHER: dict[str, Callable[[Any], Any]] = {
    "multinomial": lambda a: oplib.multinomial(a, 20),
    "in place, of what is mapped": lambda a: a.clone().exponential_(),
    "randn_like": oplib.randn_like,
    "randint_like": lambda a: oplib.randint_like(a, 1000),
    "bernoulli of what is not": lambda a: oplib.bernoulli(oplib.full((40,), 0.5)),
    "normal": lambda a: oplib.normal(a, a),
    "normal of numbers": lambda a: oplib.normal(0.0, 1.0, (40,)),
    "random_": lambda a: a.clone().random_(1000),
    "dropout of channels": lambda a: F.dropout1d(a[:, None]),
    "alpha dropout": lambda a: F.alpha_dropout(a, training=True),
    "attention": lambda a: F.scaled_dot_product_attention(
        oplib.zeros(1, 2), oplib.zeros(20, 2), (a * oplib.arange(40.0).sin()).reshape(20, 2), dropout_p=0.5
    ),
    "a generator made inside": lambda a: oplib.rand(40, generator=oplib.Generator().manual_seed(1)),
}


def count_different(function: Callable[[Any], Any], randomness: Any) -> int:
    """Into how many different rows a map of three equal examples comes out."""
    found = oplib.vmap(function, randomness=randomness)(oplib.tensor(BATCH)).numpy()
    assert len(found) == 3
    return len(np.unique(found.reshape(3, -1), axis=0))


def slowly(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("way", [*WAYS, *slowly(FURTHER)])
def test_each_way_to_draw_does_as_randomness_says(way: str) -> None:
    function = {**WAYS, **FURTHER}[way]
    assert count_different(function, "same") == 1
    assert count_different(function, "different") == 3


@pytest.mark.parametrize("way", [*WAYS, *FURTHER])
def test_each_way_to_draw_raises_unless_randomness_is_said(way: str) -> None:
    state = oplib.get_rng_state()
    with pytest.raises(TracingError, match="vmap: called random operation while in randomness error mode"):
        oplib.vmap({**WAYS, **FURTHER}[way])(oplib.tensor(BATCH))
    assert oplib.get_rng_state() == state


@pytest.mark.parametrize("training", [{"p": 0.0}, {"training": False}])
def test_a_dropout_that_drops_nothing_needs_no_randomness(training: dict[str, Any]) -> None:
    np.testing.assert_array_equal(
        oplib.vmap(lambda a: F.dropout(a, **training))(oplib.tensor(BATCH)).numpy(), BATCH
    )


def test_different_numbers_do_not_go_into_a_tensor_that_is_not_mapped() -> None:
    outside = oplib.zeros(40)
    with pytest.raises(TracingError, match="uniform_"):
        oplib.vmap(lambda a: a + outside.uniform_(), randomness="different")(oplib.tensor(BATCH))
    assert outside.tolist() == [0.0] * 40


def test_the_same_numbers_do_go_into_a_tensor_that_is_not_mapped() -> None:
    outside = oplib.zeros(40)
    found = oplib.vmap(lambda a: a * 0 + outside.uniform_(), randomness="same")(oplib.tensor(BATCH)).numpy()
    np.testing.assert_array_equal(found, np.stack([outside.numpy()] * 3))


def test_chunks_draw_the_same_from_a_generator_of_ones_own_too() -> None:
    generator = oplib.Generator().manual_seed(0)
    draw = oplib.vmap(lambda a: oplib.rand(2, generator=generator), randomness="same", chunk_size=2)
    assert len(np.unique(draw(oplib.zeros(3)).numpy(), axis=0)) == 1


def test_a_mapped_dropout_differentiates_by_what_it_kept() -> None:
    leaf = oplib.ones(3, 40, requires_grad=True)
    y = oplib.vmap(F.dropout, randomness="different")(leaf)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), y.detach().numpy())


@pytest.mark.slow
def test_levels_say_each_for_itself_whether_numbers_differ() -> None:
    def draw(outer: Any, inner: Any) -> Any:
        rows = oplib.zeros(2, 3)
        drawn = oplib.vmap(oplib.vmap(lambda a: oplib.rand(()), randomness=inner), randomness=outer)(
            rows
        ).numpy()
        return len(np.unique(drawn)), [len(np.unique(row)) for row in drawn]

    assert draw("same", "same") == (1, [1, 1])
    assert draw("different", "same") == (2, [1, 1])
    assert draw("same", "different") == (3, [3, 3])
    assert draw("different", "different") == (6, [3, 3])


def test_a_draw_repeats_what_the_seed_gives_and_goes_on() -> None:
    def draw(generator: Any) -> Any:
        return oplib.vmap(lambda a: oplib.rand(2, generator=generator), randomness="different")(
            oplib.zeros(2)
        ).tolist()

    generator = oplib.Generator().manual_seed(3)
    first = draw(generator)
    assert first != draw(generator)
    assert first == draw(oplib.Generator().manual_seed(3))


def test_a_draw_in_another_trace_inside_is_refused() -> None:
    def function(a: Any) -> Any:
        jax.jit(lambda: oplib.rand(2).array)()
        return a

    with pytest.raises(TracingError, match="Generator: a draw inside a trace"):
        oplib.vmap(function, randomness="same")(oplib.zeros(2))
