"""The functions of the global Generator, under torch's path ``torch.random``.

Example:
    >>> import oplib
    >>> state = oplib.random.get_rng_state()
    >>> with oplib.random.fork_rng():
    ...     numbers = oplib.rand(3)
    >>> oplib.random.get_rng_state() == state
    True
"""

from __future__ import annotations

from collections.abc import Generator as Pausing, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from .tensor import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
__dir__ = _make_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = _make_getattr(globals())


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,  # noqa: ARG001  torch's signature
    enabled: bool = True,
    *,
    device_type: str | None = None,
) -> Pausing[None]:
    """Restores the seed and the count of draws of the global Generator at the end of a block.

    Args:
        devices: accepted for parity and ignored, because one Generator serves all devices.
        enabled: False makes the function do nothing.
        device_type: accepted for parity; for "meta" nothing is restored, as in torch.

    Raises:
        TracingError: the Generator belongs to another trace.

    Gradient:
        None: the function computes no tensor.

    Source:
        ``torch.random.fork_rng`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> generator = oplib.manual_seed(0)
        >>> with fork_rng():
        ...     inside = oplib.rand(2)
        >>> oplib.equal(oplib.rand(2), inside)
        True
    """
    if not enabled or device_type == "meta":
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
