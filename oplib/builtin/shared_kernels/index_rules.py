"""The checks of an index of gather, scatter and similar ops, and the items that it selects.

On a mesh with explicit axes JAX asks how selected items are spread. Dims that come from indices are spread as
these, and the others as those of the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from oplib.errors import ArgumentError, DimensionError
from oplib.library.batching_and_sharding.placement import list_mesh_axes
from oplib.protocols import Values
from oplib.tensor.devices.layout import find_explicit_mesh
from oplib.tensor.dtypes import names as dtypes

Spec = Sequence[Any]
"""The axes of a mesh that spread each dim of an array."""


def check_index(index: Any) -> None:
    """Checks that an index contains integers.

    Raises:
        ArgumentError: it does not.
    """
    if index.dtype not in (dtypes.int32, dtypes.int64):
        raise ArgumentError("expected dtype int32 or int64 for index", "Convert it: tensor.int().")


def check_vector(index: Any) -> None:
    """Checks that an index contains integers and has at most one dim.

    Raises:
        ArgumentError: it does not contain integers.
        DimensionError: it has more dims.
    """
    check_index(index)
    if index.ndim > 1:
        raise DimensionError("index is supposed to be a vector", "Flatten it.")


def check_fit(self: Any, index: Any, axis: int) -> None:
    """Checks that an index contains integers and is no larger than the tensor, except along one dim.

    Raises:
        ArgumentError: it is larger, has another number of dims, or does not contain integers.
    """
    if not index.size:  # torch looks at shape and dtype of places only where there are some
        return
    check_index(index)
    sizes = zip(index.shape, self.shape, strict=False)
    if max(index.ndim, 1) != max(self.ndim, 1) or any(
        mine > other for dim, (mine, other) in enumerate(sizes) if dim != axis
    ):
        raise ArgumentError(
            f"index must have the same number of dimensions as input, and be no larger except in dim {axis}",
            "Reshape it.",
        )


def list_indices(index: Any, axis: int, ndim: int) -> Values:
    """Returns the index of an array that selects ``[..., index[...], ...]`` along an axis.

    Args:
        index: the positions; one without dims, of an array with one dim, is one position.
        axis: the dim.
        ndim: the number of dims of the array.
    """
    return tuple(
        index if dim == axis else lax.broadcasted_iota(index.dtype, index.shape, dim)
        for dim in range(max(index.ndim, ndim))
    )


def take_slices(array: Any, where: Sequence[Any], mode: str | None, name: str = "input") -> Any:
    """Returns ``array[where]``. Out of bounds ``"clip"`` selects as ``jnp.take``, and None as ``array[...]``.

    Args:
        array: the items.
        where: slices of whole dims, and indices of one shape.
        mode: what an index out of bounds selects.
        name: the name of the array, for the error.

    Raises:
        ArgumentError: an axis of an explicit mesh spreads an indexed dim, or two dims of the result.
        DimensionError: an indexed dim is empty, and there are indices.
    """
    dims = [dim for dim, index in enumerate(where) if not isinstance(index, slice)]
    check_filled(array, dims, where[dims[0]])
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0

    def arrange(own: Spec, others: Sequence[Spec]) -> Spec:
        rest = [names for dim, names in enumerate(own) if dim not in dims]
        return [*rest[:first], *_merge(others), *rest[first:]]

    layout = _find_layout(array, [where[dim] for dim in dims], dims, arrange, name)
    return array.at[tuple(where)].get(mode=mode, wrap_negative_indices=mode is None, out_sharding=layout)


def take_items(array: Any, index: Any, axis: int) -> Any:
    """Returns ``array[..., index[...], ...]``: the items at positions along an axis.

    Raises:
        ArgumentError: an axis of an explicit mesh spreads the indexed dim, or two dims of the result.
        DimensionError: the dim is empty, and there are indices.
    """
    check_filled(array, [axis], index)

    def arrange(own: Spec, others: Sequence[Spec]) -> Spec:
        sizes = zip(own, array.shape, index.shape, strict=True)
        return _merge([[names if size == other else None for names, size, other in sizes], *others])

    layout = _find_layout(array, [index], [axis], arrange, "input")
    where = list_indices(index, axis, array.ndim)
    return array.at[where].get(mode="clip", wrap_negative_indices=False, out_sharding=layout)


def check_filled(array: Any, dims: Sequence[int], index: Any) -> None:
    """Raises a DimensionError where there are indices of an empty dim."""
    for dim in dims:
        if not array.shape[dim] and index.size:
            raise DimensionError(
                f"no index is in the bounds of dim {dim}, which is empty",
                "Index only dims whose size is not 0.",
            )


def check_whole(array: Any, dims: Sequence[int], indices: Sequence[Any], name: str = "input") -> None:
    """Checks that no axis of an explicit mesh spreads an indexed dim: its items may be on any device.

    Raises:
        ArgumentError: one does.
    """
    for dim, names in enumerate(_read_spec(array)):
        if dim in dims and names is not None:
            over = " and ".join(map(repr, list_mesh_axes(names)))
            reason = f"dim {dim} is indexed, and the devices of {over} have only parts of it"
            raise _make_error(array, indices, name, reason)


def _find_layout(
    array: Any, indices: Sequence[Any], dims: Sequence[int], arrange: Any, name: str
) -> NamedSharding | None:
    """Returns the sharding of selected items on an explicit mesh; None where XLA finds it."""
    mesh = find_explicit_mesh((array, *indices))
    if mesh is None:
        return None
    check_whole(array, dims, indices, name)
    spec = arrange(_read_spec(array), [_read_spec(index) for index in indices])
    used = [axis for names in spec for axis in list_mesh_axes(names)]
    if len(set(used)) < len(used) or PartitionSpec.UNCONSTRAINED in spec:
        reason = "the indices and it are spread in ways that do not go together"
        raise _make_error(array, indices, name, reason)
    return NamedSharding(mesh, PartitionSpec(*spec))


def _make_error(array: Any, indices: Sequence[Any], name: str, reason: str) -> ArgumentError:
    types = ", ".join(str(jax.typeof(one)) for one in (array, *indices))
    return ArgumentError(
        f"the sharding of the result is ambiguous for {name!r}: {reason}; the types are {types}",
        f"Call oplib.with_sharding_constraint({name}, sharding) with another sharding before, or make the "
        "mesh with AxisType.Auto.",
    )


def _read_spec(array: Any) -> Spec:
    return (*jax.typeof(array).sharding.spec, *[None] * array.ndim)[: array.ndim]


def _merge(specs: Sequence[Spec]) -> Spec:
    """Returns how operands of one shape spread a result of this shape; unconstrained where they disagree."""
    pairs = [{names for names in together if names is not None} for together in zip(*specs, strict=True)]
    return [
        None if not names else names.pop() if len(names) == 1 else PartitionSpec.UNCONSTRAINED
        for names in pairs
    ]
