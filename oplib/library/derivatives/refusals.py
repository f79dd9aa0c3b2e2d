"""The equation for which a rule is refused, with its line in the user's code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.extend.source_info_util import summarize

from .expressions import split_loop
from .inlining import CALLS, Inlining, Moves, bind, find_body, walk

Accepts = Callable[[Any, Sequence[bool]], bool]

_LINE = re.compile(r"(.+?):(\d+)(?::\d+)?(?: \((.*)\))?$")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A result that is not shown to be linear.

    Attributes:
        index: of the result.
        reason: for the error.
    """

    index: int
    reason: str


def find_refusal(jaxpr: Any, moves: Sequence[bool], accepts: Accepts) -> str | None:
    """Returns the first equation that moving values enter and that is not accepted; None if all are.

    Args:
        jaxpr: a jaxpr, closed or not.
        moves: for each input, whether it moves.
        accepts: of a closed jaxpr of one equation and of its moving inputs; it may raise instead.
    """
    return _Search(accepts).find(jaxpr, moves, None)


def find_refusal_in(equation: Any, entering: Moves, accepts: Accepts) -> str:
    """Returns the innermost equation that is not accepted, in one that is not."""
    search = _Search(accepts)
    return search.find_inside(equation, entering, None) or show_equation(equation)


@dataclass(frozen=True, slots=True)
class _OpCall:
    """A call whose jaxpr is searched.

    Attributes:
        name: of the called function, if it is known.
        where: the user's line, if it is known.
    """

    name: str | None
    where: str | None


def show_equation(equation: Any, call: _OpCall | None = None) -> str:
    """Returns an equation for an error: ``'while' at bilinear.py:31``."""
    where = _find_line(equation, call)
    return f"'{equation.primitive.name}'" + (f" at {where}" if where else "")


def _find_line(equation: Any, call: _OpCall | None) -> str | None:
    """Returns the user's line of an equation.

    JAX keeps the trace of a jitted function, and with it the line of its first call. So an equation in a call
    has the line of this call, unless its own line is in the called function.
    """
    match = _LINE.match(summarize(equation.source_info))
    own = None if match is None else f"{Path(match[1]).name}:{match[2]}"
    is_inside = call is None or (match is not None and match[3] == call.name)
    return own if call is None or is_inside else call.where or own


class _Search:
    def __init__(self, accepts: Accepts) -> None:
        self._accepts = accepts
        self._inlining = Inlining()

    def find(self, jaxpr: Any, moves: Sequence[bool], call: _OpCall | None) -> str | None:
        moving: set[Any] = set()
        for equation, entering in walk(jaxpr, moves, moving):
            _, results = self._inlining.find_in_equation(equation, entering)
            moving.update(var for var, move in zip(equation.outvars, results, strict=True) if move)
            refused = self.find_inside(equation, entering, call)
            if refused is None and not self._is_accepted(equation, entering):
                refused = show_equation(equation, call)
            if refused is not None:
                return refused
        return None

    def find_inside(self, equation: Any, entering: Moves, call: _OpCall | None) -> str | None:
        """Searches the jaxprs of a call or of control flow."""
        name, params = equation.primitive.name, equation.params
        _, results = self._inlining.find_in_equation(equation, entering)
        if name == "scan":
            first, last = split_loop(equation)
            carries = results[: last - first]
            return self.find(params["jaxpr"], (*entering[:first], *carries, *entering[last:]), call)
        if name == "while":
            first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            refused = self.find(params["cond_jaxpr"], (*entering[:first], *results), call)
            return refused or self.find(params["body_jaxpr"], (*entering[first:last], *results), call)
        if name == "cond":
            inside = (self.find(branch, entering[1:], call) for branch in params["branches"])
            return next((refused for refused in inside if refused is not None), None)
        if name not in CALLS and not self._inlining.is_replaced(equation):
            return None
        body = params[CALLS[name]] if name in CALLS else find_body(equation)
        return self.find(body, entering, _OpCall(params.get("name"), _find_line(equation, call)))

    def _is_accepted(self, equation: Any, entering: Moves) -> bool:
        variables = [var for var in equation.invars if not hasattr(var, "val")]

        def run(*values: Any) -> list[Any]:
            rest = iter(values)
            return bind(equation, [var.val if hasattr(var, "val") else next(rest) for var in equation.invars])

        moves = [move for var, move in zip(equation.invars, entering, strict=True) if not hasattr(var, "val")]
        try:
            return self._accepts(jax.make_jaxpr(run)(*[var.aval for var in variables]), moves)
        except Exception:  # noqa: BLE001  JAX says in many ways that it has no rule
            return False
