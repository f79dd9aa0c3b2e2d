"""Primitives that hide their jaxpr from JAX until they are lowered."""

from __future__ import annotations

from typing import Any


def lower_late(primitive: Any) -> None:
    """Makes JAX ignore the jaxpr among the parameters of a primitive until the primitive is lowered.

    Some functions of JAX (``jnp.searchsorted``, ``jax.scipy.linalg.expm``) are primitives of a higher level,
    which JAX expands before lowering. JAX asks each primitive whose parameters contain such primitives to
    expand them, and does not know how to do this for oplib's primitives. These trace their function anew when
    they are lowered, and the new trace contains only expanded primitives.
    """
    primitive.is_high = lambda *_, **__: False
