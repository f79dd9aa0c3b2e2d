"""A rule without the custom derivatives through which its moving values pass.

Custom derivatives may differ from the computation: a straight-through estimator, a scaled gradient, a rule
with an error. If a rule is linear, the computation itself decides its transpose. So each ``custom_jvp`` and
each op that moving values enter is replaced by the computation in it. Values that depend on the points alone
keep their custom derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, jaxprs_in_params
from jax.extend.source_info_util import user_context

from .expressions import open_jaxpr, split_loop

Moves = tuple[bool, ...]

_CHECKPOINTS = {"remat2": "jaxpr", "checkpoint": "jaxpr"}
CALLS = {
    **_CHECKPOINTS,
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
}
# JAX differentiates by contract: neither the solver nor a kernel's own code passes tangents.
_CONTRACTS = frozenset({"custom_linear_solve", "linear_map"})
# Computations that cannot be read; a jvp rule may call them.
_UNREADABLE = frozenset(
    {"host_call", "pallas_call", "pure_callback", "io_callback", "ffi_call", "triton_kernel_call"}
)


class Inlining:
    """Finds the custom derivatives in a jaxpr, and evaluates it without them.

    Args:
        trusts: in a jvp rule, computations that cannot be read count as linear, and ``custom_vjp`` is read.

    Attributes:
        solutions: the linear solutions that moving values enter.
        hidden: the equations that moving values enter and in which a custom derivative cannot be replaced.
    """

    def __init__(self, *, trusts: bool = False) -> None:
        self._trusts = trusts
        self._found: dict[tuple[int, Moves], tuple[bool, Moves]] = {}
        # a mapped `cond` selects between each operand and the same one with a stopped gradient
        self._selected: set[tuple[Any, ...]] = set()
        self.solutions: list[Any] = []
        self.hidden: list[Any] = []

    def find(self, jaxpr: Any, moves: Sequence[bool]) -> tuple[bool, Moves]:
        """Tells whether moving values enter a custom derivative, and which outputs move.

        Args:
            jaxpr: a jaxpr, closed or not.
            moves: for each input, whether it moves.
        """
        key = id(jaxpr), tuple(moves)
        answer = self._found.get(key)
        if answer is None:
            answer = self._found[key] = self._find(jaxpr, moves)
        return answer

    def _find(self, jaxpr: Any, moves: Sequence[bool]) -> tuple[bool, Moves]:
        enters = False
        moving: set[Any] = set()
        self._note_selections(jaxpr)
        for equation, entering in walk(jaxpr, moves, moving):
            here, results = self.find_in_equation(equation, entering)
            enters |= here
            moving.update(var for var, move in zip(equation.outvars, results, strict=True) if move)
        inner, _ = open_jaxpr(jaxpr)
        return enters, tuple([not hasattr(var, "val") and var in moving for var in inner.outvars])

    def _note_selections(self, jaxpr: Any) -> None:
        for equation in open_jaxpr(jaxpr)[0].eqns:
            if equation.primitive.name == "select_n":
                cases = [var for var in equation.invars[1:] if not hasattr(var, "val")]
                self._selected.update(itertools.permutations(cases, 2))

    def find_in_equation(self, equation: Any, entering: Moves) -> tuple[bool, Moves]:
        """Tells the same of one equation that moving values enter."""
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            return self.find(params[CALLS[name]], entering)
        if name == "scan":
            return self._find_in_scan(equation, entering)
        if name == "while":
            return self._find_in_while(equation, entering)
        if name == "cond":
            answers = [self.find(branch, entering[1:]) for branch in params["branches"]]
            moved = [
                entering[0] or any(moves) for moves in zip(*(moves for _, moves in answers), strict=True)
            ]
            return any(enters for enters, _ in answers), tuple(moved)
        if name == "custom_linear_solve":
            self.solutions.append(equation)
        is_replaced = self.is_replaced(equation)
        if not is_replaced and hides_custom_derivative(equation):
            self.hidden.append(equation)
        return is_replaced, (True,) * len(equation.outvars)

    def _find_in_scan(self, equation: Any, entering: Moves) -> tuple[bool, Moves]:
        first, last = split_loop(equation)
        carries = entering[first:last]
        while True:
            enters, moved = self.find(
                equation.params["jaxpr"], (*entering[:first], *carries, *entering[last:])
            )
            after = tuple(map(_either, carries, moved))
            if after == carries:
                return enters, (*carries, *moved[len(carries) :])
            carries = after

    def _find_in_while(self, equation: Any, entering: Moves) -> tuple[bool, Moves]:
        params = equation.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carries = entering[last:]
        while True:
            enters, moved = self.find(params["body_jaxpr"], (*entering[first:last], *carries))
            after = tuple(map(_either, carries, moved))
            if after == carries:
                break
            carries = after
        condition, (stops,) = self.find(params["cond_jaxpr"], (*entering[:first], *carries))
        return enters or condition, tuple([stops or move for move in carries])

    def is_replaced(self, equation: Any) -> bool:
        """Tells whether an equation has a derivative of its own that does not count."""
        name = equation.primitive.name
        if name == "custom_jvp_call" or _is_op(equation):
            return not _is_linear_op(equation)
        if name == "stop_gradient":
            return (*equation.outvars, *equation.invars) in self._selected
        return self._trusts and (name == "custom_vjp_call" or name in _UNREADABLE)

    def run(self, jaxpr: Any, values: Sequence[Any], moves: Sequence[bool]) -> list[Any]:
        """Evaluates a jaxpr without the custom derivatives that moving values enter."""
        enters, _ = self.find(jaxpr, moves)
        if not enters:
            closed = jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())
            return list(jaxpr_as_fun(closed)(*values))
        inner, _ = open_jaxpr(jaxpr)
        known, _ = self.run_steps(jaxpr, values, moves)
        return [var.val if hasattr(var, "val") else known[var] for var in inner.outvars]

    def run_steps(
        self, jaxpr: Any, values: Sequence[Any], moves: Sequence[bool]
    ) -> tuple[dict[Any, Any], list[tuple[Any, Moves]]]:
        """Evaluates a jaxpr, and returns all values and the equations that moving values enter."""
        inner, constants = open_jaxpr(jaxpr)
        self._note_selections(jaxpr)
        known: dict[Any, Any] = dict(zip(inner.constvars, constants, strict=True))
        known.update(zip(inner.invars, values, strict=True))
        moving = {var for var, move in zip(inner.invars, moves, strict=True) if move}
        steps: list[tuple[Any, Moves]] = []
        for equation in inner.eqns:
            entering = tuple([not hasattr(var, "val") and var in moving for var in equation.invars])
            arguments = [var.val if hasattr(var, "val") else known[var] for var in equation.invars]
            source = equation.source_info
            with user_context(source.traceback, name_stack=source.name_stack):
                results, moved = self._run_equation(equation, arguments, entering)
            known.update(zip(equation.outvars, results, strict=True))
            moving.update(var for var, move in zip(equation.outvars, moved, strict=True) if move)
            if any(entering):
                steps.append((equation, entering))
        return known, steps

    def _run_equation(
        self, equation: Any, values: list[Any], entering: Moves
    ) -> tuple[Sequence[Any], Sequence[bool]]:
        if not any(entering):
            return bind(equation, values), [False] * len(equation.outvars)
        enters, moved = self.find_in_equation(equation, entering)
        if not enters:
            return bind(equation, values), moved
        name, params = equation.primitive.name, equation.params
        if name in _CHECKPOINTS:
            options = {key: params[key] for key in ("prevent_cse", "policy") if key in params}
            run = jax.checkpoint(lambda *args: self.run(params["jaxpr"], args, entering), **options)
            return run(*values), moved
        if name in CALLS:
            return self.run(params[CALLS[name]], values, entering), moved
        if name == "scan":
            return self._run_scan(equation, values, entering, moved), moved
        if name == "while":
            return self._run_while(equation, values, entering, moved), moved
        if name == "cond":
            return self._run_cond(equation, values, entering), moved
        if name == "stop_gradient":
            return values, moved
        if name in _UNREADABLE:
            return trust(equation, entering)(*values), moved
        return self.run(find_body(equation), values, entering), moved

    def _run_scan(self, equation: Any, values: list[Any], entering: Moves, moved: Moves) -> list[Any]:
        params = equation.params
        first, last = split_loop(equation)
        count = last - first
        moves = (*entering[:first], *moved[:count], *entering[last:])

        def step(carries: tuple[Any, ...], items: tuple[Any, ...]) -> tuple[Any, Any]:
            results = self.run(params["jaxpr"], [*values[:first], *carries, *items], moves)
            return tuple(results[:count]), tuple(results[count:])

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        finals, stacked = jax.lax.scan(step, tuple(values[first:last]), tuple(values[last:]), **options)
        return [*finals, *stacked]

    def _run_while(self, equation: Any, values: list[Any], entering: Moves, moved: Moves) -> Sequence[Any]:
        params = equation.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

        def condition(carries: Sequence[Any]) -> Any:
            return self.run(params["cond_jaxpr"], [*values[:first], *carries], (*entering[:first], *moved))[0]

        def step(carries: Sequence[Any]) -> tuple[Any, ...]:
            inputs = [*values[first:last], *carries]
            return tuple(self.run(params["body_jaxpr"], inputs, (*entering[first:last], *moved)))

        return jax.lax.while_loop(condition, step, tuple(values[last:]))

    def _run_cond(self, equation: Any, values: list[Any], entering: Moves) -> Sequence[Any]:
        def choose(branch: Any) -> Callable[..., tuple[Any, ...]]:
            return lambda *arguments: tuple(self.run(branch, arguments, entering[1:]))

        return jax.lax.switch(values[0], list(map(choose, equation.params["branches"])), *values[1:])


def walk(jaxpr: Any, moves: Sequence[bool], moving: set[Any]) -> Iterator[tuple[Any, Moves]]:
    """Gives each equation that moving values enter, and which of its operands move.

    Args:
        jaxpr: a jaxpr, closed or not.
        moves: for each input, whether it moves.
        moving: the caller enters the moving results of each equation.
    """
    inner, _ = open_jaxpr(jaxpr)
    moving.update(var for var, move in zip(inner.invars, moves, strict=True) if move)
    for equation in inner.eqns:
        entering = tuple([not hasattr(var, "val") and var in moving for var in equation.invars])
        if any(entering):
            yield equation, entering


def bind(equation: Any, values: Sequence[Any]) -> list[Any]:
    """Evaluates an equation."""
    results = equation.primitive.bind(*values, **equation.primitive.get_bind_params(equation.params))
    return list(results) if equation.primitive.multiple_results else [results]


def find_body(equation: Any) -> Any:
    """Returns the jaxpr of a custom derivative or of an op."""
    params = equation.params
    if not _is_op(equation):
        return params["call_jaxpr"]
    avals = [var.aval for var in equation.invars]
    return params["call"].trace(params["levels"], avals, derivable=True)


def hides_custom_derivative(equation: Any) -> bool:
    """Tells whether an equation that is not read through contains a custom derivative at any depth."""
    name = equation.primitive.name
    if name in _CONTRACTS or name.startswith("custom_vjp") or _is_linear_op(equation):
        return False
    return any(_contains_custom(jaxpr) for jaxpr in jaxprs_in_params(equation.params))


def _contains_custom(jaxpr: Any) -> bool:
    inner, _ = open_jaxpr(jaxpr)
    return any(
        equation.primitive.name == "custom_jvp_call"
        or _is_op(equation)
        or any(map(_contains_custom, jaxprs_in_params(equation.params)))
        for equation in inner.eqns
    )


def trust(equation: Any, entering: Moves) -> Callable[..., Any]:
    """Returns a computation that cannot be read, as one that is linear in its moving operands."""
    run = jax.custom_jvp(lambda *values: bind(equation, values))

    @run.defjvp
    def push(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        pairs = zip(entering, primals, tangents, strict=True)
        return run(*primals), run(*[tangent if move else primal for move, primal, tangent in pairs])

    return run


def _is_op(equation: Any) -> bool:
    """Tells whether an equation is the call of an op."""
    return "call" in equation.params and "levels" in equation.params


def _is_linear_op(equation: Any) -> bool:
    """Tells whether an equation is the call of an op that is declared linear, which is its own derivative."""
    return _is_op(equation) and equation.params["call"].record.is_linear


def _either(left: bool, right: bool) -> bool:
    return left or right
