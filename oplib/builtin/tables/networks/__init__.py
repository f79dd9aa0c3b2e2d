"""The ops of neural networks, except losses."""

from . import (
    activations,
    attention,
    bags,
    convolution,
    dropout,
    flash_attention,
    grids,
    norm_pooling,
    normalisation,
    pooling,
    shrinkage,
    unfolding,
)

_LAYERS = (normalisation, dropout, attention, flash_attention, convolution, pooling, norm_pooling)
FAMILIES = (activations, shrinkage, *_LAYERS, grids, bags, unfolding)
