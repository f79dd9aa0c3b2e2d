"""A Generator among the arguments of an op: a call draws a key, at which kernel and rules start."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.errors import ArgumentError, AutogradError, RegistrationValueError, TracingError
from oplib.library import custom_op, eval_shape, opcheck

KEY = jax.random.key(3)
X = jnp.arange(1.0, 5.0)


def seeded(seed: int = 0) -> oplib.Generator:
    return oplib.Generator().manual_seed(seed)


def make_noisy(name: str) -> Any:
    """An op whose formula draws the numbers of its kernel again, and saves only the key."""

    @custom_op(name)
    def noisy(x: jax.Array, generator: oplib.Generator | None = None) -> jax.Array:
        return x * jax.random.uniform(generator.next_key(), x.shape)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape = inputs[0].shape
        ctx.save_for_backward(inputs[1].next_key())

    def backward(ctx: Any, g: Any) -> Any:
        (key,) = ctx.saved_tensors
        return g * jax.random.uniform(key, ctx.shape), None

    noisy.register_autograd(backward, setup_context=setup)
    return noisy


def test_a_seed_repeats_a_call_and_each_call_draws_anew() -> None:
    noisy, generator = make_noisy("keys::seeds"), seeded()
    first, second = noisy(X, generator), noisy(X, generator)
    assert first.tolist() != second.tolist()
    np.testing.assert_array_equal(noisy(X, seeded()), first)
    np.testing.assert_array_equal(noisy(oplib.Tensor.from_array(X), seeded()).numpy(), first)


def test_without_a_generator_the_global_one_is_drawn_from() -> None:
    noisy, state = make_noisy("keys::default"), oplib.get_rng_state()
    first = noisy(X)
    oplib.set_rng_state(state)
    np.testing.assert_array_equal(noisy(X), first)
    assert oplib.get_rng_state() != state
    oplib.set_rng_state(state)


def test_a_key_stands_for_a_generator_under_jit_vmap_and_export() -> None:
    noisy = make_noisy("keys::traced")
    keys = jax.random.split(KEY, 2)
    compiled = jax.jit(lambda x, key: noisy(x, key))
    found = jax.jit(jax.vmap(lambda key: noisy(X, key)))(keys)
    for place in range(2):
        np.testing.assert_array_equal(compiled(X, keys[place]), noisy(X, keys[place]))
        np.testing.assert_allclose(found[place], noisy(X, keys[place]), rtol=1e-6)
    np.testing.assert_array_equal(jax.export.export(compiled)(X, KEY).call(X, KEY), noisy(X, KEY))


def test_a_formula_draws_the_numbers_of_its_kernel_again() -> None:
    noisy = make_noisy("keys::formula")
    drawn = noisy(X, KEY) / X
    leaf = oplib.Tensor.from_array(X, requires_grad=True)
    noisy(leaf, KEY).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), drawn, rtol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: noisy(x, KEY).sum()))(X)
    np.testing.assert_allclose(gradient, drawn, rtol=1e-6)
    tangent = jax.jit(lambda x: jax.jvp(lambda y: noisy(y, KEY), (x,), (x,))[1])(X)
    np.testing.assert_allclose(tangent, noisy(X, KEY), rtol=1e-6)
    with forward_ad.dual_level():
        dual = noisy(forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.Tensor.from_array(X)), KEY)
        np.testing.assert_allclose(forward_ad.unpack_dual(dual).tangent.numpy(), noisy(X, KEY), rtol=1e-6)


@pytest.mark.slow
def test_the_rules_of_an_op_that_draws_can_be_checked() -> None:
    found = opcheck(make_noisy("keys::checked"), (X, seeded()), test_utils="ALL")
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.slow
def test_a_wrong_formula_of_an_op_that_draws_is_found() -> None:
    noisy = make_noisy("keys::wrong")
    noisy.register_autograd(lambda ctx, g: (g, None), setup_context=lambda ctx, inputs, output: None)
    with pytest.raises(oplib.errors.OpCheckError, match="test_gradients failed"):
        opcheck(noisy, (X, seeded()))


def test_a_query_of_shapes_draws_nothing() -> None:
    generator = seeded()
    state = generator.get_state()
    assert eval_shape(make_noisy("keys::shapes"), X, generator).shape == (4,)
    assert generator.get_state() == state


def test_a_call_that_is_not_compiled_draws_the_same() -> None:
    @custom_op("keys::plain", compile=False)
    def plain(x: jax.Array, generator: oplib.Generator) -> jax.Array:
        return x * jax.random.uniform(generator.next_key(), x.shape)

    np.testing.assert_array_equal(plain(X, KEY), make_noisy("keys::compiled")(X, KEY))


def test_an_eager_kernel_gets_a_generator_that_its_rules_find_where_the_kernel_did() -> None:
    @custom_op("keys::eager")
    def eager(x: oplib.Tensor, generator: oplib.Generator | None = None) -> oplib.Tensor:
        return x * oplib.rand(x.shape, generator=generator)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.drawn = oplib.rand(inputs[0].shape, generator=inputs[1])

    eager.register_autograd(lambda ctx, g: g * ctx.drawn, setup_context=setup)
    leaf = oplib.Tensor.from_array(X, requires_grad=True)
    y = eager(leaf)
    y.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy() * X, y.detach().numpy(), rtol=1e-6)
    compiled = jax.jit(lambda x, key: eager(x, key))
    np.testing.assert_allclose(compiled(X, KEY), eager(X, KEY), rtol=1e-6)


def test_a_host_kernel_gets_the_generator_of_numpy_under_a_trace_too() -> None:
    @custom_op("keys::host")
    def host(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (x + rng.normal(size=x.shape)).astype(x.dtype)

    host.register_fake(lambda x, rng: jnp.empty_like(x))
    first = host(X, seeded())
    np.testing.assert_array_equal(host(X, seeded()), first)
    assert not np.array_equal(host(X, seeded(1)), first)
    np.testing.assert_array_equal(jax.jit(lambda x, key: host(x, key))(X, KEY), host(X, KEY))


def test_an_op_without_tensors_draws_too() -> None:
    @custom_op("keys::factory")
    def factory(n: int, generator: oplib.Generator | None = None) -> jax.Array:
        return jax.random.uniform(generator.next_key(), (n,))

    made = factory(3, seeded())
    assert isinstance(made, oplib.Tensor)
    np.testing.assert_array_equal(factory.arrays(3, seeded()), made.numpy())


def test_a_batching_rule_gets_a_key_for_each_example_where_they_differ() -> None:
    seen: list[Any] = []

    @custom_op("keys::batched")
    def batched(x: jax.Array, generator: oplib.Generator) -> jax.Array:
        return x

    @batched.register_vmap
    def rule(info: Any, in_dims: Any, x: Any, generator: oplib.Generator) -> Any:
        seen.append((info.randomness, in_dims[1], generator.next_key().shape))
        return x, in_dims[0]

    for randomness in ("same", "different"):
        oplib.vmap(lambda a: batched(a, seeded()), randomness=randomness)(oplib.zeros(2, 3))
    assert [seen[0], seen[-1]] == [("same", None, ()), ("different", 0, (2,))]


def test_a_generator_from_outside_a_trace_is_refused_and_does_not_move() -> None:
    noisy, generator = make_noisy("keys::outside"), seeded()
    state = generator.get_state()
    with pytest.raises(TracingError, match=r"Generator: a draw inside a trace .*Pass a key as an argument"):
        jax.jit(lambda x: noisy(x, generator))(X)
    assert generator.get_state() == state


@pytest.mark.parametrize("given", [3, "seed", jnp.zeros(2, jnp.uint32)])
def test_a_value_that_is_no_generator_is_refused(given: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r"argument 'generator'.*Pass None or a Generator, or a key of jax"
    ):
        make_noisy("keys::refused")(X, given)
    with pytest.raises(ArgumentError, match=r"Generator.from_key: expected a key"):
        oplib.Generator.from_key(given)


def test_a_gradient_for_a_generator_is_refused() -> None:
    noisy = make_noisy("keys::gradient")
    noisy.register_autograd(lambda ctx, g: (g, g), setup_context=lambda ctx, inputs, output: None)
    leaf = oplib.Tensor.from_array(X, requires_grad=True)
    with pytest.raises(AutogradError, match="for argument 'generator', which is not a tensor"):
        noisy(leaf, KEY).sum().backward()


def test_a_kernel_that_draws_is_not_cut_into_parts_that_would_draw_the_same() -> None:
    noisy = make_noisy("keys::sharded")
    with pytest.raises(
        RegistrationValueError, match=r"every part would draw the same.*'generator'.*Leave the"
    ):
        noisy.register_sharding("i -> i")
