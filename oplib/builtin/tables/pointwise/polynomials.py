"""Orthogonal polynomials of a degree that a tensor gives: one recurrence, described once for each family."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.promotion import elementwise, in_single, strong
from oplib.errors import MissingRuleError, describe
from oplib.library import Derivative

from .shared_rows import make_pairs


class _Family(NamedTuple):
    """Polynomials that begin with 1.

    Attributes:
        doc: what they are called.
        first: that of degree 1, of x.
        step: the polynomial of degree k + 1, from x, k and those of degrees k and k - 1.
    """

    doc: str
    first: Callable[[Any], Any]
    step: Callable[[Any, Any, Any, Any], Any]


def _number(value: float, like: Any) -> Any:
    return strong(value, like)


def _double(x: Any, k: Any, now: Any, before: Any) -> Any:  # noqa: ARG001  the same for every degree
    return _number(2, x) * x * now - before


def _make_chebyshev(kind: str, doc: str, factor: int, addend: int) -> dict[str, _Family]:
    """Makes the polynomials of one kind: on [-1, 1], and shifted to [0, 1]."""

    def first(x: Any) -> Any:
        return _number(factor, x) * x + _number(addend, x)

    def shift(x: Any) -> Any:
        return _number(2, x) * x - _number(1, x)

    name = f"chebyshev_polynomial_{kind}"
    shifted = _Family(
        f"shifted {doc}",
        lambda x: first(shift(x)),
        lambda x, k, now, before: _double(shift(x), k, now, before),
    )
    return {name: _Family(doc, first, _double), f"shifted_{name}": shifted}


def _step_legendre(x: Any, k: Any, now: Any, before: Any) -> Any:
    """Near 1 and -1 adds the difference of two degrees: the usual formula would lose all digits of it."""
    one = _number(1, x)
    sign = jnp.where(x < _number(0, x), -one, one)
    odd = k + k + one
    change = k * (sign * now - before) + odd * (sign * x - one) * (sign * now)
    near = sign * now + change / (k + one)
    return jnp.where(sign * x > _number(0.5, x), near, (odd * x * now - k * before) / (k + one))


_OF = "Chebyshev polynomial of the {} kind of degree n"
FAMILIES: dict[str, _Family] = {
    **_make_chebyshev("t", _OF.format("first"), 1, 0),
    **_make_chebyshev("u", _OF.format("second"), 2, 0),
    **_make_chebyshev("v", _OF.format("third"), 2, -1),
    **_make_chebyshev("w", _OF.format("fourth"), 2, 1),
    "hermite_polynomial_h": _Family(
        "Hermite polynomial of degree n, as in physics",
        lambda x: _number(2, x) * x,
        lambda x, k, now, before: _number(2, x) * (x * now - k * before),
    ),
    "hermite_polynomial_he": _Family(
        "Hermite polynomial of degree n, as in statistics",
        lambda x: x,
        lambda x, k, now, before: x * now - k * before,
    ),
    "laguerre_polynomial_l": _Family(
        "Laguerre polynomial of degree n",
        lambda x: _number(1, x) - x,
        lambda x, k, now, before: ((k + k + _number(1, x) - x) * now - k * before) / (k + _number(1, x)),
    ),
    "legendre_polynomial_p": _Family("Legendre polynomial of degree n", lambda x: x, _step_legendre),
}
MOST_STEPS = 2**24
"""The largest degree: float32 counts no further, and it takes a second."""


def _recur(family: _Family, n: Any, x: Any) -> Any:
    """Evaluates the polynomials by their recurrence; below degree 0 they are 0, above the largest nan."""
    degree = jnp.trunc(n)
    is_far = ~(degree <= MOST_STEPS)  # nan too
    most = jnp.max(jnp.where(is_far, jnp.zeros_like(degree), degree), initial=0)
    one = jnp.ones_like(x)

    def advance(state: Any) -> Any:
        k, now, before = state
        is_on = k < degree
        after = jnp.where(is_on, family.step(x, k, now, before), now)
        return k + 1, after, jnp.where(is_on, now, before)

    start = (strong(1, x), jnp.where(degree >= one, family.first(x), one), one)
    _, value, _ = lax.while_loop(lambda state: state[0] < most, advance, start)
    value = jnp.where(is_far, jnp.full_like(x, jnp.nan), value)
    return jnp.where(degree < jnp.zeros_like(x), jnp.zeros_like(x), value)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _evaluate(family: _Family, order: int, x: Any, n: Any) -> Any:
    """Evaluates a derivative of the polynomials: a loop has no derivative backwards, but has one forwards."""
    function = functools.partial(_recur, family, n)
    for _ in range(order):
        function = functools.partial(_find_slope, function)
    return function(x)


def _find_slope(function: Callable[[Any], Any], x: Any) -> Any:
    return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


@functools.partial(_evaluate.defjvp, symbolic_zeros=True)
def _differentiate(family: _Family, order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, n), (of_x, of_n) = primals, tangents
    if not isinstance(of_n, SymbolicZero):
        raise MissingRuleError(
            f"special: a polynomial has no derivative by its degree, as in torch. Got {describe(n)}, which "
            "requires grad. Detach it."
        )
    value = _evaluate(family, order, x, n)
    if isinstance(of_x, SymbolicZero):
        return value, jnp.zeros_like(value)
    return value, _evaluate(family, order + 1, x, n) * of_x


def _make_rows(name: str, family: _Family) -> tuple[Row, ...]:
    function = functools.partial(_evaluate, family, 0)
    missing = Derivative(missing="torch has none either, by the degree")
    return make_pairs(
        f"special_{name}",
        elementwise(in_single(function), floating=True),
        family.doc,
        second="n",
        derivatives={"Scalar_Tensor": missing},
        in_place=False,
        dtypes="bif",
        result="floats",
    )


ROWS = tuple(row for name, family in FAMILIES.items() for row in _make_rows(name, family))
