"""Torch's path ``autograd.variable``: the deprecated name of Tensor."""

from __future__ import annotations

from typing import Any

from oplib.tensor import Tensor

from .engine.engine import get_python_engine

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """The class of :class:`Variable`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """A deprecated name of Tensor. Every Tensor is an instance; a call marks a tensor as requiring grad."""

    _execution_engine = get_python_engine()

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Any:
        """Returns a tensor on the storage of ``data``."""
        return data.detach().requires_grad_(requires_grad)
