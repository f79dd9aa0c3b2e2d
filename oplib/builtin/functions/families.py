"""Which built-in ops there are, and which functions are made of several: the tables, put together."""

from __future__ import annotations

from oplib.builtin.composed.data_dependent import DATA_DEPENDENT
from oplib.builtin.composed.data_dependent import METHODS as _DATA_DEPENDENT_METHODS
from oplib.builtin.composed.forms import FORMS
from oplib.builtin.composed.forms import METHODS as _FORM_METHODS
from oplib.builtin.composed.matrices.factors import FACTORS
from oplib.builtin.composed.matrices.linalg import LINALG
from oplib.builtin.composed.matrices.older_linalg import OLDER
from oplib.builtin.composed.matrices.triangles import METHODS as _TRIANGLE_METHODS
from oplib.builtin.composed.matrices.triangles import OF_LINALG as _TRIANGLES_OF_LINALG
from oplib.builtin.composed.matrices.triangles import TRIANGLES
from oplib.builtin.composed.networks.attention import ATTENTION
from oplib.builtin.composed.networks.images import NETWORKS
from oplib.builtin.composed.networks.losses import LOSSES
from oplib.builtin.composed.networks.norm_pools import NORM_POOLS
from oplib.builtin.composed.networks.norms import NORMS
from oplib.builtin.composed.networks.pools import POOLS
from oplib.builtin.composed.parts import PARTS
from oplib.builtin.composed.products import POWERS, PRODUCTS_AND_NORMS, norm
from oplib.builtin.composed.quantiles import QUANTILES
from oplib.builtin.composed.sequences import METHODS as _SEQUENCE_METHODS
from oplib.builtin.composed.sequences import SEQUENCES, trapezoid
from oplib.builtin.composed.shapes import METHODS as _SHAPE_METHODS
from oplib.builtin.composed.shapes import SHAPES
from oplib.builtin.composed.signals.fourier import FOURIER
from oplib.builtin.composed.signals.spectra import SPECTRA
from oplib.builtin.composed.signals.windows import WINDOWS
from oplib.builtin.composed.statistics import METHODS as _STATISTICS_METHODS
from oplib.builtin.composed.statistics import STATISTICS
from oplib.builtin.registration import Overloads
from oplib.builtin.tables.creation import constants as _creation
from oplib.builtin.tables.creation import random as _random
from oplib.builtin.tables.losses import alignment as _alignment
from oplib.builtin.tables.losses import basic as _losses
from oplib.builtin.tables.losses import labels as _label_losses
from oplib.builtin.tables.losses import likelihood as _likelihood_losses
from oplib.builtin.tables.losses import margins as _margin_losses
from oplib.builtin.tables.matrices import decompositions as _decompositions
from oplib.builtin.tables.matrices import fourier as _fourier
from oplib.builtin.tables.matrices import matmul as _linalg
from oplib.builtin.tables.matrices import products as _products
from oplib.builtin.tables.matrices import triangles as _triangles
from oplib.builtin.tables.networks import activations as _activations
from oplib.builtin.tables.networks import attention as _attention
from oplib.builtin.tables.networks import bags as _bags
from oplib.builtin.tables.networks import convolution as _convolution
from oplib.builtin.tables.networks import dropout as _dropout
from oplib.builtin.tables.networks import flash_attention as _flash_attention
from oplib.builtin.tables.networks import grids as _grids
from oplib.builtin.tables.networks import norm_pooling as _norm_pooling
from oplib.builtin.tables.networks import normalisation as _normalisation
from oplib.builtin.tables.networks import pooling as _pooling
from oplib.builtin.tables.networks import shrinkage as _shrinkage
from oplib.builtin.tables.networks import unfolding as _unfolding
from oplib.builtin.tables.networks.dropout import DROPOUTS
from oplib.builtin.tables.places import gathering as _gathering
from oplib.builtin.tables.places import indexing as _indexing
from oplib.builtin.tables.places import scattering as _scattering
from oplib.builtin.tables.pointwise import arithmetic as _arithmetic
from oplib.builtin.tables.pointwise import basic as _pointwise
from oplib.builtin.tables.pointwise import bounds as _bounds
from oplib.builtin.tables.pointwise import compare as _compare
from oplib.builtin.tables.pointwise import complex as _complex
from oplib.builtin.tables.pointwise import elementary as _elementary
from oplib.builtin.tables.pointwise import logic as _logic
from oplib.builtin.tables.pointwise import special as _special
from oplib.builtin.tables.reductions import basic as _reduce
from oplib.builtin.tables.reductions import moments as _moments
from oplib.builtin.tables.reductions import order as _order
from oplib.builtin.tables.reductions import scan as _scan
from oplib.builtin.tables.reductions import searching as _searching
from oplib.builtin.tables.reductions import statistics as _statistics
from oplib.builtin.tables.shapes import memory as _memory
from oplib.builtin.tables.shapes import movement as _movement
from oplib.builtin.tables.shapes import rearrangement as _rearrangement
from oplib.builtin.tables.shapes import view_scatter as _view_scatter

