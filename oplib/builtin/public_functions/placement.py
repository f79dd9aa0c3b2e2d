"""Moving a tensor to another device or layout, with its history: no computation, so no kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import Sharding

from oplib.autograd import Function
from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.recording.formula_node import call_recorded
from oplib.errors import ArgumentTypeError, describe
from oplib.tensor import Tensor, box
from oplib.tensor.devices.layout import check_shape, constrain
from oplib.tracebacks import entry_point


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
    if isinstance(placement, Sharding) and isinstance(tensor._storage.array, Tracer):
        return call_recorded(_make_constraint(placement), [tensor])[0]
    return ToDevice.apply(tensor, placement)


@lru_cache(maxsize=256)
def _make_constraint(sharding: Sharding) -> ArrayFunction:
    return ArrayFunction(lambda array: (constrain(array, sharding),), "with_sharding_constraint")


@entry_point
def with_sharding_constraint(tensor: Any, sharding: Sharding) -> Any:
    """Lays a tensor or array out by a sharding: XLA keeps that layout inside of a program.

    ``tensor.to(sharding)`` is the same for Tensors.

    Args:
        tensor: a Tensor or array of any shape.
        sharding: how its items are spread, such as ``NamedSharding(mesh, PartitionSpec("data"))``.

    Returns:
        A Tensor or array of the same values; outside of a trace a copy on these devices.

    Raises:
        ArgumentTypeError: the first argument is neither a Tensor nor an array, or the second no Sharding.
        ArgumentValueError: the mesh does not divide a dimension.

    Gradient:
        The incoming gradient: in a trace laid out by the same sharding, outside moved back.

    Source:
        ``jax.lax.with_sharding_constraint``; on a mesh with explicit axes ``jax.sharding.reshard``.

    Example:
        >>> import jax, oplib
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> mesh = jax.make_mesh((1,), ("data",))
        >>> rows = NamedSharding(mesh, PartitionSpec("data"))
        >>> oplib.jit(lambda x: oplib.with_sharding_constraint(x * 2, rows).sum())(oplib.ones(4))
        tensor(8.)
    """
    if not isinstance(sharding, Sharding):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise ArgumentTypeError(
            f"with_sharding_constraint: argument 'sharding' is no Sharding. Got {describe(sharding)} of type "
            f"{type(sharding).__name__}. Give jax.sharding.NamedSharding(mesh, spec)."
        )
    if isinstance(tensor, Tensor):
        return tensor.to(sharding)
    if not isinstance(tensor, jax.Array):
        raise ArgumentTypeError(
            "with_sharding_constraint: argument 'tensor' is neither a Tensor nor an array. Got "
            f"{describe(tensor)} of type {type(tensor).__name__}. Make one of it: oplib.tensor(...)."
        )
    check_shape("with_sharding_constraint", tensor, sharding)
    return constrain(tensor, sharding) if isinstance(tensor, Tracer) else jax.device_put(tensor, sharding)
