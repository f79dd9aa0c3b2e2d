"""The paths of ``torch.utils`` that oplib has; their contents are defined on other floors."""

from . import checkpoint

__all__ = ["checkpoint"]
