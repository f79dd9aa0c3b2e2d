"""Varying mesh axes: inside ``shard_map`` a value varies over some axes and is replicated over others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_types import find_varying
from oplib.errors import ResultError, TracingError


def is_inside_shard_map() -> bool:
    """Tells whether some axis of the mesh in force is manual."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def join_axes(values: Iterable[Any]) -> frozenset[Any]:
    """Returns the mesh axes over which any of the values varies."""
    return frozenset().union(*(find_varying(jax.typeof(value)) for value in values))


def vary(value: Any, axes: Iterable[Any]) -> Any:
    """Casts a value to one that varies over these mesh axes too."""
    missing = tuple(sorted(frozenset(axes) - find_varying(jax.typeof(value))))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def match_varying(values: Sequence[Any]) -> list[Any]:
    """Casts values to vary over all axes over which any of them varies."""
    axes = join_axes(values)
    return [vary(value, axes) for value in values] if axes else list(values)


def fit_varying(values: Sequence[Any], types: Sequence[Any], *, op: str, part: str) -> list[Any]:
    """Casts what a rule returned to the varying axes that it must have.

    Raises:
        ResultError: a value varies over more axes. It has no cast to fewer.
    """
    pairs = enumerate(zip(values, types, strict=True))
    return [
        _fit(value, find_varying(due), op, f"value {index} of the {part}") for index, (value, due) in pairs
    ]


def _fit(value: Any, due: frozenset[Any], op: str, subject: str) -> Any:
    extra = find_varying(jax.typeof(value)) - due
    if extra:
        raise ResultError(
            f"{op}: {subject} varies over other mesh axes than the result of the kernel. It varies over "
            f"{describe_axes(extra)}, and the result does not. Reduce it over them as the kernel does, "
            "for example by jax.lax.psum."
        )
    return vary(value, due)


def list_reduced_axes(kind: Any) -> frozenset[Any]:
    """Returns the mesh axes over which a value of this type is *reduced* or *unreduced*."""
    return kind.manual_axis_type.reduced | kind.manual_axis_type.unreduced


def refuse_reduced(values: Iterable[Any], *, op: str) -> None:
    """Raises TracingError if forward mode is derived from a formula on *reduced* and *unreduced* values.

    The cotangent of such a value has another type than the value, which the transposed formula would need.
    """
    for value in values:
        axes = list_reduced_axes(jax.typeof(value))
        if axes:
            raise TracingError(
                f"{op}: no forward mode can be derived for a value that is reduced or unreduced over "
                f"{describe_axes(axes)}. Got {jax.typeof(value)}. Cast it with jax.lax.pcast(value, axes, "
                'to="varying") before the op, or register a jvp rule.'
            )


def describe_axes(axes: Iterable[Any]) -> str:
    """Returns mesh axes as text, for errors."""
    return ", ".join(map(repr, sorted(axes, key=str))) or "none"
