"""A Tensor as a node of ``jax.tree_util``, and only there: jit, ``jax.tree.map`` and optax take it apart.

Its one child is the array; ``requires_grad`` stands in the structure, so a tree comes back as it was.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import numpy as np
from jax.extend.core import get_opaque_trace_state

from oplib.errors import AutogradError, describe
from oplib.modes import modes

from .inference import InferenceTensor, mark_inference
from .storage.ingestion import to_array
from .tensor import Tensor, box


def _flatten(tensor: Tensor) -> tuple[tuple[Any], bool]:
    if tensor._grad_fn is not None:
        raise AutogradError(
            f"jax.tree_util: a Tensor with a history cannot be taken apart: its gradient would be lost. "
            f"Got {describe(tensor._storage.array)} made by {tensor._grad_fn.name()}. "
            f"Use tensor.detach(), or an op of oplib, which records."
        )
    slot = tensor._tangent_slot
    if slot is not None and slot.tangent is not None and modes.forward_enabled:
        raise AutogradError(
            f"jax.tree_util: a Tensor with a tangent cannot be taken apart: the tangent would be lost. "
            f"Got {describe(tensor._storage.array)}. Use unpack_dual(tensor).primal, or an op of oplib."
        )
    return (tensor.array,), tensor._requires_grad


def _unflatten(requires_grad: bool, children: Any) -> Tensor:
    """Checks nothing: JAX builds trees of tracers, shapes and placeholders too.

    A numpy array, such as ``jax.device_get`` puts in, becomes one of JAX, since it could be changed.
    """
    (array,) = children
    if isinstance(array, np.ndarray) and array.dtype != np.object_:
        array = to_array(array, None, None)
    tensor = box(array)
    tensor._trace = get_opaque_trace_state()
    state = modes.state
    if state.tracing is not None:
        tensor._scope = state.tracing_scope
    if state.inference:
        mark_inference(tensor)
    if requires_grad:
        tensor._requires_grad = True
    return tensor


def register_kind(kind: type[Tensor], name: str) -> None:
    """Makes JAX take tensors of one more class apart; what it puts together is always ordinary.

    Args:
        kind: the class.
        name: by which a stored export calls it, for ever.
    """
    jax.tree_util.register_pytree_node(kind, _flatten, _unflatten)
    jax.export.register_pytree_node_serialization(
        kind,
        serialized_name=name,
        serialize_auxdata=lambda requires_grad: bytes([requires_grad]),
        deserialize_auxdata=lambda stored: bool(stored[0]),
    )


register_kind(Tensor, "oplib.Tensor")
register_kind(InferenceTensor, "oplib.InferenceTensor")  # a tree made outside of the mode is of ordinary ones
