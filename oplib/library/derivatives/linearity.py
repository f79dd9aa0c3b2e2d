"""The check that a rule is linear, so that its transpose is a derivative.

A backward formula must be linear in its cotangents. JAX does not make this check. Its transposition drops a
term that does not depend on the cotangent, and returns 0 for a formula that ignores the cotangent or rounds
it.

Custom derivatives may differ from the computation: a straight-through estimator, a scaled gradient. If a
formula is linear, the computation decides its transpose. So each ``custom_jvp`` and each op that cotangents
enter is replaced by the computation in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.source_info_util import user_context

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.errors import AutogradError
from oplib.frozen import frozen
from oplib.library.kernels.host_call import refuse_derivative

from .equation_reader import FIXED, LINEAR, ZERO, EquationReader

Rule = Callable[..., Sequence[Any]]


@frozen
class LinearRule:
    """A rule that is linear in its moving values.

    Attributes:
        run: the rule; custom derivatives that moving values enter are replaced by the computation.
        is_given: ``run`` is the rule as it was given.
    """

    run: Rule
    is_given: bool


def require_linear(rule: Rule, residuals: Sequence[Any], cotangents: Sequence[Any], op: str) -> LinearRule:
    """Returns a backward formula in a form that JAX may transpose.

    Args:
        rule: maps residuals and cotangents to gradients.
        residuals: arrays or shapes to trace the formula with.
        cotangents: arrays or shapes to trace the formula with.
        op: the name of the op, for the error.

    Raises:
        AutogradError: a gradient is not shown to be linear in the cotangents.
        MissingRuleError: it is made by a host function.
    """
    closed, reader, states = _read(rule, residuals, cotangents)
    refusal = _find_refusal(closed, states, len(residuals))
    if refusal is not None and refusal[1].startswith("'host_call'"):
        refuse_derivative(op=op)
    if refusal is not None:
        raise AutogradError(
            f"{op}: no forward mode can be derived from the backward formula. Gradient {refusal[0]} is "
            f"not shown to be linear in the incoming gradients: {refusal[1]}. Register a rule with "
            "register_jvp, or declare the formula with register_autograd(..., nonlinear=True)."
        )
    if not reader.is_inlined:
        return LinearRule(rule, is_given=True)
    run = bind_jaxpr(reader.inline(closed, _enter(closed, len(residuals))))
    return LinearRule(lambda residuals, cotangents: tuple(run(*residuals, *cotangents)), is_given=False)


def transpose_rule(
    rule: LinearRule, residuals: Sequence[Any], zeros: Sequence[Any], tangents: Sequence[Any], op: str
) -> Sequence[Any]:
    """Returns the transpose of a linear rule at tangents.

    Args:
        rule: maps residuals and cotangents to gradients.
        residuals: the values of the residuals.
        zeros: a zero like each cotangent.
        tangents: a tangent like each gradient.
        op: the name of the op, for the error.

    Raises:
        AutogradError: JAX cannot transpose it.
    """
    # The vjp of a linear function is its transpose; jax.linear_transpose supports fewer primitives.
    try:
        return jax.vjp(lambda *values: tuple(rule.run(residuals, values)), *zeros)[1](tuple(tangents))
    except Exception as error:
        refused = _read(rule.run, residuals, zeros)[1].find_untransposable()
        if refused is None:
            raise
        raise AutogradError(
            f"{op}: no forward mode can be derived from the backward formula: {refused} cannot be "
            "transposed. Register a rule with register_jvp, or write the formula without it."
        ) from error


def _read(
    rule: Rule, points: Sequence[Any], moving: Sequence[Any]
) -> tuple[Any, EquationReader, Sequence[Any]]:
    count, reader = len(points), EquationReader()
    with user_context(_HERE):
        closed = jax.make_jaxpr(lambda *values: tuple(rule(values[:count], values[count:])))(*points, *moving)
    return closed, reader, reader.read(closed, _enter(closed, count))


def _enter(closed: Any, count: int) -> list[Any]:
    """Returns the states of the inputs of a rule."""
    return [FIXED] * count + [LINEAR] * (len(closed.in_avals) - count)


def _find_refusal(closed: Any, states: Sequence[Any], count: int) -> tuple[int, str] | None:
    if not any(aval.size for aval in closed.in_avals[count:]):
        return None  # a map from empty arrays is linear, and JAX has removed what it depends on
    for index, (state, aval) in enumerate(zip(states, closed.out_avals, strict=True)):
        if aval.size and state not in (ZERO, LINEAR):
            return index, state if isinstance(state, str) else "it does not depend on them"
    return None


class _Here:
    """Stands for the traceback of the caller.

    While JAX lowers an op, it gives all equations the traceback of the op's call. An empty traceback in its
    place makes JAX look for the line of each equation, as in any other trace.
    """

    def __bool__(self) -> bool:
        return False

    def as_python_traceback(self) -> None:
        """Returns no traceback, for errors that pass."""


_HERE: Any = _Here()
