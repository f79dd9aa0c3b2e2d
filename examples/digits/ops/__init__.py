"""The ops of the digits demo, one file per op: the kernel and the derivative."""

from .branches import branches
from .cross_entropy import cross_entropy
from .linear import linear
from .rms_norm import rms_norm
from .sgd import sgd_
from .shift_images import shift_images

__all__ = ["branches", "cross_entropy", "linear", "rms_norm", "sgd_", "shift_images"]
