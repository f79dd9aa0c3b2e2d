"""Modes that decide whether operations of a thread are recorded: context managers and decorators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oplib.errors import ArgumentTypeError
from oplib.modes import enter_block, leave_block, modes
from oplib.protocols import AnyFunction
from oplib.tensor.storage.cut import find_constant_trace
from oplib.torch_names import make_dir as _make_dir

from .mode_decorator import Flag, Mode

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
__dir__ = _make_dir(globals())

_F = TypeVar("_F", bound=Callable[..., Any])


class _GradMode(Mode):
    """Sets grad mode to one value. Where it is off, results are constants for JAX too."""

    enabled: bool

    def __enter__(self) -> None:
        constant_in = None if self.enabled else find_constant_trace()
        state = enter_block()
        self._before.append((state, state.grad_enabled, state.constant_in))
        state.grad_enabled, state.constant_in = self.enabled, constant_in

    def __exit__(self, *exc_info: object) -> None:
        state, state.grad_enabled, state.constant_in = self._before[-1]
        leave_block(state)
        del self._before[-1]


class _FixedGradMode(_GradMode):
    """A mode without settings, which is a decorator also without parentheses."""

    def __new__(cls, function: AnyFunction | None = None) -> Any:
        return object.__new__(cls) if function is None else cls()(function)

    def __init__(self, function: AnyFunction | None = None) -> None:  # noqa: ARG002  __new__ reads it
        super().__init__()


class recording_off(_FixedGradMode):  # noqa: N801  used like no_grad
    """The ``no_grad`` of oplib's own code, which changes nothing for JAX."""

    enabled = False

    def __enter__(self) -> None:
        state = modes.state
        self._before.append((state, state.grad_enabled, state.constant_in))
        state.grad_enabled = False

    def __exit__(self, *exc_info: object) -> None:
        state, state.grad_enabled, state.constant_in = self._before[-1]
        del self._before[-1]


class no_grad(_FixedGradMode):  # noqa: N801  users call it like a function
    """Turns recording off in a block. It is also a decorator, with or without parentheses.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> with oplib.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    enabled = False


class enable_grad(_FixedGradMode):  # noqa: N801
    """Turns recording on in a block, also inside ``no_grad``. It is also a decorator.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> with oplib.no_grad(), oplib.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """

    enabled = True


class set_grad_enabled(_GradMode):  # noqa: N801
    """Switches recording on or off, at once or for a ``with`` block.

    Args:
        mode: whether operations are recorded.

    Raises:
        ArgumentTypeError: ``mode`` is not a bool.

    Example:
        >>> import oplib
        >>> with oplib.set_grad_enabled(False):
        ...     oplib.is_grad_enabled()
        False
        >>> oplib.is_grad_enabled()
        True
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise ArgumentTypeError(
                f"set_grad_enabled: argument 'mode' must be bool. Got {type(mode).__name__}. Give True or "
                "False; to decorate a function, write @set_grad_enabled(False) above it."
            )
        super().__init__()
        self.mode = self.enabled = mode
        constant_in, state = None if mode else find_constant_trace(), modes.state
        self._outside: Any = state, state.grad_enabled, state.constant_in
        state.grad_enabled, state.constant_in = mode, constant_in

    def clone(self) -> set_grad_enabled:
        """Returns a new manager with the same settings."""
        return set_grad_enabled(self.enabled)

    def __enter__(self) -> None:
        self._switch_back()
        super().__enter__()

    def __call__(self, function: _F) -> _F:
        """Wraps a function so that it runs in this mode. Undoes the switch that the constructor made."""
        self._switch_back()
        return super().__call__(function)

    def _switch_back(self) -> None:
        if self._outside is not None:
            state, state.grad_enabled, state.constant_in = self._outside
            self._outside = None

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.enabled})"


class inference_mode(Mode):  # noqa: N801
    """Turns recording off in a block, permanently for the tensors made in it. It is also a decorator.

    Tensors made inside are inference tensors (``is_inference()``). They count no versions, so outside they
    cannot be written in place, saved for a backward pass, or made to require grad. Views of other tensors are
    inference tensors only if their base is. ``clone()`` outside returns an ordinary tensor. The mode is a
    promise that oplib checks; it is not faster than ``no_grad``.

    Args:
        mode: False leaves an enclosing inference mode.

    Example:
        >>> import oplib
        >>> with oplib.inference_mode():
        ...     y = oplib.ones(2) * 2
        >>> y.is_inference(), y.clone().is_inference()
        (True, False)
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:  # noqa: D102
        return object.__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__()
        self.mode = bool(mode)

    def clone(self) -> inference_mode:
        """Returns a new manager with the same settings."""
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        constant_in = find_constant_trace() if self.mode else None
        state = enter_block()
        self._before.append((state, state.inference, state.grad_enabled, state.constant_in))
        state.inference = self.mode
        state.grad_enabled, state.constant_in = not self.mode, constant_in
        state.watchers += self.mode  # results must be marked, and the fast path marks nothing

    def __exit__(self, *exc_info: object) -> None:
        state, state.inference, state.grad_enabled, state.constant_in = self._before[-1]
        state.watchers -= self.mode
        leave_block(state)
        del self._before[-1]


class set_multithreading_enabled(Flag):  # noqa: N801
    """Sets a flag that is kept for parity, at once or for a block. No engine of oplib starts threads.

    Args:
        mode: the flag's value in this thread.
    """

    name = "multithreading"


def is_grad_enabled() -> bool:
    """Returns whether operations are recorded in this thread.

    Source:
        torch.is_grad_enabled

    Example:
        >>> with no_grad():
        ...     is_grad_enabled()
        False
    """
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Returns whether inference mode is active in this thread.

    Source:
        torch.is_inference_mode_enabled

    Example:
        >>> with inference_mode():
        ...     is_inference_mode_enabled()
        True
    """
    return modes.inference


def is_multithreading_enabled() -> bool:
    """Returns the flag of :class:`set_multithreading_enabled` in this thread."""
    return modes.multithreading
