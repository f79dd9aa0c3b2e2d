"""Checks of ops: whether every rule of an op agrees with its kernel. They are imported at their first use."""

from typing import TYPE_CHECKING

from oplib.errors import OpCheckError
from oplib.importing import LateImports as _LateImports

if TYPE_CHECKING:
    from .check import opcheck

__all__ = ["OpCheckError", "opcheck"]

__getattr__ = _LateImports(__name__, {"opcheck": "check"}).find
