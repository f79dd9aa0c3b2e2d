"""Checks of ops: does every rule of an op say the same as its kernel?"""

from oplib.errors import OpCheckError

from .check import opcheck

__all__ = ["OpCheckError", "opcheck"]
