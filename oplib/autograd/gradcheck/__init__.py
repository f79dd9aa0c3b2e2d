"""Checks of derivatives against finite differences. They are imported at their first use."""

from typing import TYPE_CHECKING

from oplib.errors import GradcheckError
from oplib.importing import LateImports as _LateImports

if TYPE_CHECKING:
    from .check import gradcheck
    from .second import gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

__getattr__ = _LateImports(__name__, {"gradcheck": "check", "gradgradcheck": "second"}).find
