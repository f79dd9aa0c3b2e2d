"""Two examples, weights that are not mapped, a function of both, and a Function with a rule for maps.

X and W are the examples and the weights in 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.autograd import Function

ROWS = np.arange(6.0, dtype=np.float32).reshape(2, 3) * 0.5
WEIGHTS = np.array([1.0, 2.0, 3.0], dtype=np.float32)
X, W = ROWS.astype(np.float64) + 0.25, WEIGHTS.astype(np.float64)


def cube(a: Any, w: Any) -> Any:
    return (a * a * a * w).sum()


class Seven(Function):
    """The square, with seven times ``x`` for its gradient: a gradient that no other way would give."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 7

    @staticmethod
    def vmap(info, in_dims, x):
        return Seven.apply(x), in_dims[0]
