"""Optimizers over Tensors: any transformation of optax, as an object with ``step`` and ``zero_grad``."""

from .optimizer import Optimizer

__all__ = ["Optimizer"]
