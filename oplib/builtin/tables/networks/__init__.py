"""The ops of neural networks, except losses."""

from . import (
    activations,
    attention,
    bags,
    convolution,
    dropout,
    flash_attention,
    fractional_pooling,
    grids,
    norm_pooling,
    normalisation,
    pooling,
    shrinkage,
    unfolding,
)

_LAYERS = (normalisation, dropout, attention, flash_attention, convolution, pooling)
_POOLINGS = (norm_pooling, fractional_pooling)
FAMILIES = (activations, shrinkage, *_LAYERS, *_POOLINGS, grids, bags, unfolding)