FAMILIES = (
    _pointwise,
    _elementary,
    _arithmetic,
    _special,
    _activations,
    _shrinkage,
    _bounds,
    _compare,
    _logic,
    _complex,
    _reduce,
    _moments,
    _scan,
    _order,
    _movement,
    _memory,
    _rearrangement,
    _indexing,
    _gathering,
    _scattering,
    _view_scatter,
    _searching,
    _statistics,
    _linalg,
    _products,
    _decompositions,
    _triangles,
    _fourier,
    _normalisation,
    _dropout,
    _attention,
    _flash_attention,
    _losses,
    _margin_losses,
    _label_losses,
    _likelihood_losses,
    _alignment,
    _convolution,
    _pooling,
    _norm_pooling,
    _grids,
    _bags,
    _unfolding,
    _creation,
    _random,
)
ROWS = tuple(row for family in FAMILIES for row in family.ROWS)
OVERLOADS = Overloads(ROWS)

_COMPOSED = (
    *(*PRODUCTS_AND_NORMS, *ATTENTION, *DROPOUTS, *NORMS, *POOLS, *NORM_POOLS, *LOSSES, *NETWORKS),
    *(*DATA_DEPENDENT, *PARTS, *SHAPES, *FORMS, *SEQUENCES, *STATISTICS, *FACTORS, *OLDER, *WINDOWS),
    *(*TRIANGLES, *QUANTILES, *SPECTRA, *POWERS),
)
COMPOSED = {**{one.__name__: one for one in _COMPOSED}, "trapz": trapezoid}
"""The functions that are made of several ops, by name."""

_METHODS = (
    *(norm, *POWERS, *FACTORS, *OLDER, *PARTS, *_FORM_METHODS, *_SHAPE_METHODS, *_SEQUENCE_METHODS),
    *(*_DATA_DEPENDENT_METHODS, *_STATISTICS_METHODS, *_TRIANGLE_METHODS, *QUANTILES, *SPECTRA),
)
METHODS_OF_COMPOSED = frozenset(one.__name__ for one in _METHODS)
"""Those that are methods of Tensor too."""

COMPOSED_LINALG = {one.__name__: one for one in (*LINALG, *_TRIANGLES_OF_LINALG)}
"""Likewise, those of ``oplib.linalg``."""

COMPOSED_FOURIER = {one.__name__: one for one in FOURIER}
"""Likewise, those of ``oplib.fft``."""

WITH_OUT = frozenset(
    row.op
    for family in (
        _pointwise,
        _elementary,
        _arithmetic,
        _special,
        _bounds,
        _logic,
        _compare,
        _linalg,
        _reduce,
    )
    for row in family.ROWS
) - {"rsub"}
"""The ops of families whose functions can write their result into a tensor that is given, but for some."""

OF_LINALG = frozenset(
    row.op
    for row in _decompositions.ROWS + _triangles.ROWS + _moments.ROWS + _products.ROWS
    if row.op.startswith("linalg_")
)
"""The ops that ``oplib.linalg`` has functions of."""

OF_FOURIER = frozenset(row.op for row in _fourier.ROWS)
"""Likewise, ``oplib.fft``."""

OF_SPECIAL = frozenset(row.op for row in _special.ROWS if row.op.startswith("special_"))
"""Likewise, ``oplib.special``, beside those at the root."""
