"""Torch's switch for deterministic algorithms. XLA has it as a flag that is read when a backend starts."""

from __future__ import annotations

import os

import jax

from oplib.errors import ArgumentTypeError, DeviceError, describe

_FLAGS = ("--xla_gpu_deterministic_ops", "--xla_gpu_exclude_nondeterministic_ops")
_CURE = "Set XLA_FLAGS=--xla_gpu_deterministic_ops=true in the environment before JAX is imported."
_LEVELS: dict[int | str, int] = {0: 0, 1: 1, 2: 2, "default": 0, "warn": 1, "error": 2}
_is_on = _warns_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for algorithms that give the same result in each run.

    Programs on a CPU or TPU are deterministic. On a GPU they are if XLA was told so by its flags, which it
    reads when it starts: without them the call raises. It starts JAX's backend.

    Args:
        mode: whether they are asked for.
        warn_only: what :func:`is_deterministic_algorithms_warn_only_enabled` returns; oplib warns of nothing.

    Raises:
        ArgumentTypeError: ``mode`` is not a bool.
        DeviceError: JAX's default backend is a GPU, and XLA was not told.

    Source:
        torch.use_deterministic_algorithms

    Example:
        >>> use_deterministic_algorithms(False)
    """
    global _is_on, _warns_only  # one switch for the process, as the flag of XLA
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
    _is_on, _warns_only = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Returns what :func:`use_deterministic_algorithms` was called with last; False at first.

    Source:
        torch.are_deterministic_algorithms_enabled

    Example:
        >>> are_deterministic_algorithms_enabled()
        False
    """
    return _is_on


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Returns the ``warn_only`` of the last call of :func:`use_deterministic_algorithms`.

    Source:
        torch.is_deterministic_algorithms_warn_only_enabled

    Example:
        >>> is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _warns_only


def get_deterministic_debug_mode() -> int:
    """Returns 0 if deterministic algorithms are not asked for, 1 with ``warn_only``, else 2.

    Source:
        torch.get_deterministic_debug_mode

    Example:
        >>> get_deterministic_debug_mode()
        0
    """
    return (2 - _warns_only) * _is_on


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Calls :func:`use_deterministic_algorithms` with torch's third spelling of its arguments.

    Args:
        debug_mode: 0 or ``"default"``; 1 or ``"warn"``; 2 or ``"error"``.

    Raises:
        ArgumentTypeError: it is another value.
        DeviceError: as for ``use_deterministic_algorithms``.

    Source:
        torch.set_deterministic_debug_mode

    Example:
        >>> set_deterministic_debug_mode("default")
    """
    is_one = isinstance(debug_mode, (int, str))  # pyright: ignore[reportUnnecessaryIsInstance]  as above
    level = _LEVELS.get(debug_mode) if is_one else None
    if level is None:
        raise ArgumentTypeError(
            f"set_deterministic_debug_mode: argument 'debug_mode' must be one of {list(_LEVELS)}. Got "
            f"{describe(debug_mode)}. Give one of these."
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)
