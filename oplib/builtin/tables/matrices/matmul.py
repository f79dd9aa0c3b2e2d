"""Matrix multiplication."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from oplib.builtin.kernels.promotion import find_common_shape
from oplib.builtin.rows.row import ProductRow
from oplib.errors import ArgumentError, describe


def _check(op: str, self: Any, other: Any) -> None:
    if self.dtype != other.dtype:
        raise ArgumentError(
            f"{op}: expected both operands to have the same dtype. Got {describe(self)} and "
            f"{describe(other)}. Convert one: tensor.to(dtype)."
        )


def _matmul(self: Any, other: Any) -> Any:
    _check("matmul", self, other)
    if not self.ndim or not other.ndim:
        raise ArgumentError(
            f"matmul: both arguments need to be at least 1D. Got {describe(self)} and {describe(other)}. "
            f"Multiply numbers with *."
        )
    rows = other.shape[-2] if other.ndim > 1 else other.shape[0]
    if self.shape[-1] != rows:
        raise ArgumentError(
            f"matmul: the shapes cannot be multiplied. Got {describe(self)} and {describe(other)}; the last "
            "axis of the first must equal the last but one of the second. Transpose one of them."
        )
    find_common_shape("matmul", self, other, lead=-2)
    return jnp.matmul(self, other)


def _mm(self: Any, mat2: Any) -> Any:
    if self.ndim != 2 or mat2.ndim != 2:
        raise ArgumentError(
            f"mm: both arguments are matrices. Got {describe(self)} and {describe(mat2)}. Use matmul for "
            "the others."
        )
    return _matmul(self, mat2)


ROWS = (
    ProductRow(
        "matmul(Tensor self, Tensor other) -> Tensor",
        _matmul,
        "matrix product over the last two axes",
        autocast="low",
    ),
    ProductRow("mm(Tensor self, Tensor mat2) -> Tensor", _mm, "product of two matrices", autocast="low"),
)
