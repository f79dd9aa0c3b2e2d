"""The check that a rule is linear, so that its transpose is a derivative.

A backward formula must be linear in its cotangents, and a jvp rule in its tangents. JAX does not make this
check. Its transposition drops a term that does not depend on the cotangent, and returns 0 for a formula that
ignores the cotangent or rounds it.

JAX's derivative of a rule is linear in the direction, whatever the rule is. So a rule is linear if its value
at X is its derivative in the direction X, and that derivative is the same at every point Y. The check
compares both as expressions of X (:mod:`.expressions`). It needs no list of linear primitives: a primitive
that it does not know is linear if JAX's derivative applies the same primitive to the tangent. Nothing else is
trusted, except that a ``custom_linear_solve`` solves its equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun
from jax.extend.source_info_util import user_context

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.errors import AutogradError, OplibError

from .expressions import Expressions, open_jaxpr
from .inlining import Inlining
from .refusals import Refusal, find_refusal, find_refusal_in, show_equation

Rule = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
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
    """
    traced = _trace(rule, residuals, cotangents)
    refusal = traced.find_nonlinear()
    if refusal is not None:
        raise AutogradError(
            f"{op}: no forward mode can be derived from the backward formula. Gradient {refusal.index} is "
            f"not shown to be linear in the incoming gradients: {refusal.reason}. Register a rule with "
            "register_jvp, or declare the formula with register_autograd(..., nonlinear=True)."
        )
    return LinearRule(traced.run if traced.is_inlined else rule, not traced.is_inlined)


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
        traced = _trace(rule.run, residuals, zeros)
        refused = find_refusal(traced.closed, traced.moves, _is_transposable)
        if refused is None:
            raise
        raise AutogradError(
            f"{op}: no forward mode can be derived from the backward formula: {refused} cannot be "
            "transposed. Register a rule with register_jvp, or write the formula without it."
        ) from error


def find_nonlinear(
    rule: Rule, points: Sequence[Any], moving: Sequence[Any], *, trusts_opaque: bool = False
) -> tuple[int, str] | None:
    """Returns the index of a result that is not shown to be linear, and the reason; None if all are.

    Args:
        rule: maps points and moving values to results.
        points: arrays or shapes to trace the rule with.
        moving: arrays or shapes, in which the results should be linear.
        trusts_opaque: a computation that cannot be read counts as linear.
    """
    refusal = _trace(rule, points, moving, trusts=trusts_opaque).find_nonlinear()
    return None if refusal is None else (refusal.index, refusal.reason)


def _trace(rule: Rule, points: Sequence[Any], moving: Sequence[Any], *, trusts: bool = False) -> _TracedRule:
    count = len(points)
    with user_context(_HERE):
        closed = jax.make_jaxpr(lambda *values: tuple(rule(values[:count], values[count:])))(*points, *moving)
    return _TracedRule(closed, count, trusts=trusts)


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


