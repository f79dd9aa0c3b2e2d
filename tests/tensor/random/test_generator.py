"""Generators: what they repeat, and that none is drawn from in a trace it does not belong to."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib import jit, vmap
from oplib.autograd import grad
from oplib.errors import ArgumentError, ArgumentTypeError, TracingError
from oplib.tensor import Generator, Tensor, default_generator, manual_seed, ones, rand, randn
from oplib.tensor.random.generator import initial_seed, seed as choose_seed, set_rng_state


@pytest.fixture
def global_state() -> Iterator[None]:
    state = default_generator.get_state()
    yield
    default_generator.set_state(state)


def draw(generator: Generator) -> list[float]:
    return rand(4, generator=generator).tolist()


def test_a_seed_repeats_its_numbers_and_another_gives_others() -> None:
    assert draw(Generator().manual_seed(3)) == draw(Generator().manual_seed(3))
    assert draw(Generator().manual_seed(3)) != draw(Generator().manual_seed(4))


def test_threads_never_draw_the_same_numbers() -> None:
    generator = Generator()
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: generator.advance()[1], range(2000)))
    assert len(set(drawn)) == 2000


def test_no_two_draws_are_alike() -> None:
    generator = Generator()
    drawn = [tuple(draw(generator)) for _ in range(20)]
    assert len(set(drawn)) == 20


@pytest.mark.usefixtures("global_state")
def test_manual_seed_starts_the_global_generator_over() -> None:
    assert manual_seed(5) is default_generator
    first = rand(3).tolist(), randn(3).tolist()
    manual_seed(5)
    assert (rand(3).tolist(), randn(3).tolist()) == first


def test_all_64_bits_of_a_seed_count() -> None:
    seeds = (0, 1, 2**31, 2**32, 2**32 + 1, 2**63, 2**64 - 2)
    assert len({tuple(draw(Generator().manual_seed(seed))) for seed in seeds}) == len(seeds)
    assert draw(Generator().manual_seed(-1)) == draw(Generator().manual_seed(2**64 - 1))


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(ArgumentError, match=f"manual_seed: a seed has 64 bits. Got {seed}"):
        Generator().manual_seed(seed)


def test_seed_chooses_one_and_says_which() -> None:
    generator = Generator()
    seed = generator.seed()
    assert generator.initial_seed() == seed
    assert draw(generator) == draw(Generator().manual_seed(seed))


def test_the_seed_of_the_global_generator_is_known(global_state: None) -> None:
    manual_seed(7)
    assert initial_seed() == 7
    assert choose_seed() == initial_seed() != 7


def test_a_state_can_be_kept_and_gone_back_to() -> None:
    generator = Generator()
    draw(generator)
    state, twin = generator.get_state(), generator.clone_state()
    after = draw(generator)
    assert draw(generator.set_state(state)) == after
    assert draw(twin) == after


TRANSFORMS: dict[str, Any] = {
    "jit": lambda f: jax.jit(f)(1.0),
    "grad": lambda f: jax.grad(f)(1.0),
    "vmap": lambda f: jax.vmap(f)(jnp.ones(2)),
    "scan": lambda f: jax.lax.scan(lambda c, x: (c, f(x)), 0.0, jnp.ones(2)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("generator", [None, Generator()], ids=["global", "own"])
def test_a_generator_from_outside_is_not_advanced_inside_a_trace(transform: str, generator: Any) -> None:
    with pytest.raises(TracingError, match=r"Generator: a draw inside a trace .*oplib\.Generator\.from_key"):
        TRANSFORMS[transform](lambda x: x * rand((), generator=generator).array)


@pytest.mark.usefixtures("global_state")
def test_nor_is_it_seeded_there() -> None:
    with pytest.raises(TracingError, match="Generator: manual_seed inside a trace"):
        jax.jit(lambda: manual_seed(0) and None)()


def test_a_generator_from_a_traced_key_draws_anew_for_each_key() -> None:
    @jax.jit
    def sample(key: Any) -> Any:
        generator = Generator.from_key(key)
        return rand(3, generator=generator).array, rand(3, generator=generator).array

    first, second = sample(jax.random.key(0))
    other, _ = sample(jax.random.key(1))
    assert not np.allclose(first, second)
    assert not np.allclose(first, other)


def test_a_generator_made_in_a_trace_is_drawn_from_there() -> None:
    drawn = jax.jit(lambda: rand(3, generator=Generator().manual_seed(3)).array)()
    np.testing.assert_array_equal(drawn, rand(3, generator=Generator().manual_seed(3)).numpy())


def test_a_generator_in_vmap_draws_for_each_key() -> None:
    keys = jax.random.split(jax.random.key(0), 5)
    drawn = jax.vmap(lambda key: rand((), generator=Generator.from_key(key)).array)(keys)
    assert len(set(drawn.tolist())) == 5


def by_pickle(generator: Generator) -> Generator:
    return pickle.loads(pickle.dumps(generator))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, by_pickle])
@pytest.mark.parametrize("drawn", [0, 2])
def test_a_duplicate_goes_on_where_its_original_stood_and_is_another(duplicate: Any, drawn: int) -> None:
    generator = Generator().manual_seed(2**40 + 3)
    for _ in range(drawn):
        draw(generator)
    other = duplicate(generator)
    assert other.initial_seed() == generator.initial_seed()
    assert other.device == generator.device
    assert draw(other) == draw(generator)
    draw(other)
    assert draw(other) != draw(generator)


def test_a_duplicate_on_a_key_of_a_kind_of_its_own_draws_the_same() -> None:
    generator = Generator.from_key(jax.random.key(3, impl="rbg"))
    expected = draw(copy.deepcopy(generator))
    assert draw(by_pickle(generator)) == expected


def test_what_holds_a_generator_twice_holds_its_duplicate_twice() -> None:
    generator = Generator()
    first, second = copy.deepcopy([generator, generator])
    assert first is second


def test_a_generator_on_a_traced_key_is_copied_but_not_pickled() -> None:
    def twice(key: Any) -> Any:
        generator = Generator.from_key(key)
        with pytest.raises(TracingError, match="a traced key cannot be pickled"):
            pickle.dumps(generator)
        return rand(2, generator=copy.deepcopy(generator)).array - rand(2, generator=generator).array

    assert jax.jit(twice)(jax.random.key(0)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "state",
    [
        *(None, 3, (1, None), (1, None, -1), (-1, None, 0), (1, "key", 0), ("1", None, 0)),
        *((2**64, None, 0), (1, None, 2**32), (1, None, jnp.ones(3, int)), (1, None, jnp.ones(()))),
    ],
)
def test_a_generator_takes_no_state_that_it_did_not_give(state: Any) -> None:
    generator = Generator().manual_seed(5)
    with pytest.raises(ArgumentTypeError, match="set_state: expected a state from get_state"):
        generator.set_state(state)
    assert generator.initial_seed() == 5
    with pytest.raises(ArgumentTypeError, match="set_state: expected a state from get_state"):
        set_rng_state(state)


def test_a_key_on_a_device_draws_there():
    device = jax.devices()[-1]
    key = jax.random.key(3)
    there = Generator.from_key(jax.device_put(key, device))
    for _ in range(2):
        drawn = randn(4, generator=there)
        assert drawn.array.committed
        assert drawn.array.devices() == {device}
    expected = Generator.from_key(key)
    rand(4, generator=expected)
    assert drawn.tolist() == randn(4, generator=expected).tolist()


def test_a_key_of_a_mesh_draws_on_the_mesh():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("a",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    generator = Generator.from_key(jax.device_put(jax.random.key(3), spread))
    assert randn(4, generator=generator).array.devices() == {*jax.devices()}


@pytest.mark.devices(2)
@pytest.mark.parametrize("seed", [3, 2**40 + 3])
@pytest.mark.parametrize("make", [lambda one: one.start, lambda one: one.next_key()], ids=["start", "draw"])
def test_a_seeded_generator_does_not_stay_on_a_mesh(seed, make):
    mesh = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    generator, expected = Generator().manual_seed(seed), Generator().manual_seed(seed)
    with jax.set_mesh(mesh):
        make(generator)
    make(expected)
    drawn = randn(4, generator=generator)
    assert drawn.array.devices() == {jax.devices()[0]}
    assert not drawn.array.committed
    assert drawn.tolist() == randn(4, generator=expected).tolist()


@pytest.mark.devices(2)
def test_a_generator_first_used_in_a_map_does_not_stay_on_a_mesh():
    mesh = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    generator = Generator().manual_seed(3)
    with jax.set_mesh(mesh):
        vmap(lambda x: x + rand((), generator=generator), randomness="same")(ones(2))
    assert rand(4, generator=generator).array.devices() == {jax.devices()[0]}


@pytest.mark.devices(2)
@pytest.mark.usefixtures("global_state")
def test_a_compiled_call_on_a_mesh_leaves_later_draws_where_they_were():
    mesh = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    manual_seed(5)
    with jax.set_mesh(mesh):
        array = jax.device_put(jnp.ones((4, 6)), jax.sharding.PartitionSpec("a", None))
        x = Tensor.from_array(array, requires_grad=True)
        jit(lambda x: grad((x.t() * 2).sum(), x)[0])(x)
    z = randn(5, 3, 4, requires_grad=True)
    assert z.array.devices() == {jax.devices()[0]}
    found = vmap(lambda z: grad((z.t() ** 3).sum(), z, create_graph=True)[0])(z)
    np.testing.assert_allclose(found.detach().numpy(), 3 * z.detach().numpy() ** 2, rtol=1e-5)


def test_the_text_has_device_and_seed():
    assert repr(Generator().manual_seed(7)) == "<Generator on cpu, seed 7>"
