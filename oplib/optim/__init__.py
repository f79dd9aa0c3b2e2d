"""Optimizers over Tensors: any transformation of optax, as an object with ``step`` and ``zero_grad``."""

import typing as _typing

from oplib.torch_names import describe_missing as _describe_missing

from .optimizer import Optimizer

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist

    def __getattr__(name: str) -> _typing.NoReturn:
        """Says what stands for a name of torch."""
        raise AttributeError(_describe_missing(__name__, name))


__all__ = ["Optimizer"]
