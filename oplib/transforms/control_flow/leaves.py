"""The values that control flow functions take and return: trees of Tensors, as flat lists of leaves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from oplib.errors import ArgumentTypeError, ResultError, describe
from oplib.library.kernels.array_kernel import make_strong
from oplib.pytree import TreeSpec, tree_flatten, tree_unflatten
from oplib.tensor import Tensor, box

_new: Any = object.__new__


@dataclass(frozen=True)
class LeafLayout:
    """The structure of a tree of Tensors.

    Attributes:
        spec: the containers.
        kinds: of each leaf: ``Tensor``, ``jax.Array``, or ``None`` for a None.
    """

    spec: TreeSpec
    kinds: tuple[type | None, ...]

    @property
    def count(self) -> int:
        """How many leaves are not None."""
        return sum(kind is not None for kind in self.kinds)

    def build(self, tensors: Sequence[Tensor]) -> Any:
        """Puts a tree together from one Tensor for each leaf that is not None."""
        rest = iter(tensors)
        leaves = [
            None if kind is None else next(rest) if kind is Tensor else next(rest).array
            for kind in self.kinds
        ]
        return tree_unflatten(leaves, self.spec)

    def __str__(self) -> str:
        names = {None: "None", Tensor: "Tensor", jax.Array: "jax.Array"}
        return str(tree_unflatten([_Name(names[kind]) for kind in self.kinds], self.spec))


class _Name:
    """Shows as its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def flatten_leaves(tree: Any, what: str) -> tuple[list[Tensor], LeafLayout]:
    """Takes a tree of Tensors, arrays of JAX and Nones apart. Returns a Tensor for each leaf but the Nones.

    Raises:
        ArgumentTypeError: a leaf is something else.
    """
    leaves, spec = tree_flatten(tree)
    kinds = [_find_kind(leaf, what) for leaf in leaves]
    tensors = [
        leaf if kind is Tensor else box(make_strong(leaf))
        for leaf, kind in zip(leaves, kinds, strict=True)
        if kind is not None
    ]
    return tensors, LeafLayout(spec, tuple(kinds))


def build_trees(layouts: Sequence[LeafLayout], tensors: Sequence[Tensor]) -> list[Any]:
    """Puts several trees together from the Tensors of all of them."""
    rest = iter(tensors)
    return [layout.build(list(itertools.islice(rest, layout.count))) for layout in layouts]


def _find_kind(leaf: Any, what: str) -> type | None:
    if leaf is None:
        return None
    if isinstance(leaf, Tensor):
        return Tensor
    if isinstance(leaf, jax.Array):
        return jax.Array
    raise ArgumentTypeError(
        f"{what} holds something that is no Tensor. Got {describe(leaf)}, of type {type(leaf).__name__}. "
        "Make it a Tensor, oplib.tensor(value), or let the function capture it."
    )


def share(storage: Any) -> Tensor:
    """Makes a Tensor without history that shows what a storage holds."""
    tensor = _new(Tensor)
    tensor._storage = storage
    return tensor


def type_of_slice(array: Any) -> Any:
    """Returns the type of ``array[0]``, as ``jax.typeof`` gives types."""
    aval = jax.typeof(array)
    if not aval.shape[0]:
        return jax.ShapeDtypeStruct(aval.shape[1:], aval.dtype)
    take: Any = lambda value: jax.lax.index_in_dim(value, 0, keepdims=False)  # noqa: E731  traced at once
    return jax.make_jaxpr(take)(aval).out_avals[0]


def require_function(what: str, function: Any) -> None:
    """Raises an ArgumentTypeError where something that is to be called cannot be."""
    if not callable(function):
        raise ArgumentTypeError(
            f"{what} cannot be called. Got {describe(function)}, of type {type(function).__name__}. Give a "
            "function of Tensors."
        )


def compare(
    expected: LeafLayout,
    expected_types: Sequence[Any],
    actual: LeafLayout,
    actual_types: Sequence[Any],
    subject: str,
    cure: str,
) -> None:
    """Raises a ResultError where two trees of Tensors differ in structure, or in a shape or dtype."""
    if expected != actual:
        raise ResultError(f"{subject}. Got the structure {actual}, expected {expected}. {cure}.")
    for index, (due, got) in enumerate(zip(expected_types, actual_types, strict=True)):
        if due.shape != got.shape or due.dtype != got.dtype:
            raise ResultError(
                f"{subject}. Got {describe(got)} for leaf {index}, expected {describe(due)}. {cure}; "
                "convert with tensor.to(dtype), or reshape."
            )
