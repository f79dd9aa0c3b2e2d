"""Calls that have to raise, for every family of ops; ``tests/parity`` asks torch for the kinds of errors."""

from __future__ import annotations

from .error_samples_arithmetic import ARITHMETIC
from .error_samples_fourier import FOURIER
from .error_samples_layers import LAYERS
from .error_samples_losses import LOSSES
from .error_samples_matrices import MATRICES
from .error_samples_networks import NETWORKS
from .error_samples_places import PLACES
from .error_samples_pointwise import POINTWISE
from .error_samples_random import RANDOM
from .error_samples_reduce import REDUCE
from .error_samples_sampling import SAMPLING
from .error_samples_shapes import SHAPES
from .error_samples_special import SPECIAL
from .error_samples_statistics import STATISTICS
from .error_samples_writing import WRITING

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
