"""What array each Tensor has while a body is traced.

Each outside Tensor that the body reads becomes an operand of the program. JAX differentiates the program, and
what the tape would not differentiate has to be a constant for JAX too: an operand that does not require grad
is read through ``stop_gradient``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.core import Tracer

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import Edge
from oplib.modes import modes
from oplib.tensor import Storage, Tensor

from .leaves import share

Key = tuple[int, Edge | None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Captured:
    """Something of outside that a body reads.

    Attributes:
        storage: in which its array stands.
        owner: the Tensor, where its history matters, or it is known where to find it.
        edge: where its gradient goes; None if it has none.
        value: the array.
        version: of the storage, when it was read first.
    """

    storage: Storage
    owner: Tensor | None
    edge: Edge | None
    value: Any
    version: int

    @property
    def key(self) -> Key:
        """By what it is found: the storage is alive as long as this is."""
        return id(self.storage), self.edge

    @property
    def tensor(self) -> Tensor:
        """The operand."""
        return share(self.storage) if self.owner is None else self.owner


class BodyRegion:
    """Says what array each Tensor has while a body is traced.

    Args:
        known: the ids of Tensors of outside that can be found again.
        operands: the arrays that stand for what is captured.
        cutting: what does not require grad is a constant for JAX.
    """

    def __init__(self, known: frozenset[int], operands: dict[Key, Any], *, cutting: bool) -> None:
        self._known = known
        self._operands = operands
        self._cutting = cutting
        self._outer: BodyRegion | None = modes.region
        self.seen: dict[Key, Captured] = {}

    def read(self, tensor: Tensor) -> Any:
        """Returns the array of a Tensor that the body reads."""
        storage: Any = tensor._storage
        has_history = tensor._requires_grad
        if id(tensor) in self._known:
            value = self.find(storage, tensor)
        elif hasattr(storage, "chain") and (id(storage), gradient_edge(tensor)) not in self._operands:
            value = storage.chain.read(self._find_whole(tensor, has_history=has_history), storage.starts)
        else:
            value = self.find(storage, tensor if has_history else None)
        if self._cutting and modes.grad_enabled and not self._is_varied(tensor, has_history=has_history):
            return jax.lax.stop_gradient(value)
        return value

    def keep_derivative(self, tensor: Tensor, result: Tensor) -> Any:
        """Returns the array of a value that is written, as JAX is to differentiate it.

        The tape does not see a write under ``no_grad``: the history stays that of the old value.
        """
        old, new = tensor._storage.array, result._storage.array
        if not self._cutting or modes.grad_enabled or not tensor._requires_grad:
            return new
        return _replace(old, new)

    def _is_varied(self, tensor: Tensor, *, has_history: bool) -> bool:
        """Whether the tape would differentiate by it: a leaf that was made inside ends there."""
        if not has_history or id(tensor) in self._known:
            return has_history
        root = tensor if tensor._root is None else tensor._root
        return root._grad_fn is not None or (id(root._storage), gradient_edge(root)) in self._operands

    def _find_whole(self, tensor: Tensor, *, has_history: bool) -> Any:
        """What stands in the base of a view. What was saved of a view knows its base, but not its root."""
        base: Any = cast("Any", tensor._storage).base
        if has_history and tensor._root is None:
            for (storage, edge), operand in self._operands.items():
                if storage == id(base) and edge is not None:
                    return operand
        return self.find(base, tensor._root if has_history else None)

    def find(self, storage: Any, owner: Tensor | None) -> Any:
        """Returns what stands in a storage; it is noted, and may turn out to be of outside."""
        edge = None if owner is None else gradient_edge(owner)
        key = id(storage), edge
        if key in self._operands:
            return self._operands[key]
        value = storage.array if self._outer is None else self._outer.find(storage, owner)
        if key not in self.seen:
            self.seen[key] = Captured(storage, owner, edge, value, storage.version)
        # What is concrete has to be traced: kernels that run on the host would run at once.
        return value if isinstance(value, Tracer) else jnp.copy(value)


def _replace(old: Any, new: Any) -> Any:
    """Returns a new value that has the derivative of an old one.

    A ``custom_jvp`` would say this more plainly, but the second derivative of a scan forgets its rule.
    """
    zero = old - jax.lax.stop_gradient(old)
    return jax.lax.stop_gradient(new) + jnp.where(jnp.isfinite(old), zero, jnp.zeros_like(old))


def run_in_region(region: BodyRegion, work: Callable[[], Result]) -> Result:
    """Calls a function while a region decides what arrays the Tensors of this thread have."""
    state = modes.state
    outer = state.region
    try:
        state.region = region
        state.watchers += 1
        return work()
    finally:
        state.watchers -= 1
        state.region = outer
