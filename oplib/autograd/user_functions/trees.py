"""Flat lists of the arguments, results and gradients of a Function, which may be in containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oplib.autograd.nodes.gradient_representation import is_array_class
from oplib.errors import AutogradError, describe
from oplib.protocols import Values
from oplib.pytree import TreeSpec, tree_flatten_dataclasses, tree_unflatten
from oplib.pytree.paths import find_different_path
from oplib.tensor import Tensor

Specs = Mapping[int, TreeSpec]
"""The structure of each value that is a container of tensors, by its position. Other values are leaves."""

PLAIN = frozenset((Tensor, int, float, bool, complex, str, bytes, type(None)))
"""The classes of nearly all values; such a value is a leaf."""
NO_SPECS: Specs = {}


def is_operand(value: Any) -> bool:
    """Returns whether a value is a Tensor or an array."""
    return isinstance(value, Tensor) or is_array_class[type(value)]


def list_values(result: Any) -> Values:
    """Returns the values of a result, which is one value or a tuple."""
    return result if isinstance(result, tuple) else (result,)


def flatten_values(values: Iterable[Any]) -> tuple[list[Any], Specs]:
    """Flattens the values that hold Tensors or arrays. Any other container is a leaf."""
    leaves: list[Any] = []
    specs: dict[int, TreeSpec] | None = None
    for position, value in enumerate(values):
        kind = value.__class__
        if kind in PLAIN or is_array_class[kind] or isinstance(value, Tensor):
            leaves.append(value)
            continue
        parts, spec = tree_flatten_dataclasses(value)
        if any(map(is_operand, parts)):
            leaves.extend(parts)
            specs = {} if specs is None else specs
            specs[position] = spec
        else:
            leaves.append(value)
    return leaves, NO_SPECS if specs is None else specs


def unflatten_values(leaves: Sequence[Any], count: int, specs: Specs) -> Values:
    """Rebuilds ``count`` values from leaves."""
    if not specs:
        return tuple(leaves)
    values: list[Any] = []
    start = 0
    for position in range(count):
        spec = specs.get(position)
        if spec is None:
            values.append(leaves[start])
            start += 1
        else:
            values.append(tree_unflatten(leaves[start : start + spec.num_leaves], spec))
            start += spec.num_leaves
    return tuple(values)


def pack_result(leaves: Sequence[Any], count: int, specs: Specs, kind: type[Any]) -> Any:
    """Rebuilds the result of a forward, which returned ``count`` values in an object of class ``kind``."""
    values = unflatten_values(leaves, count, specs)
    if not issubclass(kind, tuple):
        return values[0]
    return kind(*values) if hasattr(kind, "_fields") else values


def flatten_gradients(gradients: Sequence[Any], specs: Specs, name: str) -> list[Any]:
    """Flattens the results of a backward.

    None may stand for a whole argument; another structure raises AutogradError.
    """
    leaves: list[Any] = []
    for position, gradient in enumerate(gradients):
        spec = specs.get(position)
        if spec is None:
            leaves.append(gradient)
        elif gradient is None:
            leaves.extend([None] * spec.num_leaves)
        else:
            parts, structure = tree_flatten_dataclasses(gradient)
            if structure != spec:
                raise AutogradError(
                    f"{name}: the gradient of argument {position} must have the same structure as the "
                    f"argument. They differ at [{position}]{find_different_path(structure, spec)}. Got "
                    f"{describe(structure)}, expected {describe(spec)}. Put None where a tensor "
                    "has none, or return None for all."
                )
            leaves.extend(parts)
    return leaves
