"""All built-in ops, and all functions that are made of several ops: the tables, put together."""

from oplib.builtin import composed
from oplib.builtin.composed.matrices import SUBJECTS as _OF_MATRICES
from oplib.builtin.composed.networks import SUBJECTS as _OF_NETWORKS
from oplib.builtin.composed.signals import SUBJECTS as _OF_SIGNALS
from oplib.builtin.registration import Overloads
from oplib.builtin.tables import creation, indexing, losses, matrices, networks, pointwise, reductions, shapes
from oplib.builtin.tables.networks import dropout

_PACKAGES = (pointwise, reductions, shapes, indexing, matrices, networks, losses, creation)
FAMILIES = tuple(family for package in _PACKAGES for family in package.FAMILIES)
ROWS = tuple(row for family in FAMILIES for row in family.ROWS)
OVERLOADS = Overloads(ROWS)

_SUBJECTS = (dropout, *composed.SUBJECTS, *_OF_MATRICES, *_OF_NETWORKS, *_OF_SIGNALS)
COMPOSED = {
    composed_function.op: composed_function for module in _SUBJECTS for composed_function in module.COMPOSED
}
"""The functions that are made of several ops, by name; those of linalg and fft with this prefix."""

_OPS = list(dict.fromkeys(row.op for row in ROWS))
OF_LINALG, OF_FOURIER, OF_SPECIAL = (
    frozenset(op for op in _OPS if op.startswith(prefix)) for prefix in ("linalg_", "fft_", "special_")
)
"""The ops that ``oplib.linalg``, ``oplib.fft`` and ``oplib.special`` have functions of."""
