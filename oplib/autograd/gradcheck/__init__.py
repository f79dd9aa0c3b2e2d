"""Checks of derivatives against finite differences."""

from oplib.errors import GradcheckError

from .check import gradcheck
from .second import gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
