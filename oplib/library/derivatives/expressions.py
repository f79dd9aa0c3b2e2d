"""Values of a jaxpr, numbered so that equal expressions get equal numbers.

An expression is a label with the numbers of its operands. The label holds the primitive and its parameters,
so a primitive that this module does not know is an expression of its own. Calls are read through. A ``cond``
is the tuple of its branches. A result of ``scan`` or ``while`` is identified by the carries that it reaches,
in the order in which they are found: two loops are one expression although one of them carries further
values.

Each rule for zeros, for identities and for results by position says that more expressions are equal. So a
primitive that is missing in these tables makes the numbering weaker, and never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

Numbers = tuple[int, ...]

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
# The value is that of the operand at the position of the result.
_IDENTITIES = frozenset(
    {"copy", "copy_p", "name", "op_name", "optimization_barrier", "pcast", "pvary", "reshard"}
)
# Each result depends on the operand at its position alone.
_EACH = frozenset(
    {"device_put", "psum", "psum_invariant", "all_gather", "all_to_all", "ppermute", "reduce_scatter"}
)
# Zero if all operands are.
_ZERO_OF_ZEROS = frozenset(
    {
        "add", "add_any", "sub", "neg", "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims",
        "concatenate", "stack", "unstack", "tile", "rev", "slice", "split", "reduce_sum", "cumsum", "real",
        "imag", "convert_element_type", "reduce_precision", "psum", "psum_invariant",
    }
)  # fmt: skip
_PRODUCTS = frozenset({"mul", "dot_general", "conv_general_dilated"})
_SMALL = 1 << 14  # numbers; a constant of more is not searched for numbers other than zero


def open_jaxpr(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """Returns a jaxpr, closed or not, and the values of its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def split_loop(equation: Any) -> tuple[int, int]:
    """Returns the number of constants of a ``scan``, and of its constants and carries together.

    They are found by their shapes, because the names of the parameters differ between versions of JAX.
    """
    inner, _ = open_jaxpr(equation.params["jaxpr"])
    carried = sum(map(_have_same_shape, equation.outvars, inner.outvars))
    last = sum(map(_have_same_shape, equation.invars, inner.invars))
    return last - carried, last


def _have_same_shape(outer: Any, inner: Any) -> bool:
    return outer.aval.shape == inner.aval.shape


