"""Matrix multiplication."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax.numpy as jnp

from oplib.builtin.rows.row import ProductRow
from oplib.builtin.shared_kernels.promotion import broadcast_to, check_dtypes, find_common_shape
from oplib.errors import ArgumentError, describe


def check_factors(x: Any, y: Any) -> None:
    """Raises if two arrays have no matrix product. It does not look at the batches.

    Raises:
        ArgumentError: one has no axis, or the summed axes differ in size.
    """
    if not x.ndim or not y.ndim:
        raise ArgumentError("both arguments need to be at least 1D", "Multiply numbers with *.")
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        first = "the size of the first" if x.ndim == 1 else "the last axis of the first"
        second = "that of the second" if y.ndim == 1 else "the last axis but one of the second"
        cure = "Cut or pad one of them" if x.ndim == y.ndim == 1 else "Transpose one of them"
        raise ArgumentError(f"the shapes cannot be multiplied: {first} must equal {second}", f"{cure}.")


def broadcast_to_product(name: str, array: Any, product: Any) -> Any:
    """Broadcasts an operand that is added to a product.

    Raises:
        ArgumentError: its shape does not broadcast to that of the product.
    """
    with suppress(ValueError):
        if jnp.broadcast_shapes(array.shape, product.shape) == product.shape:
            return broadcast_to(array, product.shape)
    raise ArgumentError(f"the {name} does not broadcast to the product {describe(product)}", "Reshape it.")


def _matmul(self: Any, other: Any) -> Any:
    check_dtypes(self, other)
    check_factors(self, other)
    find_common_shape(self, other, lead=-2)
    return jnp.matmul(self, other)


def _mm(self: Any, mat2: Any) -> Any:
    if self.ndim != 2 or mat2.ndim != 2:
        raise ArgumentError("both arguments are matrices", "Use matmul for the others.")
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
