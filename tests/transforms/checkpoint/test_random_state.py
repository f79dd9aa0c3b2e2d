"""The repetition of a checkpoint draws the same numbers from every Generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.utils.checkpoint import checkpoint

from .regions import BOTH


def cube(x: Any, generator: Any = None) -> Any:
    """Three times its value over the argument is the gradient, if dropout keeps the same items again."""
    return F.dropout(x * x, generator=generator) * x


class Noisy:
    """A region that draws, and remembers what."""

    def __init__(self) -> None:
        self.drawn: list[Any] = []

    def __call__(self, x: Any) -> Any:
        noise = oplib.rand(2)
        self.drawn.append(noise.tolist())
        return (x * noise).exp()


@BOTH
def test_random_numbers_are_the_same_again_and_the_generator_goes_on_where_it_was(
    x: Any, reentrant: bool
) -> None:
    region = Noisy()
    oplib.manual_seed(0)
    result = checkpoint(region, x, use_reentrant=reentrant, preserve_rng_state=True)
    between = oplib.rand(2).tolist()
    result.sum().backward()
    after = oplib.rand(2).tolist()
    first, again = region.drawn
    assert first == again
    oplib.manual_seed(0)
    assert [oplib.rand(2).tolist() for _ in range(3)] == [first, between, after]


@BOTH
def test_the_random_state_can_be_left_alone(x: Any, reentrant: bool) -> None:
    region = Noisy()
    oplib.manual_seed(0)
    checkpoint(region, x, use_reentrant=reentrant, preserve_rng_state=False).sum().backward()
    first, again = region.drawn
    assert first != again


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("generator", [None, oplib.Generator()], ids=["global", "own"])
def test_a_region_drops_the_same_items_again_and_leaves_the_generator_alone(
    generator: Any, use_reentrant: bool
) -> None:
    leaf = oplib.ones(40, requires_grad=True)
    y = checkpoint(lambda x: cube(x, generator), leaf, use_reentrant=use_reentrant)
    after = (generator or oplib.default_generator).get_state()
    y.sum().backward()
    assert (generator or oplib.default_generator).get_state() == after
    np.testing.assert_array_equal(leaf.grad.numpy(), 3 * y.detach().numpy())


def test_without_preserving_it_drops_other_items() -> None:
    leaf = oplib.ones(40, requires_grad=True)
    y = checkpoint(cube, leaf, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    assert not np.array_equal(leaf.grad.numpy(), 3 * y.detach().numpy())


def test_under_jit_a_region_repeats_the_draws_of_a_generator_from_a_key() -> None:
    @jax.jit
    def step(array: Any, key: Any) -> Any:
        generator = oplib.Generator.from_key(key)
        x = oplib.Tensor.from_array(array, requires_grad=True)
        y = checkpoint(lambda a: cube(a, generator), x, use_reentrant=False)
        y.sum().backward()
        return y.array, x.grad.array

    y, gradient = step(jnp.ones(40), jax.random.key(0))
    np.testing.assert_array_equal(gradient, 3 * y)
    assert 0 < (np.asarray(y) == 0).sum() < 40


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_in_a_map_a_region_repeats_the_draws_of_each_example(randomness: Any) -> None:
    leaf = oplib.ones(3, 40, requires_grad=True)
    y = oplib.vmap(lambda x: checkpoint(cube, x, use_reentrant=False), randomness=randomness)(leaf)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), 3 * y.detach().numpy())
    assert len(np.unique(y.detach().numpy(), axis=0)) == (1 if randomness == "same" else 3)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_in_oplib_jit_a_region_repeats_its_draws_in_a_backward_outside(is_recorded: bool) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        oplib.manual_seed(0)
        weight, own = oplib.full((8,), 0.5, requires_grad=True), oplib.Generator().manual_seed(1)

        def region(x: Any) -> Any:
            return cube(x * weight) + cube(x * weight, own)

        call = wrap(lambda x: checkpoint(region, x, use_reentrant=False).sum())
        found = []
        for turn in range(2):
            value = call(oplib.ones(8) + turn)
            (slope,) = oplib.autograd.grad(value, weight, create_graph=is_recorded)
            found += [value.item(), slope.tolist(), oplib.rand(1).item(), oplib.rand(1, generator=own).item()]
            if is_recorded:
                found += oplib.autograd.grad((slope**2).sum(), weight)[0].tolist()
        return found

    for found, expected in zip(run(oplib.jit), run(lambda function: function), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
