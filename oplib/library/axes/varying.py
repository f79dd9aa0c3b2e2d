"""Varying mesh axes: inside ``shard_map`` a value varies over some axes and is replicated over others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def match_varying(values: Sequence[Any], *, like: Sequence[Any] | None = None) -> list[Any]:
    """Gives all values the varying mesh axes of all of ``like``, by default of the values themselves.

    Otherwise JAX would transpose a replicated operand inside ``shard_map`` without the sum over the mesh.
    """
    axes: frozenset[Any] = frozenset().union(*map(_varying_axes, values if like is None else like))
    return [_vary(value, axes) for value in values] if axes else list(values)


def _vary(value: Any, axes: frozenset[Any]) -> Any:
    missing = tuple(sorted(axes - _varying_axes(value)))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def _varying_axes(value: Any) -> frozenset[Any]:
    kind: Any = getattr(jax.typeof(value), "manual_axis_type", None)
    return frozenset() if kind is None else kind.varying
