"""Calls that must raise, by family of ops; ``tests/parity`` compares the classes of errors with torch."""

from __future__ import annotations

from .arithmetic import ARITHMETIC
from .fourier import FOURIER
from .layers import LAYERS
from .losses import LOSSES
from .matrices import MATRICES
from .networks import NETWORKS
from .places import PLACES
from .pointwise import POINTWISE
from .random import RANDOM
from .reduce import REDUCE
from .sampling import SAMPLING
from .shapes import SHAPES
from .special import SPECIAL
from .statistics import STATISTICS
from .writing import WRITING

REFUSALS = (
    *POINTWISE,
    *ARITHMETIC,
    *REDUCE,
    *SHAPES,
    *PLACES,
    *MATRICES,
    *NETWORKS,
    *LAYERS,
    *LOSSES,
    *SAMPLING,
    *FOURIER,
    *SPECIAL,
    *STATISTICS,
    *RANDOM,
    *WRITING,
)
