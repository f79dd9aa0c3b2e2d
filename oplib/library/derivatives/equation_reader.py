"""The states of the values of a jaxpr: which are linear in its moving inputs.

A jaxpr is read equation by equation. Each value has a state: it is fixed, zero, linear in the moving inputs,
or not shown to be linear, which is a text with the reason. An equation is linear in some operands if JAX's
derivative of it applies the same primitive to their tangents, or if its name is in a table here. So a
primitive that no table names is refused, unless JAX says that it is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core.primitives import closed_call_p
from jax.extend.source_info_util import summarize

from oplib.autograd.array_functions.masks import find_true, pick_true, spread
from oplib.library.batching_and_sharding.paths import find_carry

FIXED, ZERO, LINEAR = object(), object(), object()
State = Any
States = tuple[State, ...]

_CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "shard_map": "jaxpr",
}  # fmt: skip
# Linear in the operands with these indices taken together; the others must be fixed.
_LINEAR = {
    **dict.fromkeys(
        (
            "add", "add_any", "sub", "neg", "broadcast_in_dim", "reshape", "transpose", "squeeze",
            "expand_dims", "concatenate", "stack", "unstack", "tile", "rev", "slice", "split", "reduce_sum",
            "cumsum", "real", "imag", "complex", "reduce_precision", "copy", "copy_p", "name", "op_name",
            "pcast", "pvary", "reshard", "pad", "convert_element_type",
        ),
        slice(None),
    ),
    "select_n": slice(1, None), "dynamic_slice": slice(1), "dynamic_update_slice": slice(2),
    "gather": slice(1), "scatter": slice(0, 3, 2), "scatter-add": slice(0, 3, 2),
    "scatter-sub": slice(0, 3, 2), "div": slice(1),
}  # fmt: skip
_PRODUCTS = frozenset({"mul", "dot_general", "conv_general_dilated"})
# Each result is the operand at its position, or a linear function of it.
_EACH = frozenset(
    {
        "device_put", "optimization_barrier", "psum", "psum_invariant", "all_gather", "all_to_all",
        "ppermute", "reduce_scatter",
    }
)  # fmt: skip
_SMALL = 1 << 14  # numbers; a constant of more is not searched for numbers other than zero
_LINE = re.compile(r"(.+?):(\d+)(?::\d+)?(?: \((.*)\))?$")


class EquationReader:
    """Reads jaxprs, which must live as long as this object.

    Attributes:
        steps: the equations that moving values enter, and which of their operands move.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[States, list[States]]] = {}
        # of an equation with these states: what replaces it; the states with which its jaxprs are read
        self._customs: dict[tuple[int, States], Any] = {}
        self._inner: dict[tuple[int, States], dict[int, States]] = {}
        self._bodies: dict[int, Any] = {}
        self._call: tuple[str | None, str] = None, ""
        self._spoiled: str | None = None
        self._has_effects = False
        self._readers: dict[str, Callable[[Any, States], Sequence[State]]] = {
            **dict.fromkeys(_CALLS, self._read_call),
            "scan": self._read_scan,
            "while": self._read_while,
            "cond": self._read_cond,
        }
        self.steps: list[tuple[Any, tuple[bool, ...]]] = []

    @property
    def is_inlined(self) -> bool:
        """Whether moving values enter a custom derivative, or an effect."""
        return bool(self._customs) or self._has_effects

    def read(self, jaxpr: Any, states: Sequence[State]) -> States:
        """Returns the states of the results of a jaxpr, closed or not, for those of its inputs."""
        key = id(jaxpr), tuple(states)
        if key not in self._known:
            self._known[key] = self._read(jaxpr, states)
        results, _ = self._known[key]
        return results if self._spoiled is None else (self._spoiled,) * len(results)

    def _read(self, jaxpr: Any, states: Sequence[State]) -> tuple[States, list[States]]:
        inner, constants = getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())
        known = dict(zip(inner.constvars, map(_find_constant, constants), strict=True))
        known.update(zip(inner.invars, states, strict=True))
        for equation in _find_kept(inner.eqns):
            self._bodies.setdefault(id(equation), _keep)
        entering: list[States] = []

        def find(var: Any) -> State:
            return _find_constant(var.val) if hasattr(var, "val") else known[var]

        for equation in inner.eqns:
            entering.append(tuple(map(find, equation.invars)))
            results = self._read_equation(equation, entering[-1])
            known.update(zip(equation.outvars, results, strict=True))
        return tuple(map(find, inner.outvars)), entering

    def _read_inner(self, equation: Any, states: States, jaxpr: Any, inner: Sequence[State]) -> States:
        """Reads a jaxpr of an equation, and notes the states of its inputs."""
        self._inner.setdefault((id(equation), states), {})[id(jaxpr)] = tuple(inner)
        return self.read(jaxpr, inner)

    def _read_equation(self, equation: Any, states: States) -> Sequence[State]:
        count, name = len(equation.outvars), equation.primitive.name
        failed = next((state for state in states if isinstance(state, str)), None)
        if LINEAR in states:
            self.steps.append((equation, tuple([state is LINEAR for state in states])))
        self._has_effects |= not _is_steady(equation, states)
        if name in self._readers:
            return self._readers[name](equation, states)
        if failed is None and LINEAR not in states and ZERO not in states:
            return [FIXED] * count
        if name in _EACH and len(states) == count:
            return states
        if failed is None and LINEAR not in states:
            return [self._find_zero(equation, states)] * count
        if equation.effects and not all(isinstance(var.aval, ShapedArray) for var in equation.invars):
            # a Ref holds a moving value from now on
            self._spoiled = f"{self.show(equation)} writes a jax.Ref, and is not shown to be linear"
        if failed is not None:
            return [failed] * count
        body = self._find_body(equation)
        if body is not None:
            return self._read_call(equation, states, body)
        if all(map(_is_inexact, equation.outvars)) and self._is_linear(equation, states):
            return [LINEAR] * count
        body = self._expand(equation)
        return [self._refuse(equation)] * count if body is None else self._read_call(equation, states, body)

    def _is_linear(self, equation: Any, states: States) -> bool:
        if equation.primitive.name == "custom_linear_solve":
            return LINEAR not in states[: -len(equation.outvars)] and self._has_linear_operator(equation)
        if _has_effect(equation):
            return False
        pairs = zip(states, map(_is_inexact, equation.invars), strict=True)
        either = [state is LINEAR or (state is ZERO and is_float) for state, is_float in pairs]
        return _is_linear(equation, either) or _is_linear(equation, [state is LINEAR for state in states])

    def _read_call(self, equation: Any, states: States, body: Any = None) -> States:
        """Reads a call, or what replaces an equation whose own derivative does not count."""
        name, params = equation.primitive.name, equation.params
        before, self._call = self._call, (params.get("name"), self._find_line(equation))
        if name == "custom_jvp_call" and LINEAR in states:
            body = params["call_jaxpr"]
        try:
            if body is None:
                return self._read_inner(equation, states, params[_CALLS[name]], states)
            self._customs[id(equation), states] = body
            return self.read(body, states)
        finally:
            self._call = before

    def _find_body(self, equation: Any) -> Any:
        """Returns what an op computes, as a jaxpr that lives as long as this object; None for no op."""
        body, params = self._bodies.get(id(equation)), equation.params
        avals = [var.aval for var in equation.invars]
        if body is _keep:
            body = jax.make_jaxpr(_keep)(*avals)
        elif body is None and hasattr(params.get("linear"), "trace"):
            # it is *op.lin*; a loop has a tuple of that name
            body = params["linear"].trace(avals)
        elif body is None and {"call", "levels"} <= params.keys() and not params["call"].record.is_linear:
            body = params["call"].trace(params["levels"], avals, derivable=True)
        if body is not None:
            self._bodies[id(equation)] = body
        return body

    def _expand(self, equation: Any) -> Any:
        """Returns what a hijax primitive computes, unless it is a ``custom_vjp``; None if JAX cannot tell."""
        made, avals = _find_hijax(equation), [var.aval for var in equation.invars]
        if made is None or type(made).__name__.startswith("CustomVJP"):
            return None

        def run(*values: Any) -> Any:
            given = jax.tree.unflatten(jax.tree.structure(made.in_avals), values)
            return jax.tree.leaves(made.expand(*given))

        try:
            return self._bodies.setdefault(id(equation), jax.make_jaxpr(run)(*avals))
        except Exception:  # noqa: BLE001  it may take values that are no arrays
            return None

    def _find_zero(self, equation: Any, states: States) -> State:
        moves = [state is ZERO for state in states]
        return ZERO if equation.primitive.name in _LINEAR and _is_linear(equation, moves) else FIXED

    def _read_cond(self, equation: Any, states: States) -> Sequence[State]:
        inner = states[1:]
        branches = [self._read_inner(equation, states, each, inner) for each in equation.params["branches"]]
        joined = [self._join(equation, *each) for each in zip(*branches, strict=True)]
        return joined if states[0] in (FIXED, ZERO) else [self._refuse(equation)] * len(joined)

    def _read_scan(self, equation: Any, states: States) -> Sequence[State]:
        carry = find_carry(equation, equation.params["jaxpr"])
        first, last = carry.start, carry.stop
        step = partial(self._read_inner, equation, states, equation.params["jaxpr"])
        return self._read_loop(equation, states, first, last, step)

    def _read_while(self, equation: Any, states: States) -> Sequence[State]:
        params = equation.params
        first, count = params["cond_nconsts"], params["body_nconsts"]
        step = partial(self._read_inner, equation, states, params["body_jaxpr"])
        carries = self._read_loop(equation, states[first:], count, len(states) - first, step)
        inner = (*states[:first], *carries)
        (condition,) = self._read_inner(equation, states, params["cond_jaxpr"], inner)
        return carries if condition in (FIXED, ZERO) else [condition] * len(carries)

    def _read_loop(
        self, equation: Any, states: States, first: int, last: int, step: Callable[[Sequence[State]], States]
    ) -> Sequence[State]:
        """Returns the states of the results of a loop, of which the first are the carries."""
        starts = carries = states[first:last]
        while True:
            results = step((*states[:first], *carries, *states[last:]))
            groups = zip(equation.outvars, starts, carries, results, strict=False)
            after = tuple([self._advance(equation, *group) for group in groups])
            if after == carries:
                return (*carries, *results[last - first :])
            carries = after

    def _advance(self, equation: Any, var: Any, start: State, carry: State, result: State) -> State:
        """Returns the next state of a carry: one that is zero at first may be linear, or else fixed."""
        if result in (ZERO, carry) or isinstance(carry, str):
            return carry
        if start is ZERO and carry is not FIXED:
            return LINEAR if carry is ZERO and _is_inexact(var) else FIXED
        return result if isinstance(result, str) else self._refuse(equation)

    def _has_linear_operator(self, equation: Any) -> bool:
        matvec, count = equation.params["jaxprs"].matvec, equation.params["const_lengths"].matvec
        states = [FIXED] * count + [LINEAR] * (len(matvec.in_avals) - count)
        return {ZERO, LINEAR}.issuperset(self.read(matvec, states))

    def find_untransposable(self) -> str | None:
        """Returns the first equation that JAX does not transpose in its moving operands."""
        refused = (equation for equation, moves in self.steps if not _is_transposable(equation, moves))
        return next(map(self.show, refused), None)

    def inline(self, jaxpr: Any, states: Sequence[State]) -> Any:
        """Returns a jaxpr that was read, without custom derivatives and callbacks of moving values."""
        _, entering = self._known[id(jaxpr), tuple(states)]
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        used = {*map(id, (*inner.outvars, *(var for each in inner.eqns for var in each.invars)))}
        kept = [
            self._inline_equation(equation, at)
            for equation, at in zip(inner.eqns, entering, strict=True)
            if _is_steady(equation, at)
            or (id(equation), at) in self._inner
            or not used.isdisjoint(map(id, equation.outvars))
        ]
        made = inner.replace(eqns=kept)
        return made if inner is jaxpr else jaxpr.replace(jaxpr=made)

    def _inline_equation(self, equation: Any, states: States) -> Any:
        key = id(equation), states
        if LINEAR not in states or not (key in self._customs or key in self._inner):
            return equation
        if key in self._customs:
            body = self.inline(self._customs[key], states)
            return equation.replace(primitive=closed_call_p, params={"call_jaxpr": body})
        inline = partial(self._inline_param, self._inner[key])
        return equation.replace(params={name: inline(value) for name, value in equation.params.items()})

    def _inline_param(self, inner: dict[int, States], value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([self._inline_param(inner, each) for each in value])
        return self.inline(value, inner[id(value)]) if id(value) in inner else value

    def _join(self, equation: Any, *states: State) -> State:
        """Returns the state of a value that may be one of several."""
        kinds = {state for state in states if state is not ZERO}
        failed = next((state for state in states if isinstance(state, str)), None)
        if failed is not None or len(kinds) > 1:
            return failed or self._refuse(equation)
        return next(iter(kinds), ZERO)

    def _refuse(self, equation: Any) -> str:
        return f"{self.show(equation)} is not shown to be linear"

    def show(self, equation: Any) -> str:
        """Returns an equation for an error: ``'while' at bilinear.py:31``."""
        line, made = self._find_line(equation), _find_hijax(equation)
        name = equation.primitive.name if made is None else type(made).__name__
        return f"'{name}'" + (f" at {line}" if line else "")

    def _find_line(self, equation: Any) -> str:
        """Returns the user's line of an equation.

        JAX keeps the trace of a jitted function, and with it the line of its first call. So an equation in a
        call has the line of this call, unless its own line is in the called function.
        """
        match = _LINE.match(summarize(equation.source_info))
        own = f"{Path(match[1]).name}:{match[2]}" if match else ""
        name, where = self._call
        return own if own and match and name in (None, match[3]) else where or own


def _find_hijax(equation: Any) -> Any:
    """Returns the hijax primitive that an equation binds; None for any other equation."""
    return next((value for value in equation.params.values() if hasattr(value, "expand")), None)


def _find_constant(value: Any) -> State:
    """Returns the state of a constant: zero if it is small, and known to be."""
    is_known = isinstance(value, (np.ndarray, np.generic, jax.Array, int, float, complex))
    if not is_known or isinstance(value, Tracer) or np.size(value) > _SMALL:
        return FIXED
    is_near = getattr(value, "is_fully_addressable", True)
    is_number = jnp.issubdtype(jnp.result_type(value), jnp.number)
    return ZERO if is_near and is_number and not np.any(np.asarray(value)) else FIXED


def _is_linear(equation: Any, moves: Sequence[bool]) -> bool:
    """Tells whether an equation is linear in its moving operands together."""
    name = equation.primitive.name
    if name in _LINEAR:
        due, moving = range(len(moves))[_LINEAR[name]], find_true(moves)
        return [*due] == moving and _fills_as_derivative(equation)
    if name in _PRODUCTS:
        return sum(moves) == 1
    try:
        return _is_own_derivative(equation, moves)
    except Exception:  # noqa: BLE001  JAX says in many ways that it has no rule
        return False


def _fills_as_derivative(equation: Any) -> bool:
    """Tells whether places out of bounds are filled with NaN or 0; JAX's derivative fills them with 0."""
    value = equation.params.get("fill_value")
    return value is None or (np.ndim(value) == 0 and (value == 0 or bool(np.isnan(value))))


def _is_own_derivative(equation: Any, moves: Sequence[bool]) -> bool:
    """Tells whether JAX's derivative of an equation is the same primitive, on tangents of operands."""
    avals = [var.aval for var in equation.invars]

    def push(values: Sequence[Any], along: Sequence[Any]) -> Any:
        def run(*moved: Any) -> Any:
            return bind(equation, spread(moved, moves, values))

        at = pick_true(values, moves)
        return jax.jvp(run, tuple(at), tuple(along))[1]

    tangents = pick_true(avals, moves)
    pushed = jax.make_jaxpr(push)(avals, tangents).jaxpr
    due = spread(pushed.invars[len(avals) :], moves, pushed.invars[: len(avals)])
    return any(
        step.primitive is equation.primitive
        and _name_params(step) == _name_params(equation)
        and step.invars == due
        and step.outvars == pushed.outvars
        for step in pushed.eqns
    )


def _name_params(equation: Any) -> dict[str, Any]:
    """Returns the parameters that say what an equation computes: of an op its call, and not the trace."""
    return {name: value for name, value in equation.params.items() if name not in ("call_jaxpr", "body")}


def _is_transposable(equation: Any, moves: Sequence[bool]) -> bool:
    def pull(values: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        moving = pick_true(values, moves)
        _, transpose = jax.vjp(lambda *moved: bind(equation, spread(moved, moves, values)), *moving)
        return transpose(list(cotangents))

    try:
        jax.eval_shape(pull, [var.aval for var in equation.invars], [var.aval for var in equation.outvars])
    except Exception:  # noqa: BLE001  JAX says in many ways that it has no rule
        return False
    return True


def bind(equation: Any, values: Sequence[Any]) -> list[Any]:
    """Evaluates an equation."""
    results = equation.primitive.bind(*values, **equation.primitive.get_bind_params(equation.params))
    return list(results) if equation.primitive.multiple_results else [results]


def _find_kept(equations: Sequence[Any]) -> Iterator[Any]:
    """Gives stopped gradients that are kept: a mapped ``cond`` selects between x and ``stop_gradient(x)``."""
    stops = [equation for equation in equations if equation.primitive.name == "stop_gradient"]
    if stops:
        selections = [
            {var for var in each.invars[1:] if not hasattr(var, "val")}
            for each in equations
            if each.primitive.name == "select_n"
        ]
        yield from (stop for stop in stops if any(map({*stop.invars, *stop.outvars}.issubset, selections)))


def _keep(value: Any) -> Any:
    return value


def _is_steady(equation: Any, states: States) -> bool:
    """Tells whether an equation does nothing with moving values but to compute."""
    return not _has_effect(equation) or {FIXED, ZERO}.issuperset(states)


def _has_effect(equation: Any) -> bool:
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in equation.effects)


def _is_inexact(var: Any) -> bool:
    return jnp.issubdtype(var.aval.dtype, jnp.inexact)
