"""The tensor floor: the box over an array, its storage, and how data gets in and out."""

from .storage import Storage
from .tensor import Tensor, box
from .upcalls import upcalls

__all__ = ["Storage", "Tensor", "box", "upcalls"]
