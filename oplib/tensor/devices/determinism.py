"""Torch's switch for deterministic algorithms. XLA has it as a flag that is read when a backend starts."""

from __future__ import annotations

import os

import jax

from oplib.errors import ArgumentTypeError, DeviceError, describe

_FLAGS = ("--xla_gpu_deterministic_ops", "--xla_gpu_exclude_nondeterministic_ops")
_CURE = "Set XLA_FLAGS=--xla_gpu_deterministic_ops=true in the environment before JAX is imported."
_is_on = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for algorithms that give the same result in each run.

    Programs on a CPU or TPU are deterministic. On a GPU they are if XLA was told so by its flags, which it
    reads when it starts: without them the call raises. It starts JAX's backend.

    Args:
        mode: whether they are asked for.
        warn_only: accepted as torch's; there is nothing to warn of.

    Raises:
        ArgumentTypeError: ``mode`` is not a bool.
        DeviceError: JAX's default backend is a GPU, and XLA was not told.

    Source:
        torch.use_deterministic_algorithms

    Example:
        >>> use_deterministic_algorithms(False)
    """
    global _is_on  # noqa: PLW0603  one switch for the process, as XLA's flag
    del warn_only
    if not isinstance(mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise ArgumentTypeError(
            f"use_deterministic_algorithms: argument 'mode' must be a bool. Got {describe(mode)}. Give True "
            "or False."
        )
    if mode and jax.default_backend() == "gpu":
        flags = os.environ.get("XLA_FLAGS", "").lower().split()
        if not any(word in (flag, f"{flag}=true", f"{flag}=1") for word in flags for flag in _FLAGS):
            raise DeviceError(
                f"use_deterministic_algorithms: XLA does not run deterministically on this GPU. Got "
                f"XLA_FLAGS={os.environ.get('XLA_FLAGS', '')!r}. {_CURE}"
            )
    _is_on = mode


def are_deterministic_algorithms_enabled() -> bool:
    """Returns what :func:`use_deterministic_algorithms` was called with last; False at first.

    Source:
        torch.are_deterministic_algorithms_enabled

    Example:
        >>> are_deterministic_algorithms_enabled()
        False
    """
    return _is_on
