"""Checks of what the functions return that a control flow function gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.errors import ArgumentTypeError, ResultError, describe

from .body import Body
from .leaves import LeafLayout


def require_function(what: str, function: Any) -> None:
    """Raises where something that is to be called cannot be.

    Raises:
        ArgumentTypeError: it cannot.
    """
    if not callable(function):
        raise ArgumentTypeError(
            f"{what} cannot be called. Got {describe(function)}, of type {type(function).__name__}. Give a "
            "function of Tensors."
        )


def check_carry(what: str, carry: LeafLayout, types: Sequence[Any], body: Body) -> None:
    """Raises where a body returns another carry than it gets.

    Args:
        what: the function, for errors.
        carry: the structure of the carry that it gets.
        types: of the leaves of the carry.
        body: the traced function, whose first result is the new carry.

    Raises:
        ResultError: it does.
    """
    compare(
        carry,
        types,
        body.layouts[0],
        body.types[: body.layouts[0].count],
        f"{what} returns another carry than it gets",
        "Return a carry of the structure, shapes and dtypes of the first one",
    )


def compare(
    due: LeafLayout,
    due_types: Sequence[Any],
    given: LeafLayout,
    given_types: Sequence[Any],
    subject: str,
    cure: str,
) -> None:
    """Raises where two trees of Tensors differ in structure, or in the shape or dtype of a leaf.

    Raises:
        ResultError: they do.
    """
    if due != given:
        raise ResultError(f"{subject}. Got the structure {given}, expected {due}. {cure}.")
    for place, (one, other) in enumerate(zip(due_types, given_types, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ResultError(
                f"{subject}. Got {describe(other)} for leaf {place}, expected {describe(one)}. {cure}; "
                "convert with tensor.to(dtype), or reshape."
            )
