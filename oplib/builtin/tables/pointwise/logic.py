"""Comparisons, the selection by a condition, logic of bools and bits, and tests of single items."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import ItemRow, Row, constant
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    compare_items,
    elementwise,
    is_integral,
    promote_operands,
)
from oplib.errors import ArgumentError, UnsupportedDtypeError
from oplib.tensor.dtypes import names as dtypes

from .shared_rows import ONE_NUMBER, make_pairs

_STEP = constant("the result is a bool, which is piecewise constant")
_BITS = constant("integers have no gradient")


def _compare(op: str, function: Any, sign: str, **facts: Any) -> tuple[Row, ...]:
    taken = "bihfc" if op in ("eq", "ne") else "bihf"  # complex numbers have no order
    facts |= {"derivative": _STEP, "dtypes": taken, "result": "bools", "kinds": ONE_NUMBER}
    return make_pairs(op, partial(compare_items, function), f"self {sign} other", **facts)


def _where(condition: Any, self: Any, other: Any) -> Any:
    if condition.dtype != dtypes.bool:
        raise ArgumentError(
            "argument 'condition' is expected to be a boolean tensor",
            "Compare it with something: condition != 0.",
        )
    dtype = promote_operands(self, other)
    pair = [lax.convert_element_type(operand, dtype) for operand in (self, other)]
    return lax.select(*broadcast([condition, *pair]))


_WHERE = "self where the condition is True, other elsewhere"

_COMPARISONS = (
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


def _to_bool(array: Any) -> Any:
    return array if array.dtype == dtypes.bool else array != 0


def _logical(op: str, function: Any, doc: str) -> Row:
    def kernel(self: Any, other: Any) -> Any:
        return function(*broadcast([_to_bool(self), _to_bool(other)]))

    return ItemRow(
        f"{op}(Tensor self, Tensor other) -> Tensor",
        kernel,
        doc,
        derivative=_STEP,
        in_place=True,
        result="bools",
    )


def _bitwise(op: str, function: Any, doc: str, dtypes: str = "bi") -> tuple[Row, ...]:
    return make_pairs(op, elementwise(function), doc, derivative=_BITS, dtypes=dtypes)


def _bitwise_not(self: Any) -> Any:
    return lax.bitwise_not(self)


def _shift_right(x: Any, y: Any) -> Any:
    return lax.shift_right_arithmetic(x, y) if x.dtype.kind == "i" else lax.shift_right_logical(x, y)


def _ask(op: str, function: Any, doc: str) -> Row:
    """Makes a row for a test of a floating item, which has one result for all integers."""

    def kernel(self: Any) -> Any:
        if is_integral(self.dtype):
            return jnp.full(self.shape, op == "isfinite")
        return function(self)

    return ItemRow(f"{op}(Tensor self) -> Tensor", kernel, doc, derivative=_STEP, result="bools")


def _isclose(self: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    if rtol < 0 or atol < 0:
        raise ArgumentError(
            "rtol and atol must be greater than or equal to zero", "Give the size of what is allowed."
        )
    if self.dtype != other.dtype:
        raise UnsupportedDtypeError("the operands have different dtypes", "Convert one: tensor.to(dtype).")
    x, y = broadcast([self, other])
    if is_integral(self.dtype):
        if rtol == atol == 0:
            return lax.eq(x, y)
        x, y = (lax.convert_element_type(array, dtypes.float32) for array in (x, y))
    return jnp.isclose(x, y, rtol, atol, equal_nan)


ROWS = (
    *_COMPARISONS,
    _logical("logical_and", lax.bitwise_and, "whether both items are nonzero"),
    _logical("logical_or", lax.bitwise_or, "whether one of the items is nonzero"),
    _logical("logical_xor", lax.bitwise_xor, "whether exactly one of the items is nonzero"),
    ItemRow(
        "logical_not(Tensor self) -> Tensor",
        lambda self: lax.bitwise_not(_to_bool(self)),
        "whether self is 0 or False",
        derivative=_STEP,
        in_place=True,
        result="bools",
    ),
    *_bitwise("bitwise_and", lax.bitwise_and, "self & other"),
    *_bitwise("bitwise_or", lax.bitwise_or, "self | other"),
    *_bitwise("bitwise_xor", lax.bitwise_xor, "self ^ other"),
    *_bitwise("bitwise_left_shift", lax.shift_left, "self << other", "i"),
    *_bitwise("bitwise_right_shift", _shift_right, "self >> other", "i"),
    ItemRow(
        "bitwise_not(Tensor self) -> Tensor",
        _bitwise_not,
        "bitwise complement of self; logical not for bools",
        derivative=_BITS,
        in_place=True,
        dtypes="bi",
    ),
    _ask("isnan", jnp.isnan, "whether self is nan"),
    _ask("isinf", jnp.isinf, "whether self is infinite"),
    _ask("isfinite", jnp.isfinite, "whether self is finite"),
    ItemRow(
        "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)"
        " -> Tensor",
        _isclose,
        "whether abs(self - other) <= atol + rtol * abs(other)",
        derivative=_STEP,
        result="bools",
    ),
)
