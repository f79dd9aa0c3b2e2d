"""Comparisons, which return bools, and the selection by a condition."""

from __future__ import annotations

from typing import Any

from jax import lax

from oplib.builtin.kernels.promotion import broadcast, comparison, promote_operands
from oplib.builtin.rows.row import ItemRow, Row, constant
from oplib.errors import ArgumentError, describe
from oplib.tensor.dtypes import names as dtypes

from .shared_rows import ONE_NUMBER, make_pairs

_STEP = constant("the result is a bool, which is piecewise constant")


def _compare(op: str, function: Any, sign: str, **facts: Any) -> tuple[Row, ...]:
    taken = "bihfc" if op in ("eq", "ne") else "bihf"  # complex numbers have no order
    facts |= {"derivative": _STEP, "dtypes": taken, "result": "bools", "kinds": ONE_NUMBER}
    return make_pairs(op, comparison(op, function), f"self {sign} other", **facts)


def _where(condition: Any, self: Any, other: Any) -> Any:
    if condition.dtype != dtypes.bool:
        raise ArgumentError(
            f"where: argument 'condition' is expected to be a boolean tensor. Got {describe(condition)}. "
            f"Compare it with something: condition != 0."
        )
    dtype = promote_operands(self, other)
    pair = [lax.convert_element_type(operand, dtype) for operand in (self, other)]
    return lax.select(*broadcast([condition, *pair], "where"))


_WHERE = "self where the condition is True, other elsewhere"

ROWS = (
    *_compare("eq", lax.eq, "=="),
    *_compare("ne", lax.ne, "!=", aliases=("not_equal",)),
    *_compare("lt", lax.lt, "<", aliases=("less",)),
    *_compare("le", lax.le, "<=", aliases=("less_equal",)),
    *_compare("gt", lax.gt, ">", aliases=("greater",)),
    *_compare("ge", lax.ge, ">=", aliases=("greater_equal",)),
    ItemRow(
        "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
        _where,
        _WHERE,
        operand=("self", "other"),
        result="mixed",
    ),
    ItemRow(
        "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
        _where,
        _WHERE,
        operand=("other",),
    ),
    ItemRow(
        "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
        _where,
        _WHERE,
        operand=("self",),
    ),
    ItemRow("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", _where, _WHERE),
)
