"""The check that a backward formula is linear in its cotangents, and the formulas that it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax

import oplib
from oplib.errors import AutogradError
from oplib.library import ops
from oplib.library.derivatives.linearity import require_linear, transpose_rule
from tests.library.derivatives import linear_formulas

X = jnp.array([0.3, -0.7, 1.1])
W = jnp.array([1.0, -2.0, 0.5])
PLACES = jnp.array([0, 5, 2])


def summed(g: Any) -> Any:
    return jax.lax.scan(lambda carry, v: (carry + v, carry), jnp.zeros(()), g)[1]


def offset(g: Any) -> Any:
    return jax.lax.scan(lambda carry, v: (carry + v, carry), jnp.ones(()), g)[1]


def late_offset(g: Any) -> Any:
    return jax.lax.scan(lambda c, v: ((c[0] + c[1], c[1] * 0 + 1), c[0]), (jnp.zeros(()), jnp.zeros(())), g)[
        1
    ]


LINEAR = {
    "a product": lambda x, g: g * x,
    "a sum of products": lambda x, g: g * jnp.cos(x) + g.sum() * x,
    "a mask": lambda x, g: jnp.where(x > 0, g, 0),
    "a matrix product": lambda x, g: jnp.outer(x, x) @ g,
    "a quotient": lambda x, g: g / (1 + x**2),
    "a subscript": lambda x, g: g[PLACES % 3],
    "a write into zeros": lambda x, g: jnp.zeros(3).at[PLACES].add(g),
    "a filled subscript": lambda x, g: g.at[PLACES].get(mode="fill", fill_value=0.0),
    "a loop": lambda x, g: summed(g * x),
    "a branch": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: v * 2, lambda v: -v, g),
    "a call": lambda x, g: jax.jit(lambda v: v * x)(g),
    "a checkpoint": lambda x, g: jax.checkpoint(lambda v: v * jnp.sin(x))(g),
    "a solution": lambda x, g: jnp.linalg.solve(jnp.diag(2 + x), g),
    "a triangular solution": lambda x, g: jax.scipy.linalg.solve_triangular(jnp.diag(2 + x), g),
    "a Fourier transform": lambda x, g: jnp.fft.irfft(jnp.fft.rfft(g * x), 3),
    "a derivative": lambda x, g: jax.jvp(jnp.sin, (x,), (g,))[1],
    "a sum of built-in ops": lambda x, g: ops.oplib.add.Tensor(ops.oplib.mul.Tensor(g, x), g),
    "half precision": lambda x, g: g.astype(jnp.bfloat16).astype(jnp.float32) * 2,
    "a function with its own derivative, of the residual": lambda x, g: jax.nn.silu(x) * g,
}
NOT_LINEAR = {
    "ignored": lambda x, g: jnp.ones(3),
    "a constant": lambda x, g: g * 2 + 0.1,
    "a residual": lambda x, g: g + x,
    "a fill": lambda x, g: g.at[PLACES].get(mode="fill", fill_value=7.0),
    "a write into ones": lambda x, g: jnp.ones(3).at[PLACES].add(g),
    "a loop that starts at one": lambda x, g: offset(g),
    "a loop that gets there": lambda x, g: late_offset(g),
    "a branch with a constant": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: v, lambda v: v + 1, g),
    "a cosine": lambda x, g: jnp.cos(g),
    "a power of zero": lambda x, g: g**0,
    "a square": lambda x, g: g**2,
    "a built-in op with a formula of its own": lambda x, g: ops.oplib.exp.default(g),
    "a product of built-in ops": lambda x, g: ops.oplib.mul.Tensor(g, g),
    "a product with itself": lambda x, g: g * g,
    "a product of two sums": lambda x, g: g.sum() * g,
    "an absolute value": lambda x, g: jnp.abs(g),
    "a sign": lambda x, g: jnp.sign(g) * x,
    "a mask by itself": lambda x, g: jnp.where(g > 0, g, 0),
    "a branch by itself": lambda x, g: jax.lax.cond(g[0] > 0, lambda v: v, lambda v: 2 * v, g),
    "a divisor": lambda x, g: x / g,
    "rounding": lambda x, g: g.astype(jnp.int32).astype(jnp.float32),
    "sorting": lambda x, g: jnp.sort(g),
    "a loop that squares": lambda x, g: jax.lax.scan(lambda c, v: (c * v, c), g.sum(), g)[1],
    "a function with its own derivative": lambda x, g: jax.nn.silu(g),
}


LINEAR |= linear_formulas.LINEAR
NOT_LINEAR |= linear_formulas.NOT_LINEAR

pytestmark = pytest.mark.spec("D.32")


def bind(formula: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any]]:
    return lambda residuals, grads: (formula(residuals[0], grads[0]),)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_formula_is_accepted_and_transposed(name: str) -> None:
    formula = LINEAR[name]
    rule = require_linear(bind(formula), (X,), (X,), "t::op")
    (found,) = transpose_rule(rule, (X,), (jnp.zeros(3),), (W,), "t::op")
    columns = [formula(X, unit) for unit in jnp.eye(3)]  # the values, not what JAX derives from them
    np.testing.assert_allclose(found, jnp.stack(columns) @ W, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_another_one_is_refused(name: str) -> None:
    with pytest.raises(AutogradError, match="t::op: no forward mode can be derived"):
        require_linear(bind(NOT_LINEAR[name]), (X,), (X,), "t::op")


@pytest.mark.parametrize("name", linear_formulas.NOT_TRANSPOSABLE)
def test_a_formula_that_jax_cannot_transpose_is_refused_then(name: str) -> None:
    rule = require_linear(bind(linear_formulas.NOT_TRANSPOSABLE[name]), (X,), (X,), "t::op")
    with pytest.raises(
        AutogradError, match=r"^t::op: no .*: 'while' at linear_formulas.py:\d+ cannot be transposed"
    ):
        jax.jit(lambda x: transpose_rule(rule, (x,), (jnp.zeros(3),), (W,), "t::op"))(X)


CUSTOM_VJP = "CustomVJPTraced" if getattr(jax.config, "jax_custom_vjp3", False) else "custom_vjp_call"
REASONS = {
    "a clip": "'max' at linear_formulas.py",
    "a custom_vjp": f"'{CUSTOM_VJP}' at linear_formulas.py",
    "a custom_jvp that hides rounding": "'round' at linear_formulas.py",
    "a callback": "'pure_callback' at linear_formulas.py",
    "a loop that stops by a copy": "'add' at linear_formulas.py",
    "a part of it that is stopped": "'stop_gradient' at linear_formulas.py",
    "a constant": "'add' at test_linearity.py",
    "a residual": "'add' at test_linearity.py",
    "ignored": "it does not depend on them",
    "a rectifier": "'max' at linear_formulas.py",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_refusal_names_the_primitive_and_the_line(name: str) -> None:
    with pytest.raises(AutogradError, match=re.escape(REASONS[name])):
        require_linear(bind(NOT_LINEAR[name]), (X,), (X,), "t::op")


Base: Any = getattr(hijax, "VJPHiPrimitive", None) or hijax.HiPrim


class Made(Base):
    """A primitive of a user, whose derivative is another computation."""

    def __init__(self, aval: Any, compute: Callable[[Any], Any]) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"compute": compute}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return self.compute(x)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), self.compute(tangents[0])


def raise_error(x: Any) -> Any:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("compute", "told"),
    [(jnp.sin, "'sin' at test_linearity.py"), (raise_error, "'Made' at test_linearity.py")],
    ids=["another computation", "none"],
)
def test_what_a_hijax_primitive_computes_is_read(compute: Any, told: str) -> None:
    def triple(x: Any) -> Any:
        return 3 * x

    def make(compute: Any) -> Any:
        return bind(lambda x, g: x * Made(jax.typeof(g), compute)(g))

    rule = require_linear(make(triple), (X,), (X,), "t::op")
    (found,) = transpose_rule(rule, (X,), (jnp.zeros(3),), (W,), "t::op")
    np.testing.assert_allclose(found, 3 * X * W, rtol=1e-6)
    with pytest.raises(AutogradError, match=told) as caught:
        require_linear(make(compute), (X,), (X,), "t::op")
    assert len(str(caught.value)) <= 400


class WithoutRules(Made):
    """A primitive of a user with no rule but its computation."""

    jvp = Base.jvp


def test_a_rule_that_a_hijax_primitive_lacks_is_asked_of_its_class() -> None:
    """The error of JAX names the class and the method."""

    @oplib.custom_op("linearity::without_rules", autograd="derive")
    def sine(x: jax.Array) -> jax.Array:
        return WithoutRules(jax.typeof(x), jnp.sin)(x)

    x = jnp.ones(2)
    for run in (
        lambda: jax.jvp(sine, (x,), (x,)),
        lambda: jax.vmap(sine)(x),
    ):
        with pytest.raises(
            NotImplementedError,
            match=r"WithoutRules'> must implement .*\. Define that method in the class of this",
        ) as told:
            run()
        assert "report it" not in str(told.value)


def test_a_formula_of_empty_arrays_is_linear() -> None:
    """JAX removes what the sum of no numbers depends on."""
    points = jnp.zeros((0, 3)), jnp.ones(3)
    results, tangents = jax.jvp(oplib.atan2, points, points)
    np.testing.assert_array_equal(results, np.zeros((0, 3)))
    np.testing.assert_array_equal(tangents, np.zeros((0, 3)))
