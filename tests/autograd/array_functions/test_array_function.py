"""Array functions: one jit, vjps that are array functions again, and plans made while they are traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.autograd.array_functions.array_function import ArrayFunction, make_gather

X, Y = jnp.array([0.3, -0.7]), jnp.array([2.0, 5.0])


def product_and_sine(x, y):
    return x * y, jnp.sin(x)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)])
def test_a_vjp_gives_the_wanted_gradients_of_the_given_cotangents(wanted, given) -> None:
    function = ArrayFunction(product_and_sine, "f")
    cotangents = (jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    got = function.vjp(wanted, given)(X, Y, *[c for c, has in zip(cotangents, given, strict=True) if has])
    full = tuple(c if has else jnp.zeros(2) for c, has in zip(cotangents, given, strict=True))
    expected = [g for g, want in zip(jax.vjp(product_and_sine, X, Y)[1](full), wanted, strict=True) if want]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("function", [lambda z: z * z, lambda z: jnp.exp(z) * z.conj(), jnp.abs, jnp.real])
def test_the_gradient_of_a_real_loss_points_uphill_in_the_complex_plane(function) -> None:
    z, step = jnp.array([1 + 2j, -0.5 + 0.3j]), 1e-3
    cotangent = jnp.ones_like(function(z))
    (grad,) = ArrayFunction(lambda z: (function(z),), "f").vjp((True,), (True,))(z, cotangent)

    def slope(direction: complex) -> np.ndarray:
        values = [np.real(function(z + sign * step * direction)) for sign in (1, -1)]
        return (values[0] - values[1]) / (2 * step)

    np.testing.assert_allclose(grad, slope(1) + 1j * slope(1j), atol=1e-3, rtol=1e-3)


def test_the_vjp_of_a_vjp_is_the_second_derivative() -> None:
    function = ArrayFunction(lambda x: (jnp.sin(x),), "sin")
    second = function.vjp((True,), (True,)).vjp((True, False), (True,))
    np.testing.assert_allclose(second(X, jnp.ones(2), jnp.ones(2))[0], -np.sin(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "sources"),
    [
        (lambda x, y: (x + y,), ()),
        (lambda x, y: (x * y,), (0, 1)),
        (lambda x, y: (jnp.sin(x) + y,), (0,)),
        (lambda x, y: (jnp.sum(x) + 2 * y,), ()),
    ],
)
def test_a_plan_saves_the_inputs_that_the_derivative_reads_and_no_others(function, sources) -> None:
    plan, _ = ArrayFunction(function, "f").recorder((True, True))(X, Y)
    assert plan.sources == sources


def test_what_is_saved_depends_on_what_is_wanted() -> None:
    function = ArrayFunction(lambda x, y: (x * y,), "mul")
    assert function.recorder((True, False))(X, Y)[0].sources == (1,)
    assert function.recorder((False, True))(X, Y)[0].sources == (0,)


def test_a_derivative_that_only_hands_on_its_cotangent_is_not_sent_through_xla() -> None:
    add = ArrayFunction(lambda x, y: (x + y,), "add")
    plan, _ = add.recorder((True, True))(jnp.ones(2), jnp.ones(2))
    cotangent = jnp.array([3.0, 4.0])
    results = plan.backward((True,))(cotangent)
    assert results[0] is cotangent
    assert results[1] is cotangent


def test_a_derivative_that_sums_over_a_broadcast_axis_is_computed() -> None:
    add = ArrayFunction(lambda x, y: (x + y,), "add")
    plan, _ = add.recorder((True, True))(jnp.ones((3, 2)), jnp.ones(2))
    results = plan.backward((True,))(jnp.ones((3, 2)))
    assert results[1].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("is_formula", [False, True])
def test_what_one_gradient_does_not_depend_on_has_none_by_it_but_zeros_by_an_output(is_formula) -> None:
    function = ArrayFunction(product_and_sine, "f", is_formula=is_formula)
    plan, *_ = function.recorder((True, True))(X, Y)
    residuals = plan.pick((X, Y, None, None))
    by_x, by_y = plan.backward((False, True))(*residuals, jnp.ones(2))
    np.testing.assert_allclose(by_x, np.cos(X), rtol=1e-6)
    assert by_y is None if is_formula else by_y.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(plan.backward((True, False))(*residuals, jnp.ones(2))[1], X)


@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)])
def test_a_jvp_gives_the_tangents_by_the_inputs_that_have_one(given) -> None:
    tangents = (jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    own = [tangent for tangent, has in zip(tangents, given, strict=True) if has]
    full = tuple(t if has else jnp.zeros(2) for t, has in zip(tangents, given, strict=True))
    expected = jax.jvp(product_and_sine, (X, Y), full)[1]
    np.testing.assert_allclose(
        ArrayFunction(product_and_sine, "f").jvp(given)(X, Y, *own), expected, rtol=1e-6
    )


def test_a_jvp_gives_none_for_what_has_no_tangent() -> None:
    function = ArrayFunction(lambda x: (x * 2, x > 0, None), "f")
    tangents = function.jvp((True,))(X, jnp.ones(2))
    assert tangents[0].tolist() == [2.0, 2.0]
    assert tangents[1:] == (None, None)


@pytest.mark.parametrize("indices", [[], [0], [2], [-1], [-3], [1, 0], [-1, 1]], ids=str)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_gather_picks_items_by_indices_that_may_count_from_the_end(kind, indices) -> None:
    items = kind("abc")
    assert [*make_gather(indices)(items)] == [items[index] for index in indices]
