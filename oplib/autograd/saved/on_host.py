"""Saved tensors kept in the memory of the host between forward and backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

from oplib.tensor import Tensor, box

from .hooks import saved_tensors_hooks

Packed = tuple[Any, Tensor]
"""The sharding that a tensor had (None where it was left as it is), and the tensor where it is kept."""


class save_on_cpu(saved_tensors_hooks):  # noqa: N801  a function to its users
    """Moves every tensor that is saved in a block of code to the host, and back when a backward needs it.

    Only what is saved inside the block moves. A traced tensor stays: inside ``jax.jit`` use a policy of
    ``jax.checkpoint`` that offloads.

    Args:
        pin_memory: keeps it in pinned memory of its own device (``memory_kind="pinned_host"``), from which
            copies are fast and asynchronous; where the device has none, as without.
        device_type: accepted for parity; the device of each tensor tells.
        threshold: tensors of fewer bytes than this stay where they are.
        deduplicate: an array that is saved several times is moved and kept once.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import save_on_cpu
        >>> x = oplib.tensor([3.0], requires_grad=True)
        >>> with save_on_cpu(pin_memory=True):
        ...     y = x * x
        >>> y.sum().backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(
        self,
        pin_memory: bool = False,
        device_type: str = "gpu",  # noqa: ARG002  see above
        *,
        threshold: int = 0,
        deduplicate: bool = False,
    ) -> None:
        move = _Once(_to_host) if deduplicate else _to_host
        fetch = _Once(_to_sharding) if deduplicate else _to_sharding

        def pack_to_cpu(tensor: Tensor) -> Packed:
            array = tensor._storage.array
            if isinstance(array, Tracer) or array.nbytes < threshold:
                return None, _detached(tensor, array)
            return array.sharding, _detached(tensor, move(array, pin_memory))

        def unpack_from_cpu(packed: Packed) -> Tensor:
            sharding, tensor = packed
            return tensor if sharding is None else box(fetch(tensor._storage.array, sharding))

        super().__init__(pack_to_cpu, unpack_from_cpu)


def _detached(tensor: Tensor, array: Any) -> Tensor:
    """A box without history: one with it would hold the node that saves it."""
    detached = box(array)
    detached._trace = tensor._trace
    return detached


def _to_host(array: Any, pin_memory: bool) -> Any:
    """Copies to the host; what is there already, and need not be pinned, is the same array."""
    sharding = array.sharding
    devices = list(sharding.device_set)
    kinds = [memory.kind for memory in devices[0].addressable_memories()]
    if pin_memory and "pinned_host" in kinds:
        return jax.device_put(array, sharding.with_memory_kind("pinned_host"))
    if all(device.platform == "cpu" for device in devices):
        return array
    if len(devices) == 1 and (hosts := _find_hosts()):
        return jax.device_put(array, hosts[0])
    return jax.device_put(array, sharding.with_memory_kind("unpinned_host"))


def _find_hosts() -> list[Any]:
    """The CPU devices of this process; none where JAX was started for the accelerator alone."""
    try:
        return jax.local_devices(backend="cpu")
    except RuntimeError:
        return []


def _to_sharding(array: Any, sharding: Any) -> Any:
    return array if array.sharding == sharding else jax.device_put(array, sharding)


class _Once:
    """Remembers what became of an array as long as both of them live.

    Two threads that come at the same time both compute it; either result is right.
    """

    __slots__ = ("_known", "_move")

    def __init__(self, move: Callable[[Any, Any], Any]) -> None:
        self._move = move
        self._known: dict[int, tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def __call__(self, array: Any, how: Any) -> Any:
        key = id(array)
        source, result = self._known.get(key, (_forget, _forget))
        moved = result()
        if source() is not array or moved is None:
            moved = self._move(array, how)
            self._known[key] = weakref.ref(array, lambda _: self._known.pop(key, None)), weakref.ref(moved)
        return moved


def _forget() -> None:
    return None
