"""Which built-in ops there are, and which functions are made of several: the tables, put together."""

from __future__ import annotations

from . import (
    _activations,
    _alignment,
    _arithmetic,
    _attention,
    _bags,
    _bounds,
    _compare,
    _complex,
    _convolution,
    _creation,
    _decompositions,
    _dropout,
    _elementary,
    _flash_attention,
    _fourier,
    _gathering,
    _grids,
    _indexing,
    _label_losses,
    _likelihood_losses,
    _linalg,
    _logic,
    _losses,
    _margin_losses,
    _memory,
    _moments,
    _movement,
    _norm_pooling,
    _normalisation,
    _order,
    _pointwise,
    _pooling,
    _products,
    _random,
    _rearrangement,
    _reduce,
    _scan,
    _scattering,
    _searching,
    _shrinkage,
    _special,
    _statistics,
    _triangles,
    _unfolding,
    _view_scatter,
)
from ._composed import POWERS, PRODUCTS_AND_NORMS, norm
from ._composed_attention import ATTENTION
from ._composed_factors import FACTORS
from ._composed_forms import FORMS
from ._composed_forms import METHODS as _FORM_METHODS
from ._composed_fourier import FOURIER
from ._composed_linalg import LINALG
from ._composed_losses import LOSSES
from ._composed_networks import NETWORKS
from ._composed_norm_pools import NORM_POOLS
from ._composed_norms import NORMS
from ._composed_parts import PARTS
from ._composed_pools import POOLS
from ._composed_quantiles import QUANTILES
from ._composed_sequences import METHODS as _SEQUENCE_METHODS
from ._composed_sequences import SEQUENCES, trapezoid
from ._composed_shapes import METHODS as _SHAPE_METHODS
from ._composed_shapes import SHAPES
from ._composed_spectra import SPECTRA
from ._composed_statistics import METHODS as _STATISTICS_METHODS
from ._composed_statistics import STATISTICS
from ._composed_triangles import METHODS as _TRIANGLE_METHODS
from ._composed_triangles import OF_LINALG as _TRIANGLES_OF_LINALG
from ._composed_triangles import TRIANGLES
from ._composed_windows import WINDOWS
from ._data_dependent import DATA_DEPENDENT
from ._data_dependent import METHODS as _DATA_DEPENDENT_METHODS
from ._dropout import DROPOUTS
from ._older_linalg import OLDER
from ._registrar import Overloads

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
