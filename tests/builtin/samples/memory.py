"""Samples of views of memory: windows that overlap, strides, and bits."""

from __future__ import annotations

import numpy as np

from .drawing import Sample, X, draw

CUBE = draw(2, 3, 4)

MEMORY: dict[str, list[Sample]] = {
    "ravel": [Sample((X,)), Sample((draw(),)), Sample((CUBE,))],
    "broadcast_to": [Sample((draw(3), [2, 3])), Sample((draw(2, 1), [4, 2, -1]))],
    "unfold": [
        Sample((X, 1, 2, 1)),
        Sample((CUBE, -1, 2, 2)),
        Sample((CUBE, 0, 1, 3)),
        Sample((draw(), 0, 1, 1)),
        Sample((draw(5), 0, 0, 2)),
    ],
    "as_strided": [
        Sample((X, [2, 2], [1, 2])),
        Sample((CUBE, [2, 3], [4, 1], 5)),
        Sample((X, [], [], 4)),
        Sample((X, [0, 2], [1, 1])),
    ],
    "view.dtype": [
        Sample((X, np.dtype(np.int64))),
        Sample((draw(3), np.dtype(np.int32))),
        Sample((draw(2, 4).astype(np.float32), np.dtype(np.int64))),
        Sample((draw(2, 2), np.dtype(np.uint8))),
    ],
}
