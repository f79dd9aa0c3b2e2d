"""Two examples, weights that are not mapped, and a function of both."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = np.arange(6.0, dtype=np.float32).reshape(2, 3) * 0.5
WEIGHTS = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def cube(a: Any, w: Any) -> Any:
    return (a * a * a * w).sum()
