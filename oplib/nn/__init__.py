"""The paths of ``torch.nn`` that there are here; what they carry stands on other floors."""

from . import functional

__all__ = ["functional"]
