"""Batch dimensions: ``in_dims`` and ``out_dims`` applied to trees, and dims added and moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from oplib.errors import ArgumentValueError, DataTypeError, DimensionError, describe
from oplib.frozen import frozen
from oplib.library.jax_primitives.unmapped_values import UnmappedValue
from oplib.protocols import Values
from oplib.pytree import TreeSpec, tree_flatten
from oplib.tensor import Tensor, upcalls


@frozen
class Arguments:
    """The flat positional arguments of a mapped function.

    Attributes:
        leaves: all leaves.
        spec: their structure.
        dims: the batch dimension of each, not negative; None if it is the same for all examples.
        size: the number of examples.
    """

    leaves: list[Any]
    spec: TreeSpec
    dims: list[int | None]
    size: int


def read_arguments(name: str, in_dims: Any, args: Values) -> Arguments:
    """Flattens arguments, and applies ``in_dims`` to them.

    Raises:
        ArgumentValueError: ``in_dims`` does not fit, no argument is mapped, or batches differ in size.
    """
    where = f"vmap({name}, in_dims={describe(in_dims)}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ArgumentValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure "
            f"of inputs. Got {type(in_dims).__name__}. Give one int for all, or a tuple with an entry for "
            "each."
        )
    if not args:
        raise ArgumentValueError(
            f"vmap({name})(<inputs>): got no inputs. A function without positional arguments has no batch. "
            "Give it one, or call it without vmap."
        )
    leaves, spec = tree_flatten(args)
    spread = spread_dims(in_dims, spec)
    if spread is None:
        raise ArgumentValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}. Give an int or None in place of "
            "each argument, or of each leaf of it."
        )
    dims = [_check_dim(where, leaf, dim) for leaf, dim in zip(leaves, spread, strict=True)]
    return Arguments(leaves, spec, dims, _find_size(leaves, dims))


def _check_dim(where: str, leaf: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if isinstance(dim, bool) or not isinstance(dim, int):
        kind = DataTypeError if isinstance(dim, bool) else ArgumentValueError
        raise kind(
            f"{where}: Got in_dim={describe(dim)} for an input but in_dim must be either an integer "
            f"dimension or None. The input is {describe(leaf)}. Give the place of its batch."
        )
    if not isinstance(leaf, Tensor):
        raise ArgumentValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf).__name__}. Only "
            "Tensors are mapped. Give None as its in_dim, or box an array: Tensor.from_array(array)."
        )
    ndim = leaf._storage.array.ndim
    if not -ndim <= dim < ndim:
        raise ArgumentValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is {describe(leaf)}, a "
            f"Tensor of dimensionality {ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}. Give "
            "a dim that it has, or None."
        )
    return dim % ndim


def _find_size(leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [
        leaf._storage.array.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None
    ]
    if not sizes:
        raise ArgumentValueError(
            "vmap: Expected at least one Tensor to vmap over. Every in_dim is None, or there is no argument. "
            "Give the place of the batch of one."
        )
    if len(set(sizes)) > 1:
        raise ArgumentValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension. Got sizes "
            f"{describe(sizes)} for the mapped dimension. Give batches of one size, or None for what is not "
            "mapped."
        )
    return sizes[0]


def take_results_apart(
    name: str, out_dims: Any, results: Any
) -> tuple[list[Any], TreeSpec, list[int | None]]:
    """Flattens results, and applies ``out_dims`` to them.

    Raises:
        ArgumentValueError: ``out_dims`` does not fit, or a result is not a Tensor.
    """
    leaves, spec = tree_flatten(results)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ArgumentValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors. Got type {type(leaf).__name__}. A "
                "value that is not a Tensor has no batch. Return Tensors only."
            )
    if any(dim is not None and not isinstance(dim, int) for dim in tree_flatten(out_dims)[0]):
        raise ArgumentValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection "
            "of ints representing where in the outputs the vmapped dimension should appear. Got another "
            "entry. Give an int or None for each."
        )
    alone = isinstance(results, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1
    spread = list(out_dims) if alone else spread_dims(out_dims, spec)
    if spread is None:
        raise ArgumentValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has "
            f"structure {spec}. Give one int for all, or an int or None in place of each."
        )
    return leaves, spec, spread


def normalize_dim(ndim: int, dim: int) -> int:
    """Returns the batch dimension among all dims of a result, not negative, or raises DimensionError."""
    if not -ndim <= dim < ndim:
        raise DimensionError(
            f"vmap: Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
            f"{dim}). A result is batched and its out_dim is to be one of its dims. Choose another out_dim."
        )
    return dim % ndim


def spread_dims(dims: Any, spec: TreeSpec) -> list[Any] | None:
    """Repeats each dim for all leaves that it stands for; returns None if the structures differ."""
    if dims is None or not isinstance(dims, (tuple, list, dict)):
        return [dims] * spec.num_leaves
    _, own = tree_flatten(dims, lambda leaf: leaf is not dims)
    if spec.is_leaf() or own.type is not spec.type or own.entries() != spec.entries():
        return None
    spread: list[Any] = []
    for entry, child in zip(own.entries(), spec.children(), strict=True):
        part = spread_dims(dims[entry], child)
        if part is None:
            return None
        spread += part
    return spread


def with_batch(value: UnmappedValue, size: int) -> UnmappedValue:
    """Adds the batch axis to a value that is the same in all examples."""
    if value.is_batched:
        return value
    return UnmappedValue(jnp.broadcast_to(value.array[None], (size, *value.array.shape)), True)


def repeat(tensor: Tensor, size: int) -> Tensor:
    """Repeats a tensor that is the same in all examples. The tape records it."""
    return upcalls.expand(upcalls.unsqueeze(tensor, 0), (size, *tensor._storage.array.shape))


def move_batch(tensor: Tensor, source: int, target: int) -> Tensor:
    """Moves one dim of a tensor to another place. The tape records it."""
    dims = [dim for dim in range(tensor._storage.array.ndim) if dim != source]
    dims.insert(target, source)
    return upcalls.permute(tensor, dims)
