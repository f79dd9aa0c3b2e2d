"""Rows of two kinds: functions of one floating tensor, and of two operands, one of which may be a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oplib.builtin.rows.row import DERIVED, ItemRow, Row
from oplib.builtin.shared_kernels.promotion import on_floating
from oplib.library import Derivative

_PARAMETERS = {
    "Scalar": ("Tensor self, Scalar {}", "{}"),
    "Scalar_Tensor": ("Scalar self, Tensor {}", "self"),
    "Tensor": ("Tensor self, Tensor {}", ""),
}
ONE_NUMBER = ("Scalar", "Tensor")


def make_unary(name: str, function: Any, doc: str, derivative: Derivative = DERIVED, **facts: Any) -> Row:
    """Makes the row of a function of floating items, to which integers are converted.

    The in-place form is a method and, unless ``facts`` name others, a function.
    """
    names = [f"{alias}_" for alias in (name, *facts.get("aliases", ()))]
    default: dict[str, Any] = {"in_place_functions": tuple(names), "result": "floats", "in_place": True}
    kernel = on_floating(function)
    return ItemRow(f"{name}(Tensor self) -> Tensor", kernel, doc, derivative, **(default | facts))


def make_pairs(
    op: str,
    kernel: Any,
    doc: str,
    *,
    kinds: tuple[str, ...] = tuple(_PARAMETERS),
    second: str = "other",
    derivative: Derivative = DERIVED,
    derivatives: Mapping[str, Derivative] | None = None,
    in_place: bool = True,
    **facts: Any,
) -> tuple[Row, ...]:
    """Makes the rows of a function of two operands.

    Args:
        op: its name.
        kernel: of all rows.
        doc: of all rows.
        kinds: which of the two may be a number.
        second: the name of the second operand.
        derivative: of the rows.
        derivatives: of the rows of some kinds, instead.
        in_place: the row of two tensors has an in-place form.
        **facts: of all rows.
    """
    return tuple(
        ItemRow(
            f"{op}.{kind}({_PARAMETERS[kind][0].format(second)}) -> Tensor",
            kernel,
            doc,
            (derivatives or {}).get(kind, derivative),
            operand=(_PARAMETERS[kind][1].format(second),) if kind != "Tensor" else (),
            in_place=in_place and kind == "Tensor",
            **facts,
        )
        for kind in kinds
    )
