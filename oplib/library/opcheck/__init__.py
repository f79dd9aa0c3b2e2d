"""Checks of ops: whether every rule of an op agrees with its kernel."""

from oplib.errors import OpCheckError

from .check import opcheck

__all__ = ["OpCheckError", "opcheck"]
