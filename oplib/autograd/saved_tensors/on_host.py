"""Saved tensors kept in host memory between forward and backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
from jax.core import Tracer

from oplib.tensor import Tensor, box

from .hooks import saved_tensors_hooks

Packed = tuple[Any, Tensor]
"""The original sharding of a tensor (None if the tensor was not moved), and the stored tensor."""


class save_on_cpu(saved_tensors_hooks):  # noqa: N801  users call it like a function
    """Moves every tensor that a block of code saves to the host, and back when a backward needs it.

    Only tensors saved inside the block move. Traced tensors stay; inside ``jax.jit`` use an offloading policy
    of ``jax.checkpoint``.

    Args:
        pin_memory: uses pinned memory of the tensor's device (``memory_kind="pinned_host"``), from which
            copies are fast and asynchronous. It has no effect if the device has none.
        device_type: accepted for parity and ignored; each tensor knows its device.
        threshold: tensors with fewer bytes are not moved.
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
        device_type: str = "gpu",  # noqa: ARG002  ignored, see above
        *,
        threshold: int = 0,
        deduplicate: bool = False,
    ) -> None:
        move = _Once(_to_host) if deduplicate else _to_host
        fetch = _Once(_to_sharding) if deduplicate else _to_sharding

        def pack_to_cpu(tensor: Tensor) -> Packed:
            array = tensor._storage.array
            if isinstance(array, Tracer) or (threshold and array.nbytes < threshold):
                return None, _detached(tensor, array)
            return array.sharding, _detached(tensor, move(array, pin_memory))

        def unpack_from_cpu(packed: Packed) -> Tensor:
            sharding, tensor = packed
            return tensor if sharding is None else box(fetch(tensor._storage.array, sharding))

        super().__init__(pack_to_cpu, unpack_from_cpu)


def _detached(tensor: Tensor, array: Any) -> Tensor:
    """Returns a Tensor without history. One with history would hold the node that saves it."""
    detached = box(array)
    detached._trace = tensor._trace
    return detached


def _to_host(array: Any, pin_memory: bool) -> Any:
    """Copies an array to the host. An array on the host that need not be pinned is returned itself."""
    sharding = array.sharding
    kinds, is_on_cpu = _find_memories(sharding)
    if pin_memory and "pinned_host" in kinds:
        return jax.device_put(array, sharding.with_memory_kind("pinned_host"))
    if is_on_cpu:
        return array
    if len(sharding.device_set) == 1 and (hosts := _find_hosts()):
        return jax.device_put(array, hosts[0])
    return jax.device_put(array, sharding.with_memory_kind("unpinned_host"))


@lru_cache(maxsize=256)
def _find_memories(sharding: Any) -> tuple[set[str], bool]:
    """Returns the kinds of memory of the devices, and whether all are CPUs."""
    devices = list(sharding.device_set)
    kinds = {memory.kind for memory in devices[0].addressable_memories()}
    return kinds, all(device.platform == "cpu" for device in devices)


def _find_hosts() -> list[Any]:
    """Returns the CPU devices of this process; none if JAX was started for an accelerator only."""
    try:
        return jax.local_devices(backend="cpu")
    except RuntimeError:
        return []


def _to_sharding(array: Any, sharding: Any) -> Any:
    own = array.sharding
    return array if own is sharding or own == sharding else jax.device_put(array, sharding)


class _Once:
    """Remembers the result of a move as long as both arrays live.

    Two threads may compute the same move at once. Either result is right.
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
