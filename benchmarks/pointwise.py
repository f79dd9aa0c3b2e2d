"""Each pointwise op and matrix product: an eager call on Tensors over the bare cached jit of its kernel.

About 300 calls are measured, each for a short time. Only the ten most expensive are printed; all of them
count, and ``--save`` stores them. A ratio beyond the bound is measured again, for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

import oplib
from oplib.builtin.public_functions import families as _families, registry as _functions
from oplib.builtin.rows.row import Row as OpRow
from oplib.builtin.tables import pointwise as _pointwise
from oplib.builtin.tables.networks import activations as _activations
from oplib.library.schema import Argument

from .rounds import Case, Comparison, Effort, compare
from .sample_ops import make_arrays
from .table import Row

TITLE = "each pointwise op and product of matrices, over the bare cached jit of its kernel"
CONTROL = "jax.jit(kernel)"
BOUND = 1.4
PRINTED = 10
SKIPPED_TO = 4  # the quick table has every fourth call, because compiling all of them takes minutes
FAMILIES = (*_pointwise.FAMILIES, _activations)
PRODUCTS = ("matmul", "mm", "bmm", "addmm", "linear")
# The function of polygamma takes its number first, and zeta has no derivative by its first operand.
LEFT_OUT = ("polygamma", "special_zeta.Tensor")
NUMBERS: dict[str, Any] = {"Scalar": 0.5, "float": 0.5, "int": 3, "str": "floor"}


@dataclass(frozen=True)
class Call:
    """One measured call.

    Attributes:
        row: the row of the op.
        values: the values of its arguments by name; tensors are arrays here.
    """

    row: OpRow
    values: dict[str, Any]

    def make_subject(self, *, requires_grad: bool) -> Case:
        """Returns the call as a user makes it, with Tensors and Python numbers; defaults are omitted."""
        function = _find_function(self.row)
        given = [one for one in _list_arguments(self.row) if not one.has_default_value()]
        named = {one.name: self.values[one.name] for one in given if one.kwarg_only}
        positional = [self.values[one.name] for one in given if not one.kwarg_only]
        operands = [_to_tensor(value, requires_grad) for value in positional]
        return Case(_name_arguments(function, named) if named else function, *operands)

    def make_control(self) -> Case:
        """Returns the kernel, compiled for these static arguments; operand numbers are operands here too."""
        moving = {
            name: jnp.asarray(value)
            for name, value in self.values.items()
            if isinstance(value, jax.Array) or name in self.row.operand
        }
        arguments = _list_arguments(self.row)

        def run(*operands: Any) -> Any:
            values = {**self.values, **dict(zip(moving, operands, strict=True))}
            positional = [values[one.name] for one in arguments if not one.kwarg_only]
            named = {one.name: values[one.name] for one in arguments if one.kwarg_only}
            return self.row.kernel(*positional, **named)

        return Case(jax.jit(run), *moving.values())


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row per call, of which the most expensive are printed, and their median."""
    brief = replace(
        effort, seconds=effort.seconds / 20, round_seconds=effort.round_seconds / 2, least_rounds=5
    )
    found: dict[str, list[Row]] = {"without grad": [], "recording": []}
    for call in list_calls()[:: 1 if effort.seconds > 1 else SKIPPED_TO]:
        control = call.make_control()
        for what, rows in found.items():
            if what == "without grad" or can_record(call):
                subject = call.make_subject(requires_grad=what == "recording")
                rows.append(
                    Row(f"{call.row.name}, {what}", CONTROL, BOUND, _time_well(subject, control, brief))
                )
    for what, rows in found.items():
        rows.sort(key=_find_ratio, reverse=True)
        within = sum(_find_ratio(row) <= BOUND for row in rows)
        yield Row(
            f"{len(rows)} calls {what}: the median",
            CONTROL,
            None,
            rows[len(rows) // 2].measured,
            note=f"{within} of {len(rows)} are within {BOUND}; the {PRINTED} that cost most:",
        )
        yield from (replace(row, is_printed=place < PRINTED) for place, row in enumerate(rows))


def _time_well(subject: Case, control: Case, effort: Effort) -> Comparison:
    found = compare(subject, control, effort)
    return (
        found
        if found.ratio <= BOUND
        else compare(subject, control, replace(effort, seconds=effort.seconds * 3))
    )


def _find_ratio(row: Row) -> float:
    assert row.measured is not None
    return row.measured.ratio


def list_calls() -> list[Call]:
    """Returns a call of every overload of the pointwise families, and of the matrix products."""
    rows = [row for family in FAMILIES for row in family.ROWS]
    products = [row for row in _families.ROWS if row.name in PRODUCTS]
    found = [row for row in (*rows, *products) if row.view is None and row.name not in LEFT_OUT]
    return [Call(row, _choose_values(row)) for row in found]


def can_record(call: Call) -> bool:
    """Tells whether a call can be recorded: it has a derivative and a differentiable argument."""
    floating = any(
        isinstance(value, jax.Array) and value.dtype == jnp.float32 for value in call.values.values()
    )
    has_derivative = call.row.derivative.constant is None and "polynomial" not in call.row.name
    return floating and has_derivative  # polynomials have none by their degree, the second operand


def _choose_values(row: OpRow) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for argument in _list_arguments(row):
        kind = str(argument.type)
        if argument.has_default_value():
            values[argument.name] = argument.default_value
        elif kind == "Tensor":
            values[argument.name] = _make_operand(row, argument, len(values))
        else:
            values[argument.name] = 3 if _is_of_integers(row) else NUMBERS[kind]
    return values


def _make_operand(row: OpRow, argument: Argument, place: int) -> Any:
    array = make_arrays(place + 1)[place]
    if _is_of_integers(row):
        return jnp.ceil(array).astype(jnp.int32)
    if row.op == "prelu" and place:
        return array[0]
    if argument.name == "condition":
        return array > 1
    return array[None] if row.op == "bmm" else array


def _is_of_integers(row: OpRow) -> bool:
    return "f" not in row.dtypes


def _list_arguments(row: OpRow) -> list[Argument]:
    return list(_families.OVERLOADS[row.name]._schema.arguments)


def _name_arguments(function: Callable[..., Any], named: dict[str, Any]) -> Callable[..., Any]:
    """Binds arguments by name in one additional frame, which costs less than ``partial``."""
    (name,) = named
    scope: dict[str, Any] = {"function": function, "value": named[name]}
    exec(f"def call(*operands): return function(*operands, {name}=value)", scope)
    return scope["call"]


def _find_function(row: OpRow) -> Callable[..., Any]:
    return (_functions.FUNCTIONS if row.op in _functions.FUNCTIONS else _functions.UPCALLS)[row.op]


def _to_tensor(value: Any, requires_grad: bool) -> Any:
    if not isinstance(value, jax.Array):
        return value
    return oplib.Tensor.from_array(value, requires_grad=requires_grad and value.dtype == jnp.float32)
