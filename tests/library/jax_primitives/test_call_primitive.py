"""``checkify`` finds the checks inside of kernels, and the op keeps its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import oplib
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry

GOOD, BAD = jnp.array([1.0, 2.0]), jnp.array([1.0, -2.0])

pytestmark = pytest.mark.spec("D.37")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def make(
    rules: str = "formula", *, is_checked: bool = True, checks_rules: bool = True, **options: Any
) -> CustomOpDef:
    """A logarithm whose derivative is 7 by its rule, and JAX's by ``autograd="derive"``."""

    def log(x: jax.Array) -> jax.Array:
        if is_checked:
            checkify.check(jnp.all(x > 0), "x must be positive")
        return jnp.log(x)

    of_rule = log if checks_rules else jnp.log
    op = custom_op(log) if options.pop("local", False) else custom_op(f"checked::{rules}", log, **options)
    if rules == "formula":
        op.register_autograd(lambda ctx, g: 7 * g)
    elif rules == "jvp":
        op.register_jvp(lambda p, t: (of_rule(p[0]), 7 * t[0]))
    elif rules == "derive":
        op.register_autograd("derive")
    elif rules == "forward":

        def forward(ctx: Any, x: Any) -> Any:
            return of_rule(x)

        op.register_autograd(lambda ctx, g: 7 * g, forward=forward)
    elif rules == "batched":
        op.register_autograd(lambda ctx, g: 7 * g)
        op.register_vmap(lambda info, dims, x: (op(x), dims[0]))
    return op


RULES = ["formula", "jvp", "derive", "forward", "batched"]
WAYS: dict[str, Callable[[Any], Any]] = {
    "call": lambda op: op,
    "jit": jax.jit,
    "vmap": jax.vmap,
    "vmap of vmap": lambda op: lambda x: jax.vmap(jax.vmap(op))(x[None])[0],
    "jvp": lambda op: lambda x: jax.jvp(op, (x,), (x,))[0],
    "grad": lambda op: jax.grad(lambda x: op(x).sum()),
    "scan": lambda op: lambda x: jax.lax.scan(lambda carry, _: (op(carry), 0), x, None, 1)[0],
    "cond": lambda op: lambda x: jax.lax.cond(x[0] > 0, op, jnp.cos, x),
    "checkpoint": lambda op: jax.grad(lambda x: jax.checkpoint(op)(x).sum()),
}


class TestChecks:
    @pytest.mark.matrix(3)
    @pytest.mark.parametrize("rules", RULES)
    @pytest.mark.parametrize("way", WAYS)
    def test_a_check_in_a_kernel_is_found(self, way: str, rules: str) -> None:
        checked = checkify.checkify(WAYS[way](make(rules)))
        assert checked(GOOD)[0].get() is None
        assert "x must be positive" in (jax.jit(checked)(BAD)[0].get() or "")

    @pytest.mark.parametrize("way", WAYS)
    def test_a_check_of_a_local_op_is_found(self, way: str) -> None:
        checked = checkify.checkify(WAYS[way](make(local=True)))
        assert checked(GOOD)[0].get() is None
        assert "x must be positive" in (checked(BAD)[0].get() or "")

    def test_a_check_in_a_kernel_of_plain_python_is_found(self) -> None:
        error, _ = checkify.checkify(make(compile=False))(BAD)
        assert "x must be positive" in (error.get() or "")

    def test_a_check_of_a_kernel_on_tensors_is_found(self) -> None:
        @custom_op("checked::tensors")
        def log(x: oplib.Tensor) -> oplib.Tensor:
            checkify.check(jnp.all(x.array > 0), "x must be positive")
            return oplib.log(x)

        assert "x must be positive" in (checkify.checkify(log.arrays)(BAD)[0].get() or "")

    @pytest.mark.matrix(3)
    @pytest.mark.parametrize("rules", RULES)
    @pytest.mark.parametrize("way", WAYS)
    def test_float_checks_see_a_nan_of_a_kernel(self, way: str, rules: str) -> None:
        run = WAYS[way](make(rules, is_checked=False))
        checked = checkify.checkify(run, errors=checkify.float_checks)
        assert checked(GOOD)[0].get() is None
        assert "primitive: log" in (checked(BAD)[0].get() or "")

    def test_a_division_by_zero_is_seen(self) -> None:
        @custom_op("checked::divide")
        def divide(x: jax.Array, y: jax.Array) -> jax.Array:
            return x / y

        error, _ = checkify.checkify(divide, errors=checkify.div_checks)(GOOD, GOOD * 0)
        assert "division by zero" in (error.get() or "")


class TestRules:
    @pytest.mark.parametrize("rules", RULES)
    def test_the_gradient_of_a_checked_op_is_that_of_its_rule(self, rules: str) -> None:
        op = make(rules, checks_rules=False)

        def value(x: Any) -> Any:
            error, result = checkify.checkify(op)(x)
            return result.sum(), error

        for differentiate in (jax.grad(value, has_aux=True), jax.jit(jax.grad(value, has_aux=True))):
            gradient, error = differentiate(GOOD)
            np.testing.assert_allclose(gradient, 1 / GOOD if rules == "derive" else [7, 7])
            assert error.get() is None
            assert "x must be positive" in (differentiate(BAD)[1].get() or "")

    @pytest.mark.parametrize("rules", RULES)
    def test_it_is_mapped_and_differentiated_again(self, rules: str) -> None:
        op = make(rules, checks_rules=False)

        def value(x: Any) -> Any:
            return checkify.checkify(op)(x)[1]

        due = 1 / GOOD if rules == "derive" else [7, 7]
        np.testing.assert_allclose(jax.vmap(jax.grad(value))(GOOD), due)
        np.testing.assert_allclose(jax.jvp(value, (GOOD,), (jnp.ones(2),))[1], due)
        second = jax.vmap(jax.grad(jax.grad(lambda x: value(x) ** 2 / 2)))(GOOD)
        expected = (1 - jnp.log(GOOD)) / GOOD**2 if rules == "derive" else [49, 49]
        np.testing.assert_allclose(second, expected, rtol=1e-6)

    def test_a_gradient_inside_is_that_of_its_rule(self) -> None:
        error, gradient = checkify.checkify(jax.grad(lambda x: make()(x).sum()))(GOOD)
        assert error.get() is None
        np.testing.assert_allclose(gradient, [7, 7])

    def test_an_op_without_a_derivative_says_so(self) -> None:
        op = make("none")
        with pytest.raises(oplib.errors.MissingRuleError, match="checked::none"):
            jax.grad(lambda x: checkify.checkify(op)(x)[1].sum())(GOOD)

    def test_a_constant_op_has_a_zero_gradient(self) -> None:
        op = make("constant")
        op.register_autograd(constant="because it counts")
        gradient = jax.grad(lambda x: checkify.checkify(op)(x)[1].sum())(GOOD)
        np.testing.assert_array_equal(gradient, [0, 0])
