"""Symbolic lengths, which ``jax.export.symbolic_shape`` makes, during export."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.export


class _SymbolicType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return is_symbolic(instance)


class SymbolicSize(metaclass=_SymbolicType):
    """A class for ``isinstance``, because JAX's own class has no public name."""


def is_symbolic(size: Any) -> bool:
    """Returns whether a length is a symbol."""
    return jax.export.is_symbolic_dim(size)


def has_symbols(shape: Iterable[object]) -> bool:
    """Returns whether some length of a shape is a symbol."""
    return any(map(is_symbolic, shape))
