"""Which built-in ops there are, and which functions are made of several: the tables, put together."""

from __future__ import annotations

from oplib.builtin.composed import data_dependent as _composed_data_dependent
from oplib.builtin.composed import forms as _composed_forms
from oplib.builtin.composed import parts as _composed_parts
from oplib.builtin.composed import products as _composed_products
from oplib.builtin.composed import quantiles as _composed_quantiles
from oplib.builtin.composed import sequences as _composed_sequences
from oplib.builtin.composed import shapes as _composed_shapes
from oplib.builtin.composed import statistics as _composed_statistics
from oplib.builtin.composed.matrices import factors as _composed_factors
from oplib.builtin.composed.matrices import linalg as _composed_linalg
from oplib.builtin.composed.matrices import older_linalg as _composed_older_linalg
from oplib.builtin.composed.matrices import triangles as _composed_triangles
from oplib.builtin.composed.networks import attention as _composed_attention
from oplib.builtin.composed.networks import images as _composed_images
from oplib.builtin.composed.networks import losses as _composed_losses
from oplib.builtin.composed.networks import norm_pools as _composed_norm_pools
from oplib.builtin.composed.networks import norms as _composed_norms
from oplib.builtin.composed.networks import pools as _composed_pools
from oplib.builtin.composed.signals import fourier as _composed_fourier
from oplib.builtin.composed.signals import spectra as _composed_spectra
from oplib.builtin.composed.signals import windows as _composed_windows
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
    _dropout,
    _composed_data_dependent,
    _composed_forms,
    _composed_parts,
    _composed_products,
    _composed_quantiles,
    _composed_sequences,
    _composed_shapes,
    _composed_statistics,
    _composed_factors,
    _composed_linalg,
    _composed_older_linalg,
    _composed_triangles,
    _composed_attention,
    _composed_images,
    _composed_losses,
    _composed_norm_pools,
    _composed_norms,
    _composed_pools,
    _composed_fourier,
    _composed_spectra,
    _composed_windows,
)
COMPOSED = {one.op: one for module in _COMPOSED for one in module.COMPOSED}
"""The functions that are made of several ops, by name; those of linalg and fft with this prefix."""

_OPS = list(dict.fromkeys(row.op for row in ROWS))
OF_LINALG, OF_FOURIER, OF_SPECIAL = (
    frozenset(op for op in _OPS if op.startswith(prefix)) for prefix in ("linalg_", "fft_", "special_")
)
"""The ops that ``oplib.linalg``, ``oplib.fft`` and ``oplib.special`` have functions of."""
