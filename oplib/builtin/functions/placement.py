"""Moving a tensor to another device, with its history: no computation, so no kernel."""

from __future__ import annotations

from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd import Function
from oplib.tensor import Tensor, box


class ToDevice(Function):
    """Copies to a device or sharding; the gradient is copied back."""

    _is_users = False  # inside vmap it needs no rule

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, placement: Any) -> Tensor:
        """Copies the tensor."""
        array = tensor.array
        ctx.source = None if isinstance(array, Tracer) else array.sharding
        return box(jax.device_put(array, placement))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Copies the gradient back, in a way that is recorded too."""
        return (grad if ctx.source is None else copy_to_device(grad, ctx.source)), None


def copy_to_device(tensor: Tensor, placement: Any) -> Tensor:
    """Returns a copy of a tensor at a device or sharding."""
    return ToDevice.apply(tensor, placement)
