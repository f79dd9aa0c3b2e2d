"""The global Generator under torch's path ``torch.random``; all but ``fork_rng`` is at the root too.

Example:
    >>> import oplib
    >>> state = oplib.random.get_rng_state()
    >>> with oplib.random.fork_rng():
    ...     numbers = oplib.rand(3)
    >>> oplib.random.get_rng_state() == state
    True
"""

from __future__ import annotations

from collections.abc import Generator as Pausing
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

from .tensor import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,  # noqa: ARG001  torch's signature
    enabled: bool = True,
    *,
    device_type: str | None = None,
) -> Pausing[None]:
    """Sets the global Generator back, at the end of a block, to what it was before: seed and count of draws.

    Args:
        devices: what torch takes here; without effect, as one Generator serves all devices.
        enabled: whether it does anything.
        device_type: likewise without effect, but that for "meta" nothing is set back, as in torch.

    Raises:
        TracingError: the Generator belongs to another trace.

    Gradient:
        None: nothing is computed.

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
