"""The paths of ``torch.utils`` that there are here; what they carry stands on other floors."""

from . import checkpoint

__all__ = ["checkpoint"]
