"""Tensors as nodes of ``jax.tree_util``, so that jit, ``jax.tree.map`` and optax can flatten them.

Its child is the array. ``requires_grad`` is part of the structure, so rebuilding a tree restores it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import numpy as np

from oplib.errors import AutogradError, describe
from oplib.modes import modes

from .inference import InferenceTensor
from .storage.ingestion import to_array
from .tensor import Tensor, box_leaf


def _flatten(tensor: Tensor) -> tuple[tuple[Any], bool]:
    if tensor._grad_fn is not None:
        raise AutogradError(
            f"jax.tree_util: a Tensor with a history cannot be taken apart: its gradient would be lost. "
            f"Got {describe(tensor)} made by {tensor._grad_fn.name()}. "
            f"Use tensor.detach(), or an op of oplib, which records."
        )
    slot = tensor._tangent_slot
    if slot is not None and slot.tangent is not None and modes.forward_enabled:
        raise AutogradError(
            f"jax.tree_util: a Tensor with a tangent cannot be taken apart: the tangent would be lost. "
            f"Got {describe(tensor)}. Use unpack_dual(tensor).primal, or an op of oplib."
        )
    return (tensor.array,), tensor._requires_grad


def _unflatten(requires_grad: bool, children: Any) -> Tensor:
    """It checks nothing, because JAX also builds trees of tracers, shapes and placeholders.

    A numpy array, for example from ``jax.device_get``, becomes a JAX array, because it could be changed.
    """
    (array,) = children
    if isinstance(array, np.ndarray) and array.dtype != np.object_:
        array = to_array(array, None, None)
    tensor = box_leaf(array, requires_grad=False)
    if requires_grad:
        tensor._requires_grad = True
    return tensor


def register_kind(kind: type[Tensor], name: str) -> None:
    """Registers one more class of Tensors with JAX. Rebuilt tensors are always ordinary.

    Args:
        kind: the class.
        name: the name in stored exports. It must never change.
    """
    jax.tree_util.register_pytree_node(kind, _flatten, _unflatten)
    jax.export.register_pytree_node_serialization(
        kind,
        serialized_name=name,
        serialize_auxdata=lambda requires_grad: bytes([requires_grad]),
        deserialize_auxdata=lambda stored: bool(stored[0]),
    )


register_kind(Tensor, "oplib.Tensor")
# the rebuilt tensors are ordinary outside of the mode
register_kind(InferenceTensor, "oplib.InferenceTensor")