class Expressions:
    """Numbers of expressions; the operands of an expression have smaller numbers.

    The jaxprs that are read must live as long as this object.

    Args:
        absorbs: a product with zero is zero, whatever the other factor is; so NaN and infinity do not count.
    """

    def __init__(self, *, absorbs: bool = False) -> None:
        self._absorbs = absorbs
        self._numbers: dict[tuple[Hashable, Numbers], int] = {}
        self._labels: list[Any] = []
        self._operands: list[Numbers] = []
        self._carries: list[Numbers] = []  # of each expression, the carries of unfinished loops in it
        self._zeros: set[int] = set()
        self._read_before: dict[Any, list[int]] = {}
        self._parameters: dict[int, Hashable] = {}
        self._readers: dict[str, Callable[[Any, Numbers, int], list[int]]] = {
            "scan": self._read_scan,
            "while": self._read_while,
            "cond": self._read_cond,
            "shard_map": self._read_shard_map,
        }

    def make(self, label: Hashable, operands: Numbers = ()) -> int:
        """Returns the number of an expression."""
        number = self._numbers.get((label, operands))
        if number is None:
            number = self._numbers[label, operands] = len(self._labels)
            self._labels.append(label)
            self._operands.append(operands)
            inner = [carry for operand in operands for carry in self._carries[operand]]
            self._carries.append(tuple(dict.fromkeys(inner)) if inner else ())
        return number

    def make_zero(self, aval: Any) -> int:
        """Returns the number of zeros of a shape and dtype."""
        number = self.make(("zero", aval.shape, aval.dtype))
        self._zeros.add(number)
        return number

    def is_zero(self, number: int) -> bool:
        """Tells whether an expression is known to be zero."""
        return number in self._zeros

    def depends(self, number: int, leaves: Sequence[int]) -> bool:
        """Tells whether an expression contains one of some leaves."""
        sought, seen, stack = set(leaves), set(), [number]
        while stack:
            current = stack.pop()
            if current in sought:
                return True
            if current not in seen:
                seen.add(current)
                stack.extend(self._operands[current])
        return False

    def read(self, jaxpr: Any, operands: Sequence[int], depth: int = 0) -> list[int]:
        """Returns the numbers of the outputs of a jaxpr.

        Args:
            jaxpr: a jaxpr, closed or not.
            operands: the numbers of its inputs.
            depth: the number of loops around it.
        """
        key = id(jaxpr), tuple(operands), depth
        numbers = self._read_before.get(key)
        if numbers is None:
            numbers = self._read_before[key] = self._read(jaxpr, operands, depth)
        return numbers

    def _read(self, jaxpr: Any, operands: Sequence[int], depth: int) -> list[int]:
        inner, constants = open_jaxpr(jaxpr)
        numbers = dict(zip(inner.constvars, map(self._read_constant, constants), strict=True))
        numbers.update(zip(inner.invars, operands, strict=True))

        def find(var: Any) -> int:
            return self._read_literal(var) if hasattr(var, "val") else numbers[var]

        for equation in inner.eqns:
            arguments = tuple([find(var) for var in equation.invars])
            key = id(equation), arguments, depth
            results = self._read_before.get(key)
            if results is None:
                results = self._read_before[key] = self._read_equation(equation, arguments, depth)
            numbers.update(zip(equation.outvars, results, strict=True))
        return [find(var) for var in inner.outvars]

    def _read_literal(self, var: Any) -> int:
        value = var.val
        if np.ndim(value) == 0 and value == 0:
            return self.make_zero(var.aval)
        return self.make(("literal", var.aval.dtype, var.aval.shape, repr(value)))

    def _read_constant(self, value: Any) -> int:
        is_known = isinstance(value, (np.ndarray, np.generic, jax.Array)) and not isinstance(value, Tracer)
        if is_known and value.size <= _SMALL and jnp.issubdtype(value.dtype, np.number):
            is_near = not isinstance(value, jax.Array) or value.is_fully_addressable
            if is_near and not np.any(np.asarray(value)):
                return self.make_zero(value)
        return self.make(("constant", id(value)))

    def _read_equation(self, equation: Any, operands: Numbers, depth: int) -> list[int]:
        """Returns the numbers of the results of one equation; follows calls and control flow."""
        name = equation.primitive.name
        if any(type(effect).__name__ != "NamedAxisEffect" for effect in equation.effects):
            # It reads or writes more than its operands say, so no other equation has its value.
            return self._label_each(("effect", id(equation)), equation, operands)
        reader = self._readers.get(name)
        if reader is not None:
            return reader(equation, operands, depth)
        if name in _CALLS and _CALLS[name] in equation.params:
            return self.read(equation.params[_CALLS[name]], operands, depth)
        if self._absorbs and "call" in equation.params and "levels" in equation.params:
            # an op, maybe a product with zero
            return self.read(equation.params["call_jaxpr"], operands, depth)
        if name in _ZERO_OF_ZEROS and self._zeros.issuperset(operands):
            return [self.make_zero(var.aval) for var in equation.outvars]
        if self._absorbs and name in _PRODUCTS and not self._zeros.isdisjoint(operands):
            return [self.make_zero(var.aval) for var in equation.outvars]
        if name in _IDENTITIES and len(operands) == len(equation.outvars):
            return list(operands)
        if name in ("add", "add_any", "sub", "convert_element_type"):
            return [self._simplify(name, equation, operands)]
        label = name, self._describe(equation)
        if name in _EACH and len(operands) == len(equation.outvars):
            return [self.make(label, (operand,)) for operand in operands]
        return self._label_each(label, equation, operands)

    def _label_each(self, label: Hashable, equation: Any, operands: Numbers) -> list[int]:
        return [self.make((label, index), operands) for index in range(len(equation.outvars))]

    def _simplify(self, name: str, equation: Any, operands: Numbers) -> int:
        """Returns the number of a sum or conversion; zero is no term, and the same dtype no conversion."""
        aval = equation.outvars[0].aval
        kept = [
            operand
            for operand, var in zip(operands, equation.invars, strict=True)
            if var.aval.shape == aval.shape and var.aval.dtype == aval.dtype
        ]
        if name == "convert_element_type":
            return kept[0] if kept else self.make((name, self._describe(equation)), operands)
        terms = [operand for operand in operands if not self.is_zero(operand)]
        if len(terms) == 1 and terms[0] in kept:
            is_negative = name == "sub" and self.is_zero(operands[0])
            return self.make((("neg", ()), 0), (terms[0],)) if is_negative else terms[0]
        return self.make("sub" if name == "sub" else "add", operands)

    def _describe(self, equation: Any) -> Hashable:
        """Returns the parameters of an equation as a part of a label."""
        description = self._parameters.get(id(equation))
        if description is None:
            params = equation.params
            if equation.primitive.name == "gather" and _fills_as_derivative(equation):
                # Places out of bounds are NaN in the value by default, and 0 in its derivative.
                params = {**params, "fill_value": 0}
            description = tuple([(name, _freeze(value)) for name, value in params.items()])
            self._parameters[id(equation)] = description
        return description

    def _read_cond(self, equation: Any, operands: Numbers, depth: int) -> list[int]:
        branches = [self.read(branch, operands[1:], depth) for branch in equation.params["branches"]]
        return [
            self.make_zero(var.aval)
            if self._zeros.issuperset(choices)
            else self.make("cond", (operands[0], *choices))
            for var, choices in zip(equation.outvars, zip(*branches, strict=True), strict=True)
        ]

    def _read_shard_map(self, equation: Any, operands: Numbers, depth: int) -> list[int]:
        params = equation.params
        inner, _ = open_jaxpr(params["jaxpr"])
        mesh = _freeze(params["mesh"])
        parts = [
            self.make_zero(var.aval)
            if self.is_zero(operand)
            else self.make(("part", mesh, _freeze(spec)), (operand,))
            for var, operand, spec in zip(inner.invars, operands, params["in_specs"], strict=True)
        ]
        return [
            self.make_zero(var.aval)
            if self.is_zero(number)
            else self.make(("whole", mesh, _freeze(spec)), (number,))
            for var, number, spec in zip(
                equation.outvars, self.read(params["jaxpr"], parts, depth), params["out_specs"], strict=True
            )
        ]

    def _read_scan(self, equation: Any, operands: Numbers, depth: int) -> list[int]:
        params = equation.params
        first, last = split_loop(equation)
        inner, _ = open_jaxpr(params["jaxpr"])
        items = [
            self.make_zero(var.aval) if self.is_zero(operand) else self.make(("item", depth), (operand,))
            for var, operand in zip(inner.invars[last:], operands[last:], strict=True)
        ]

        def step(carries: Sequence[int]) -> list[int]:
            return self.read(params["jaxpr"], [*operands[:first], *carries, *items], depth + 1)

        carries, results = self._find_carries(operands[first:last], inner.invars[first:last], step, depth)
        count = len(carries)
        loop = _Loop(carries, results[:count], operands[first:last], depth)
        label = "scan", _freeze(params["length"]), params["reverse"]
        finals = [
            carry if self.is_zero(carry) else self._close(loop, (*label, "carry"), (carry,))
            for carry in carries
        ]
        stacked = [
            self.make_zero(var.aval)
            if self.is_zero(number)
            else self._close(loop, (*label, "stack"), (number,))
            for var, number in zip(equation.outvars[count:], results[count:], strict=True)
        ]
        return finals + stacked

    def _read_while(self, equation: Any, operands: Numbers, depth: int) -> list[int]:
        params = equation.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

        def step(carries: Sequence[int]) -> list[int]:
            return self.read(params["body_jaxpr"], [*operands[first:last], *carries], depth + 1)

        carries, results = self._find_carries(operands[last:], equation.outvars, step, depth)
        (condition,) = self.read(params["cond_jaxpr"], [*operands[:first], *carries], depth + 1)
        loop = _Loop(carries, results, operands[last:], depth)
        return [
            carry if self.is_zero(carry) else self._close(loop, ("while",), (carry, condition))
            for carry in carries
        ]

    def _find_carries(
        self, starts: Numbers, outvars: Sequence[Any], step: Callable[[Sequence[int]], list[int]], depth: int
    ) -> tuple[list[int], list[int]]:
        """Returns the carries of a loop, zero where they stay zero, and the results of a step."""
        carries = [
            self.make_zero(var.aval) if self.is_zero(start) else self._make_carry(depth, index)
            for index, (start, var) in enumerate(zip(starts, outvars, strict=True))
        ]
        while True:
            results = step(carries)
            moved = [
                index
                for index, (carry, result) in enumerate(zip(carries, results, strict=False))
                if self.is_zero(carry) and not self.is_zero(result)
            ]
            if not moved:
                return carries, results
            for index in moved:
                carries[index] = self._make_carry(depth, index)

    def _make_carry(self, depth: int, index: int) -> int:
        number = self.make(("carry", depth, index))
        self._carries[number] = (number,)
        return number

    def _close(self, loop: _Loop, label: tuple[Any, ...], ends: Numbers) -> int:
        """Returns the number of a result of a loop: its last expressions, and the carries that they reach."""
        order: list[int] = []
        for number in ends:
            order.extend(carry for carry in self._carries[number] if carry in loop.steps)
        order = list(dict.fromkeys(order))
        for carry in order:  # grows while it is read
            reached = self._carries[loop.steps[carry]]
            order.extend(other for other in reached if other in loop.steps and other not in order)
        names = {carry: self.make(("bound", loop.depth, index)) for index, carry in enumerate(order)}
        body = self._rename([*ends, *(loop.steps[carry] for carry in order)], names)
        starts = [loop.starts[carry] for carry in order]
        return self.make((*label, loop.depth, len(ends), len(order)), (*body, *starts))

    def _rename(self, numbers: Sequence[int], names: dict[int, int]) -> list[int]:
        """Replaces carries in expressions by other leaves."""
        renamed = dict(names)
        reached: set[int] = set()
        stack = list(numbers)
        while stack:
            current = stack.pop()
            if (
                current not in reached
                and current not in names
                and not names.keys().isdisjoint(self._carries[current])
            ):
                reached.add(current)
                stack.extend(self._operands[current])
        for current in sorted(reached):  # operands first
            operands = tuple([renamed.get(operand, operand) for operand in self._operands[current]])
            renamed[current] = self.make(self._labels[current], operands)
        return [renamed.get(number, number) for number in numbers]


class _Loop:
    """One loop.

    Attributes:
        steps: for each carry that is not zero, its expression after a step.
        starts: for each of them, its first value.
        depth: the number of loops around.
    """

    def __init__(self, carries: Sequence[int], steps: Sequence[int], starts: Numbers, depth: int) -> None:
        self.steps = dict(zip(carries, steps, strict=True))
        self.starts = dict(zip(carries, starts, strict=True))
        self.depth = depth


def _fills_as_derivative(equation: Any) -> bool:
    """Tells whether a gather fills places out of bounds with NaN or 0."""
    value, dtype = equation.params.get("fill_value"), equation.outvars[0].aval.dtype
    if not jnp.issubdtype(dtype, jnp.inexact):
        return False
    return value is None or (np.ndim(value) == 0 and (value == 0 or bool(np.isnan(value))))


def _freeze(value: Any) -> Hashable:
    """Returns a parameter as a part of a label; one that cannot be hashed stands for itself alone."""
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), *map(_freeze, value)
    try:
        hash(value)
    except TypeError:
        return "object", id(value)
    return type(value), value
