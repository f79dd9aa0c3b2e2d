"""The methods of Tensor, one visible typed line each."""

from __future__ import annotations


class TensorMethods:
    """Mixin with every op that is also a method."""
