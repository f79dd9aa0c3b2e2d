"""Protocols of a Tensor for the modules below the class Tensor."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from oplib.protocols import GraphNode

from .storage import Storage


class TensorSlots(Protocol):
    """The attributes of a Tensor that its mixins and its storage read. The class Tensor describes them."""

    @property
    def _storage(self) -> Storage: ...

    @property
    def _trace(self) -> object: ...

    @property
    def _root(self) -> TensorSlots | None: ...

    @property
    def _grad_fn(self) -> GraphNode | None: ...

    @property
    def _requires_grad(self) -> bool: ...

    @property
    def _tangent_slot(self) -> Any: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        ...


TensorT = TypeVar("TensorT", bound=TensorSlots)
"""The class Tensor. Its mixins are generic in it, because it imports them and so they cannot import it."""
