"""What every training program of this folder gives to the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Training:
    """One training program.

    Attributes:
        step: takes the arrays of one step, and returns its losses: a Tensor, or a tuple of Tensors.
        state: the Tensors that are compared after the last step.
    """

    step: Callable[..., Any]
    state: list[Any]


@dataclass
class Maker:
    """Makes numbers and Tensors of one dtype for one library.

    Attributes:
        lib: oplib or torch.
        dtype: the name of the dtype of floating numbers.
        compile: ``oplib.jit``, or the identity.
    """

    lib: Any
    dtype: str
    compile: Callable[[Any], Any]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def parameter(self, *shape: int, scale: float | None = None) -> Any:
        """Returns a leaf with normal numbers, by default of variance ``1 / shape[-1]``."""
        spread = shape[-1] ** -0.5 if scale is None else scale
        numbers = self.random.normal(size=shape) * spread
        return self.lib.tensor(numbers.astype(self.dtype), requires_grad=True)

    def full(self, value: float, *shape: int, requires_grad: bool = True) -> Any:
        """Returns a leaf of equal numbers."""
        return self.lib.tensor(np.full(shape, value, self.dtype), requires_grad=requires_grad)

    def tensors(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Returns Tensors; floating numbers get the dtype."""
        return {
            name: self.lib.tensor(array.astype(self.dtype) if array.dtype.kind == "f" else array)
            for name, array in arrays.items()
        }


Batches = Iterator[dict[str, np.ndarray]]
