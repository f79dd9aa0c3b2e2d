"""The type of an array beyond shape and dtype: its sharding on an explicit mesh, varying axes, memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from oplib.tensor.devices.layout import find_space, move_to_space


def zeros_of(spec: Any) -> Any:
    """Returns zeros of the shape and dtype of a type or array, and of nothing else that it has."""
    return jnp.zeros(spec.shape, spec.dtype)


def match_type(value: Any, due: Any) -> Any:
    """Gives a gradient or tangent the sharding, the varying axes and the memory of its value.

    JAX requires this inside ``shard_map`` and on explicit meshes. On the tape a gradient may come from a
    formula that knows only the shape, such as the one that begins a backward pass.
    """
    own = jax.typeof(value)
    if due == own:
        return value
    if find_space(due) != find_space(own):
        value = move_to_space(value, find_space(due))
    if own.sharding != due.sharding and not due.sharding.mesh.empty:
        value = jax.sharding.reshard(value, due.sharding)
    missing = tuple(sorted(find_varying(due) - find_varying(own)))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def sum_gradient(gradient: Any, due: Any) -> Any:
    """Sums a gradient over the mesh axes on which its value is replicated.

    Inside ``shard_map`` each device uses a replicated value, so its gradient is the sum over all devices.
    JAX's own derivatives do this. The formula of a user knows one device only.
    """
    extra = tuple(sorted(find_varying(jax.typeof(gradient)) - find_varying(due)))
    return jax.lax.psum(gradient, extra) if extra else gradient


def find_varying(aval: Any) -> frozenset[Any]:
    """Returns the mesh axes over which a value of this type varies."""
    kind: Any = getattr(aval, "manual_axis_type", None)
    return frozenset() if kind is None else kind.varying
