"""Rules of public libraries that take functions, or whose derivative is implicit, as ops of oplib.

Each is compared with the function of the library where it is installed, or with its derivative in plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.ode import odeint

import oplib
from tests.ecosystem.packages import require

optax = require("optax")
pytestmark = [pytest.mark.usefixtures("forget_ops", "with_64_bits"), pytest.mark.spec("D.34")]
each_wrap = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])


def draw(place: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(jax.random.key(5), place), shape, "float64")


def check(wrap: Any, mine: Any, due: Any, *arguments: Any, rtol: float = 1e-6) -> None:
    """Compares values, gradients, and gradients of a batch."""
    places = tuple(range(len(arguments)))

    def weigh(function: Any) -> Any:
        return lambda *given: (function(*given) * jnp.cos(jnp.arange(function(*given).size))).sum()

    gradient, expected = (jax.grad(weigh(function), places) for function in (mine, due))
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, 1.1 * leaf]), arguments)
    for found, wanted, given in (
        (mine, due, arguments),
        (gradient, expected, arguments),
        (jax.vmap(gradient), jax.vmap(expected), batch),
    ):
        pairs = zip(jax.tree.leaves(wrap(found)(*given)), jax.tree.leaves(wanted(*given)), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-8)


@pytest.mark.slow
@each_wrap
def test_the_minimum_of_a_function_as_in_jaxopt(wrap: Any) -> None:
    """``jaxopt.implicit_diff.custom_root`` of the optimality condition of a solver."""

    @oplib.custom_op("public::argmin")
    def argmin(f: Callable[..., jax.Array], start: jax.Array) -> jax.Array:
        def step(x: Any, _: Any) -> Any:
            return x - jnp.linalg.solve(jax.hessian(f)(x), jax.grad(f)(x)), None

        return jax.lax.scan(step, start, length=20)[0]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.f, ctx.x = inputs[0], output

    @argmin.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        u = -jnp.linalg.solve(jax.hessian(ctx.f)(ctx.x), g)
        _, pull = jax.vjp(lambda f: jax.grad(f)(ctx.x), ctx.f)
        return pull(u)[0], None

    def ridge(a: Any, b: Any, weight: Any) -> Any:
        return argmin(lambda x: ((a @ x - b) ** 2).sum() + weight * (x**2).sum(), jnp.zeros(2))

    def in_closed_form(a: Any, b: Any, weight: Any) -> Any:
        return jnp.linalg.solve(a.T @ a + weight * jnp.eye(2), a.T @ b)

    check(wrap, ridge, in_closed_form, draw(0, 3, 2), draw(1, 3), jnp.float64(0.3))


@pytest.mark.slow
@each_wrap
def test_the_solution_of_a_linear_system_as_in_lineax(wrap: Any) -> None:
    """``lineax.linear_solve`` of a ``FunctionLinearOperator`` that is positive definite, by CG."""

    @oplib.custom_op("public::solve")
    def solve(operator: Callable[..., jax.Array], b: jax.Array) -> jax.Array:
        return jax.scipy.sparse.linalg.cg(operator, b, tol=1e-14, maxiter=50)[0]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.operator, ctx.x = inputs[0], output

    @solve.register_autograd(setup_context=save, nonlinear=True)
    def backward(ctx: Any, g: Any) -> Any:
        u = solve(ctx.operator, g)  # the operator is symmetric
        return jax.vjp(lambda operator: operator(ctx.x), ctx.operator)[1](-u)[0], u

    def through_op(a: Any, b: Any) -> Any:
        return solve(lambda v: a.T @ (a @ v) + v, b)

    check(wrap, through_op, lambda a, b: jnp.linalg.solve(a.T @ a + jnp.eye(3), b), draw(2, 4, 3), draw(3, 3))


@pytest.mark.slow
@each_wrap
def test_a_bisection_as_in_jaxopt(wrap: Any) -> None:
    """``jaxopt.Bisection``, whose steps have no derivative at all."""

    @oplib.custom_op("public::bisect")
    def bisect(f: Callable[..., jax.Array], low: jax.Array, high: jax.Array) -> jax.Array:
        def halve(ends: Any, _: Any) -> Any:
            middle = ends.mean(0)
            return jnp.where(f(middle) > 0, ends.at[1].set(middle), ends.at[0].set(middle)), None

        return jax.lax.scan(halve, jnp.stack([low, high]), length=60)[0].mean(0)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.f, ctx.x = inputs[0], output

    @bisect.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        slope = jax.jvp(ctx.f, (ctx.x,), (jnp.ones_like(ctx.x),))[1]
        return jax.vjp(lambda f: f(ctx.x), ctx.f)[1](-g / slope)[0], None, None

    def root(w: Any) -> Any:
        return bisect(lambda x: x**3 - w**2, jnp.float64(0), jnp.float64(10))

    check(wrap, root, lambda w: jnp.cbrt(w**2), jnp.float64(3))


@pytest.mark.slow
@each_wrap
def test_the_adjoint_of_jax_experimental_ode(wrap: Any) -> None:
    """``odeint``, whose rule converts the closure of its function by hand."""

    @oplib.custom_op("public::flow")
    def flow(f: Callable[..., jax.Array], x: jax.Array, end: float) -> jax.Array:
        return odeint(f, x, jnp.array([0, end]), rtol=1e-10, atol=1e-10)[1]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        (ctx.f, _, ctx.end), ctx.x = inputs, output

    @flow.register_autograd(setup_context=save, nonlinear=True)
    def backward(ctx: Any, g: Any) -> Any:
        def move_back(state: Any, t: Any) -> Any:
            x, adjoint, _ = state
            slope, pull = jax.vjp(lambda f, x: f(x, -t), ctx.f, x)
            change, moved = pull(adjoint)
            return -slope, moved, change

        state = ctx.x, g, jax.tree.map(jnp.zeros_like, ctx.f)
        ends = odeint(move_back, state, jnp.array([-ctx.end, 0]), rtol=1e-10, atol=1e-10)
        _, adjoint, change = jax.tree.map(lambda leaf: leaf[1], ends)
        return change, adjoint, None

    def move(w: Any) -> Any:
        return lambda x, t: jnp.tanh(w @ x) * jnp.cos(t) - x

    def due(w: Any, x: Any) -> Any:
        return odeint(lambda x, t, w: move(w)(x, t), x, jnp.array([0, 1.5]), w, rtol=1e-10, atol=1e-10)[1]

    check(wrap, lambda w, x: flow(move(w), x, 1.5), due, draw(4, 2, 2), draw(5, 2), rtol=1e-5)


@pytest.mark.slow
@each_wrap
def test_the_projection_on_a_simplex_of_optax(wrap: Any) -> None:
    """Its rule is that of ``sparsemax``: the cotangent less its mean, on the support."""

    @oplib.custom_op("public::project")
    def project(x: jax.Array) -> jax.Array:
        ordered = -jnp.sort(-x)
        counts = jnp.arange(1, x.size + 1)
        levels = (jnp.cumsum(ordered) - 1) / counts
        return jnp.maximum(x - levels[jnp.sum(ordered > levels) - 1], 0)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @project.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        support = ctx.saved_tensors[0] > 0
        return support * (g - (g * support).sum() / support.sum())

    check(wrap, project, optax.projections.projection_simplex, draw(6, 6))


@pytest.mark.slow
@each_wrap
def test_the_perturbed_argmax_of_optax(wrap: Any) -> None:
    """``optax.perturbations.make_perturbed_fun`` with Gumbel noise, by the score of the same samples."""
    noise, samples, sigma = optax.perturbations.Gumbel(), 50, 0.5
    key = jax.random.key(3)

    def pick(scores: Any) -> Any:
        return jax.nn.one_hot(jnp.argmax(scores), scores.size)

    @oplib.custom_op("public::perturbed")
    def perturbed(f: Callable[..., jax.Array], x: jax.Array, noises: jax.Array) -> jax.Array:
        return jax.vmap(lambda one: f(x + sigma * one))(noises).mean(0)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.f, ctx.x, ctx.noises = inputs

    @perturbed.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        values = jax.vmap(lambda one: ctx.f(ctx.x + sigma * one))(ctx.noises)
        slopes = jax.grad(lambda noises: noise.log_prob(noises).sum())(ctx.noises)
        return None, -((values @ g)[:, None] * slopes).mean(0) / sigma, None

    def through_op(x: Any) -> Any:
        return perturbed(
            lambda y: pick(y * jnp.ones_like(x)), x, noise.sample(key, (samples, *x.shape), x.dtype)
        )

    def by_hand(x: Any) -> Any:
        noises = noise.sample(key, (samples, *x.shape), x.dtype)
        moved = jax.lax.stop_gradient(x + sigma * noises)
        values = jax.vmap(pick)(moved)
        weights = jax.vmap(noise.log_prob)((moved - x) / sigma)
        score = weights.reshape(samples, -1).sum(1)
        return (values * (1 + score - jax.lax.stop_gradient(score))[:, None]).mean(0)

    check(wrap, through_op, by_hand, draw(7, 5))
