"""The hyperparameters of an optimizer, which stand in its state."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.grad_mode import recording_off
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.pytree import tree_leaves
from oplib.tensor import Tensor, upcalls
from oplib.tensor.devices.layout import place_like


class Hyperparameters(MutableMapping[str, Tensor]):
    """The hyperparameters that ``optax.inject_hyperparams`` has put into a state, by name.

    Reading one gives the Tensor in the state. Setting one writes into that Tensor, so nothing compiles again.

    Args:
        state: the leaves of the state.
        structure: how optax arranges them.
    """

    def __init__(self, state: Sequence[Tensor], structure: Any) -> None:
        indices = jax.tree_util.tree_unflatten(structure, range(len(state)))
        self._tensors = {
            name: [state[index] for index in numbers] for name, numbers in _find(indices).items()
        }

    def __getitem__(self, name: str) -> Tensor:
        return self._find(name)[0]

    def __setitem__(self, name: str, value: Any) -> None:
        tree_leaves(value)  # raises for a list that holds itself, which JAX reads until the stack ends
        for tensor in self._find(name):
            array = value._storage.array if isinstance(value, Tensor) else _to_array(name, value)
            if array.shape != tensor.shape:
                raise ArgumentError(
                    f"optimizer.hyperparams: {name!r} has another shape. Got {describe(array)} for "
                    f"{describe(tensor)}. Give a number."
                )
            with recording_off():
                placed = place_like(array.astype(tensor.dtype), tensor._storage.array)
                upcalls.copy_(tensor, Tensor.from_array(placed))

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(
            f"optimizer.hyperparams: {name!r} cannot be deleted. The transformation reads it at each step. "
            "Set it to another value."
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return repr({name: tensors[0] for name, tensors in self._tensors.items()})

    def _find(self, name: str) -> list[Tensor]:
        if name not in self._tensors:
            advice = (
                "Use one of these names."
                if self._tensors
                else "Wrap the function that makes the transformation: "
                f"optax.inject_hyperparams(optax.adam)({name}=...)."
            )
            raise KeyError(
                f"optimizer.hyperparams: there is no {name!r}. Got {sorted(self._tensors)}. {advice}"
            )
        return self._tensors[name]


def _to_array(name: str, value: Any) -> Any:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError(
            f"optimizer.hyperparams: {name!r} is no number. Got {describe(value)} of type "
            f"{type(value).__name__}. Give a number."
        ) from error


def _find(tree: Any) -> dict[str, list[int]]:
    """Finds the places of hyperparameters in a state; a name that several wrappers use has several."""
    indices: dict[str, list[int]] = {}
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if hasattr(node, "hyperparams") and hasattr(node, "inner_state"):
            for name, index in node.hyperparams.items():
                indices.setdefault(name, []).append(index)
            nodes.append(node.inner_state)
        elif not isinstance(node, int):
            nodes.extend(jax.tree_util.tree_leaves(node, is_leaf=lambda child, node=node: child is not node))
    return indices
