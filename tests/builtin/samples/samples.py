"""Inputs for every built-in op: by name for special inputs, otherwise by the form of its schema.

Values are far from kinks and ties, so that finite differences can be compared; ``tests/parity`` compares
kinks and ties with torch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oplib.library import OpOverload

from .arithmetic import ARITHMETIC
from .drawing import (
    NOT_ZERO,
    POSITIVE,
    Sample,
    X,
    binary,
    draw,
    draw_mask,
    draw_places,
    shift,
    unary,
    with_number,
)
from .fourier import FOURIER
from .layers import LAYERS
from .losses import LOSSES
from .matrices import MATRICES
from .memory import MEMORY
from .places import PLACES
from .pointwise import POINTWISE
from .reduce import REDUCE
from .special import SPECIAL

COMPLEX_VALUES = draw(2, 3) + 1j * shift(draw(2, 3))
TABLES = (POINTWISE, ARITHMETIC, REDUCE, MATRICES, FOURIER, LAYERS, LOSSES, PLACES, MEMORY, SPECIAL)
BY_NAME: dict[str, list[Sample]] = {
    "log": unary(**POSITIVE),
    "sqrt": unary(**POSITIVE),
    "div.Tensor": binary(**NOT_ZERO),
    "rdiv.Scalar": with_number(**NOT_ZERO),
    "pow.Tensor_Tensor": binary(**POSITIVE),
    "pow.Tensor_Scalar": [*with_number(**POSITIVE), Sample((X, 5))],
    "pow.Tensor_int": [Sample((X, exponent)) for exponent in (-1, 0, 1, 2, 3)],
    "pow.Scalar": [Sample((1.7, draw(2, 3))), Sample((2, draw()))],
    "add.scaled": [Sample(sample.args, {"alpha": 0.5}) for sample in binary()],
    "sub.scaled": [Sample(sample.args, {"alpha": 3}) for sample in binary()],
    "where.self": [
        Sample((draw_mask(2, 3), X, draw(3))),
        Sample((draw_mask(3), X, draw(2, 1))),
        Sample((draw_mask(2, 1), draw(3), draw())),
    ],
    "where.ScalarOther": [Sample((draw_mask(2, 3), X, 0.5)), Sample((draw_mask(2, 3), draw(3), 2))],
    "where.ScalarSelf": [Sample((draw_mask(2, 3), -1.5, X))],
    "where.Scalar": [Sample((draw_mask(2, 3), -1.5, 2.5))],
    "max": [Sample((draw(*shape),)) for shape in [(), (3,), (2, 3)]],
    "max.dim": [
        Sample((X, 0)),
        Sample((X, -1, True)),
        Sample((draw(), 0)),
        Sample((draw(2, 3, 4), 1)),
    ],
    "reshape": [
        Sample((X, [3, 2])),
        Sample((X, [-1])),
        Sample((draw(), [1, 1])),
        Sample((draw(2, 0), [0, 5])),
    ],
    "view": [Sample((X, [6])), Sample((draw(4), [2, -1]))],
    "expand": [Sample((draw(1, 3), [2, 3])), Sample((draw(3), [2, -1])), Sample((draw(), [2]))],
    "squeeze": [
        Sample((draw(1, 3, 1),)),
        Sample((draw(1, 3, 1), -1)),
        Sample((X, 0)),
        Sample((draw(1, 1, 2), [0, 1])),
    ],
    "unsqueeze": [Sample((X, 0)), Sample((X, -1)), Sample((draw(), 0))],
    "sum_to_size": [Sample((X, [1, 3])), Sample((draw(4, 2, 3), [2, 1])), Sample((X, []))],
    "transpose": [Sample((X, 0, 1)), Sample((draw(2, 3, 4), -1, 0)), Sample((draw(), 0, -1))],
    "t": [Sample((X,)), Sample((draw(3),)), Sample((draw(),))],
    "permute": [Sample((draw(2, 3, 4), [2, 0, 1])), Sample((X, [-1, 0]))],
    "cat": [
        Sample(([X, draw(1, 3)],)),
        Sample(([X, draw(2, 2)], -1)),
        Sample(([X, draw(0)],)),
        Sample(([draw(3)],)),
    ],
    "stack": [Sample(([X, X + 1.0],)), Sample(([X, X + 1.0], -1)), Sample(([draw(), shift(draw())],))],
    "_to_copy": [Sample((X, np.dtype(np.float64))), Sample((X, np.dtype(np.complex128)))],
    "flatten": [Sample((X,)), Sample((draw(2, 3, 4), 1)), Sample((draw(),))],
    "unflatten": [Sample((X, 1, [3, 1])), Sample((draw(4), 0, [2, -1]))],
    "movedim": [Sample((draw(2, 3, 4), [0], [2])), Sample((draw(2, 3, 4), [0, 1], [1, 0]))],
    "diagonal": [Sample((draw(3, 4),)), Sample((draw(2, 3, 3), -1, 1, 2)), Sample((X, 2))],
    "unbind": [Sample((X,)), Sample((X, -1))],
    "split": [Sample((X, 2, 1)), Sample((draw(5), 2))],
    "split.sizes": [Sample((X, [1, 2], 1))],
    "chunk": [Sample((X, 2, 1)), Sample((draw(5), 3))],
    "narrow": [Sample((X, 1, 1, 2)), Sample((X, 0, -1, 1))],
    "view_as_real": [Sample((COMPLEX_VALUES,))],
    "view_as_complex": [Sample((draw(3, 2),))],
    "imag": [Sample((COMPLEX_VALUES,))],
    "real": [Sample((X,)), Sample((COMPLEX_VALUES,))],
    "stored": [Sample((X, [4, 2, 3], np.dtype(np.float64)))],
    "_index_put": [
        Sample((X, [draw_places(4, below=2)], draw(4, 3), [0], True)),
        Sample((X, [np.array([1, 0], np.int32)], draw(2, 2), [1], False)),
    ],
    "masked_fill.Scalar": [Sample((X, draw_mask(2, 3), 0.5)), Sample((X, draw_mask(3), 2))],
    "masked_fill.Tensor": [Sample((X, draw_mask(2, 3), draw()))],
    "select": [Sample((X, 0, 1)), Sample((X, 1, 2))],
    "index": [
        Sample((X, [draw_places(4, below=2)], [0])),
        Sample((X, [draw_places(2, 2, below=2), draw_places(2, below=3)], [0, 1])),
        Sample((draw(2, 3, 4), [draw_places(2, below=2), draw_places(2, below=4)], [0, 2])),
    ],
    "setitem": [
        Sample((X, draw(), [], [], ((0, 1, 1), (0, 3, 1)), [], [3])),
        Sample((X, draw(2) + 9.0, [np.asarray(1, np.int32)], [], ((0, 2, 1), (None, 2, 1)), [], [2, 2])),
        Sample((X, draw(2, 1, 2), [], [], ((0, 2, 1), (0, 2, 2)), [], [2, 1, 2])),
        Sample((X, draw(2, 2), [], [np.array([2, 0], np.int32)], ((0, 2, 1), (0, 3, 1)), [1], [2, 3])),
    ],
    "matmul": [
        Sample((draw(3), draw(3) + 1.0)),
        Sample((X, draw(3))),
        Sample((draw(2), X)),
        Sample((X, draw(3, 4))),
        Sample((draw(5, 2, 3), draw(3, 4))),
        Sample((draw(3), draw(5, 3, 2))),
        Sample((draw(2, 1, 2, 3), draw(4, 3, 2))),
    ],
    "mm": [Sample((X, draw(3, 4)))],
    "fill.Scalar": [Sample((X, 1.5))],
    "fill.Tensor": [Sample((X, draw()))],
    "copy": [Sample((X, draw(3) + 1.0)), Sample((X, draw(1, 3)))],
}

REDUCTIONS = [
    Sample((X,)),
    Sample((X, 0)),
    Sample((X, [-1], True)),
    Sample((X, [0, 1])),
    Sample((draw(),)),
    Sample((draw(2, 3, 4), [0, 2])),
]
BY_SCHEMA: dict[str, Callable[[], list[Sample]]] = {
    "(Tensor self) -> Tensor": unary,
    "(Tensor self, Tensor other) -> Tensor": binary,
    "(Tensor self, Scalar other) -> Tensor": with_number,
    "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor": lambda: (
        REDUCTIONS
    ),
    "(Tensor self, *, ScalarType? dtype=None) -> Tensor": unary,
}


def find_samples(op: OpOverload) -> list[Sample]:
    """Returns the samples of an op; none if a new form of schema needs samples here."""
    local = op.name().partition("::")[2]
    for table in TABLES:
        if local in table:
            return table[local]
    if local in BY_NAME:
        return BY_NAME[local]
    make = BY_SCHEMA.get("(" + str(op._schema).partition("(")[2])
    return [] if make is None else make()
