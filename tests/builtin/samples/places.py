"""Samples of rearrangement, gathering and scattering."""

from __future__ import annotations

import numpy as np

from .drawing import Sample, X, draw, draw_mask, shift

CUBE = draw(2, 3, 4)
WITHIN = np.array([[0, 2, 1], [1, 0, 0]], np.int32)
SOME = np.array([[1, 0, 0]], np.int32)
EDGES = np.array([-1.0, 0.0, 0.5, 1.5])

PLACES: dict[str, list[Sample]] = {
    "repeat": [Sample((X, [2, 1])), Sample((X, [2, 1, 3]))],
    "tile": [Sample((X, [2])), Sample((X, [2, 1, 2]))],
    "repeat_interleave": [Sample((X, 2)), Sample((X, 2, -1))],
    "flip": [Sample((X, [0])), Sample((CUBE, [0, -1]))],
    "fliplr": [Sample((X,))],
    "flipud": [Sample((X,)), Sample((draw(3),))],
    "roll": [Sample((X, 1)), Sample((CUBE, [1, -2], [0, 2]))],
    "rot90": [Sample((X,)), Sample((CUBE, 3, [1, 2]))],
    **{name: [Sample((X,)), Sample((CUBE, -1))] for name in ("tril", "triu")},
    "diag": [Sample((draw(3),)), Sample((X, 1)), Sample((draw(2), -1))],
    "diagflat": [Sample((X,)), Sample((X, -2))],
    "diag_embed": [Sample((draw(3),)), Sample((X, 1)), Sample((X, -1, 0, 2)), Sample((X, 1, 2, 0))],
    "pad": [
        Sample((X, [1, 2])),
        Sample((X, [1, -1, 0, 2], "constant", 1.5)),
        Sample((CUBE, [2, 1], "reflect")),
        Sample((CUBE, [2, 1], "replicate")),
        Sample((CUBE, [2, 1], "circular")),
    ],
    "pixel_shuffle": [Sample((draw(1, 4, 2, 3), 2))],
    "pixel_unshuffle": [Sample((draw(1, 1, 4, 2), 2))],
    **{
        name: [Sample(([X, shift(X)],)), Sample(([draw(3), shift(draw(3))],))]
        for name in ("hstack", "vstack", "dstack", "column_stack", "block_diag")
    },
    "gather": [Sample((X, 1, WITHIN)), Sample((X, 0, SOME))],
    "index_select": [Sample((X, 1, WITHIN[0])), Sample((CUBE, 0, np.array([1, 1, 0], np.int32)))],
    "take": [Sample((X, WITHIN)), Sample((X, np.array([5, 0], np.int32)))],
    "take_along_dim": [Sample((X, WITHIN, 1)), Sample((X, WITHIN[0]))],
    "embedding.padded": [Sample((draw(4, 2), WITHIN)), Sample((draw(4, 2), WITHIN, 1))],
    "one_hot.classes": [Sample((WITHIN.astype(np.int64), 4))],
    "scatter.src": [Sample((X, 1, np.array([[0, 2], [1, 0]], np.int32), draw(2, 3) + 0.1))],
    "scatter.value": [Sample((X, 1, WITHIN[:, :2], 1.5))],
    "scatter_add": [Sample((X, 1, WITHIN, shift(X))), Sample((X, 0, SOME, draw(2, 3)))],
    "scatter_reduce.two": [
        Sample((X, 1, WITHIN, shift(X[::-1]), reduce)) for reduce in ("sum", "prod", "mean", "amax", "amin")
    ]
    + [Sample((X, 1, WITHIN, shift(X[::-1]), reduce), {"include_self": False}) for reduce in ("mean", "prod")]
    + [Sample((X, 1, WITHIN, np.where(X > 0.5, 0.0, X), "prod"))],
    "index_add": [
        Sample((X, 1, np.array([0, 2, 0], np.int32), shift(X))),
        Sample((X, 0, np.array([1], np.int32), draw(1, 3)), {"alpha": 0.5}),
    ],
    "index_copy": [Sample((X, 1, np.array([2, 0], np.int32), draw(2, 2)))],
    "index_reduce": [
        Sample((X, 1, np.array([0, 2, 0], np.int32), shift(X[::-1]), reduce))
        for reduce in ("mean", "prod", "amax", "amin")
    ]
    + [Sample((X, 0, np.array([1], np.int32), draw(1, 3), "mean"), {"include_self": False})],
    "as_strided_scatter": [Sample((X, draw(2, 2), [2, 2], [3, 1], 1)), Sample((X, draw(2), [2], [2]))],
    "select_scatter": [Sample((X, draw(3), 0, 1)), Sample((X, draw(2), -1, -2))],
    "slice_scatter": [Sample((X, draw(2, 2), 1, 0, 9, 2)), Sample((X, draw(1, 3), 0, -1))],
    "diagonal_scatter": [Sample((X, draw(2))), Sample((CUBE, draw(3, 1), 1, 2, 0))],
    "index_fill": [Sample((X, 1, np.array([2, 0], np.int32), 1.5))],
    "put": [
        Sample((X, np.array([4, 1], np.int32), draw(2))),
        Sample((X, np.array([4, 4], np.int32), draw(2), True)),
    ],
    "masked_scatter": [Sample((X, draw_mask(2, 3), draw(6)))],
    "searchsorted": [
        Sample((EDGES, X)),
        Sample((EDGES, draw())),
        Sample((np.sort(X, 1), shift(X)), {"right": True}),
    ],
    "nonzero_static": [
        Sample((np.array([[0.0, 3.0, 1.0], [4.0, 0.0, 0.0]]),), {"size": 2}),
        Sample((np.array([[0.0, 3.0, 1.0], [4.0, 0.0, 0.0]]),), {"size": 5, "fill_value": 7}),
        Sample((draw(),), {"size": 1}),
    ],
    "bucketize": [Sample((X, EDGES)), Sample((X, EDGES), {"right": True, "out_int32": True})],
}