class _TracedRule:
    """The jaxpr of a rule.

    Args:
        closed: the jaxpr; its inputs are the points and then the moving values.
        count: the number of points.
        trusts: a computation that cannot be read counts as linear.

    Attributes:
        moves: for each input, whether it moves.
        is_inlined: custom derivatives that moving values enter are replaced.
    """

    def __init__(self, closed: Any, count: int, *, trusts: bool = False) -> None:
        self.closed = closed
        self.moves = tuple(index >= count for index in range(len(closed.in_avals)))
        self._count = count
        self._trusts = trusts
        self._inlining = Inlining(trusts=trusts)
        self.is_inlined, _ = self._inlining.find(closed, self.moves)

    def run(self, points: Sequence[Any], moving: Sequence[Any]) -> Sequence[Any]:
        """Evaluates the rule."""
        return tuple(self._inlining.run(self.closed, [*points, *moving], self.moves))

    def find_nonlinear(self) -> Refusal | None:
        """Returns the first result that is not shown to be linear, and the reason."""
        if self._inlining.hidden:
            shown = show_equation(self._inlining.hidden[0])
            return Refusal(0, f"{shown} contains a custom derivative, which cannot be replaced in it")
        for solution in self._inlining.solutions:
            if not _has_linear_operator(solution):
                return Refusal(0, f"the operator of {show_equation(solution)} is not linear")
        try:
            index, is_free = self.find_result()
        except (OplibError, RecursionError):  # of an op in the rule
            raise
        except Exception as error:  # noqa: BLE001  JAX says in many ways that it has no rule
            shown = str(error).partition("\n")[0].rstrip(".")
            return self._explain(0) or Refusal(0, f"JAX cannot differentiate it ({shown})")
        if index is None:
            return None
        if is_free:
            return Refusal(index, "it does not depend on them")
        return self._explain(index) or Refusal(index, "it seems to have another term")

    def _explain(self, index: int) -> Refusal | None:
        """Returns the refusal that names the first equation without a linear value."""
        try:
            step = self._find_step()
        except Exception:  # noqa: BLE001  the same
            step = None
        if step is not None:
            equation: str | None = find_refusal_in(*step, _is_linear)
        else:
            equation = find_refusal(self.closed, self.moves, _is_linear)
        return None if equation is None else Refusal(index, f"{equation} is not shown to be linear")

    def _find_step(self) -> tuple[Any, Any] | None:
        """Returns the first equation, outside of calls and loops, whose value is not linear."""
        reached: list[Any] = []

        def run(points: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
            known, steps = self._inlining.run_steps(self.closed, [*points, *moving], self.moves)
            pairs = [(step, var) for step in steps for var in step[0].outvars if var in known]
            kept = [has_gradient(var.aval.dtype) for _, var in pairs]
            # A value without a gradient, such as a comparison, is not linear.
            last = kept.index(False) if False in kept else len(kept)
            reached[:] = [step for step, _ in pairs[: last + 1]]
            return [known[var] for _, var in pairs[:last]]

        index, _ = self.find_result(run)
        if index is not None:
            return reached[index]
        inner, _ = open_jaxpr(self.closed)
        return reached[-1] if reached and reached[-1][0] is not inner.eqns[-1] else None

    def find_result(self, run: Rule | None = None) -> tuple[int | None, bool]:
        """Returns the index of a result that is not linear, and whether it is free of the moving values."""
        run = run or self.run

        def push(points: Any, at: Any, direction: Any) -> tuple[Any, Any]:
            return jax.jvp(lambda *moving: tuple(run(points, moving)), at, direction)

        avals = self.closed.in_avals
        points, moving = tuple(avals[: self._count]), tuple(avals[self._count :])
        pushed = jax.make_jaxpr(push)(points, moving, moving)
        expressions = Expressions(absorbs=self._trusts)
        fixed = [expressions.make(("point", index)) for index in range(len(points))]
        first = [expressions.make(("X", index)) for index in range(len(moving))]
        second = [expressions.make(("Y", index)) for index in range(len(moving))]
        values = expressions.read(pushed, [*fixed, *first, *second])
        derivatives = expressions.read(pushed, [*fixed, *second, *first])
        count = len(values) // 2
        for index, (value, derivative) in enumerate(zip(values[:count], derivatives[count:], strict=True)):
            # A map from or to empty arrays is linear, and JAX has removed what it depends on.
            if value != derivative and pushed.out_avals[index].size and any(aval.size for aval in moving):
                return index, not expressions.depends(value, first)
        return None, False


def _is_linear(closed: Any, moves: Sequence[bool]) -> bool:
    """Tells whether a jaxpr is linear in its moving inputs."""
    order = sorted(range(len(moves)), key=lambda index: moves[index])
    run = jaxpr_as_fun(closed)

    def reordered(*values: Any) -> Any:
        by_index = dict(zip(order, values, strict=True))
        return run(*[by_index[index] for index in range(len(order))])

    last = jax.make_jaxpr(reordered)(*[closed.in_avals[index] for index in order])
    return _TracedRule(last, len(moves) - sum(moves)).find_result()[0] is None


def _has_linear_operator(solution: Any) -> bool:
    """Tells whether the operator of a ``custom_linear_solve`` is linear in its last inputs."""
    matvec, count = solution.params["jaxprs"].matvec, solution.params["const_lengths"].matvec
    return _TracedRule(matvec, count).find_result()[0] is None


def _is_transposable(closed: Any, moves: Sequence[bool]) -> bool:
    """Tells whether JAX transposes a jaxpr of one equation in its moving operands."""

    def pull(values: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        run = jaxpr_as_fun(closed)
        moving = [value for value, move in zip(values, moves, strict=True) if move]

        def apply(*moved: Any) -> Any:
            rest = iter(moved)
            pairs = zip(values, moves, strict=True)
            return run(*[next(rest) if move else value for value, move in pairs])

        return jax.vjp(apply, *moving)[1](list(cotangents))

    jax.eval_shape(pull, closed.in_avals, closed.out_avals)
    return True
