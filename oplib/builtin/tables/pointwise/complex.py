"""Complex numbers: their parts and angles, and their construction."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import ItemRow
from oplib.builtin.shared_kernels.promotion import broadcast, strong, to_floating
from oplib.errors import ArgumentError
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX


def _conj(self: Any) -> Any:
    return lax.conj(self) if self.dtype in COMPLEX else self


def _angle(self: Any) -> Any:
    """Returns the angle; for real numbers it is 0 or pi, with gradient 0."""
    if self.dtype in COMPLEX:
        is_origin = self == 0
        safe = jnp.where(is_origin, 1, self)
        at_origin = lax.stop_gradient(lax.atan2(lax.imag(self), lax.real(self)))  # zeros have signs
        parts = lax.imag(safe), lax.real(safe)
        size = lax.stop_gradient(lax.max(*map(lax.abs, parts)))  # the derivative squares the parts
        size = jnp.where(jnp.isinf(size), 1, size)
        return jnp.where(is_origin, at_origin, lax.atan2(*(part / size for part in parts)))
    x = to_floating(self)
    steps = jnp.where(x < 0, strong(jnp.pi, x), strong(0, x))
    return lax.stop_gradient(jnp.where(jnp.isnan(x), x, steps))


def _check_parts(first: Any, second: Any) -> list[Any]:
    if first.dtype not in (dtypes.float32, dtypes.float64) or first.dtype != second.dtype:
        raise ArgumentError(
            "expected both inputs to be float32 or both float64", "Convert them: tensor.to(dtype)."
        )
    return broadcast([first, second])


def _complex(real: Any, imag: Any) -> Any:
    return lax.complex(*_check_parts(real, imag))


def _polar(abs: Any, angle: Any) -> Any:
    size, direction = _check_parts(abs, angle)
    return lax.complex(size * lax.cos(direction), size * lax.sin(direction))


ROWS = (
    ItemRow("conj(Tensor self) -> Tensor", _conj, "complex conjugate", out=False, aliases=("conj_physical",)),
    ItemRow(
        "angle(Tensor self) -> Tensor", _angle, "angle in radians; 0 or pi for a real number", result="mixed"
    ),
    ItemRow(
        "complex(Tensor real, Tensor imag) -> Tensor",
        _complex,
        "complex numbers with given parts",
        dtypes="f",
        result="mixed",
        exact_out=True,
    ),
    ItemRow(
        "polar(Tensor abs, Tensor angle) -> Tensor",
        _polar,
        "complex numbers with a given absolute value and angle",
        dtypes="f",
        result="mixed",
        exact_out=True,
        autocast="cpu float32",
    ),
)
