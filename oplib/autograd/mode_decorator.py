"""The base class of modes. As a decorator, a mode is on during each step of the function, and only then.

A function has one step. A generator has one step per value that it yields; its consumer runs outside of the
mode. A coroutine has one step each time it is resumed.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Generator
from typing import Any, ClassVar, TypeVar, cast

from oplib.errors import ArgumentTypeError, describe
from oplib.modes import ModeState, enter_block, leave_block, modes
from oplib.protocols import AnyFunction
from oplib.tracebacks import warn_user

_F = TypeVar("_F", bound=AnyFunction)


class Mode:
    """A context manager that is also a decorator. Each call of a decorated function enters a new manager.

    The manager keeps earlier settings on a stack, so it can be entered again inside itself.

    Python delivers a signal at the start of a function and after a call. So the last statements of
    ``__enter__`` and the first of ``__exit__`` change the modes without a call: an interrupt then changes all
    modes or none.
    """

    def __init__(self) -> None:
        self._before: list[Any] = []

    def clone(self) -> Mode:
        """Returns a new manager with the same settings."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc_info: object) -> None:
        raise NotImplementedError

    def __call__(self, function: _F) -> _F:
        """Wraps a function, generator function or coroutine function, so that it runs in this mode.

        Args:
            function: the function to wrap. A class, which torch still accepts, becomes a function that makes
                instances in the mode, with a warning.

        Raises:
            ArgumentTypeError: the argument is not callable, or an asynchronous generator.
        """
        return cast("_F", _choose_wrapper(self, function)(self, function))


class Flag(Mode):
    """A mode that sets one flag of the thread, at once or for a block.

    Args:
        mode: the value of the flag.

    Attributes:
        name: the name of the flag among the modes.
    """

    name: ClassVar[str]

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        state = modes.state
        self._before.append((state, getattr(state, self.name)))
        self._set(state, self.mode)

    def clone(self) -> Flag:
        """Returns a new manager with the same setting."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        state, before = self._before[-1]
        self._set(state, before)
        block = enter_block()
        self._before.append((block, before))
        self._set(block, self.mode)

    def __exit__(self, *exc_info: object) -> None:
        state, before = self._before[-1]
        self._set(state, before)
        leave_block(state)
        del self._before[-1]

    def _set(self, state: ModeState, value: bool) -> None:
        setattr(state, self.name, value)


def _choose_wrapper(mode: Mode, function: Any) -> Callable[[Mode, Any], AnyFunction]:
    if not callable(function):
        raise ArgumentTypeError(
            f"{type(mode).__name__}: it decorates what can be called. Got {describe(function)}. Use a with "
            "statement around code, or decorate a function."
        )
    if inspect.isclass(function):
        warn_user(
            f"{type(mode).__name__}: decorating a class is deprecated, and makes a function of it. Decorate "
            f"{function.__name__}.__init__ instead.",
            FutureWarning,
        )
        return _wrap_function
    if inspect.isgeneratorfunction(function):
        return _wrap_generator
    if inspect.isasyncgenfunction(function):
        raise ArgumentTypeError(
            f"{type(mode).__name__}: it decorates no asynchronous generator. Got {function.__name__}. "
            "Enter the mode inside, in a with statement around the code between two yields."
        )
    return _wrap_coroutine if inspect.iscoroutinefunction(function) else _wrap_function


def _wrap_function(mode: Mode, function: AnyFunction) -> AnyFunction:
    @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
    def run(*args: Any, **kwargs: Any) -> Any:
        state = modes.state
        before = state.grad_enabled, state.inference, state.forward_enabled, state.autocast
        calls = state.watchers, state.in_trace, state.constant_in
        try:
            with mode.clone():
                return function(*args, **kwargs)
        finally:  # an interrupt may come before __exit__ begins, but not here
            state.grad_enabled, state.inference, state.forward_enabled, state.autocast = before
            state.watchers, state.in_trace, state.constant_in = calls

    return run


def _wrap_generator(mode: Mode, function: AnyFunction) -> AnyFunction:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return (yield from _drive(mode, function(*args, **kwargs)))

    return run


def _drive(mode: Mode, steps: Any) -> Generator[Any, Any, Any]:
    """Runs the steps of a generator or awaitable in the mode."""
    step: Callable[[], Any] = functools.partial(steps.send, None)
    while True:
        try:
            with mode.clone():
                item = step()
        except StopIteration as stop:
            return stop.value
        try:
            sent = yield item
        except GeneratorExit:
            with mode.clone():
                steps.close()
            raise
        except BaseException as error:  # noqa: BLE001  thrown errors go to the generator
            step = functools.partial(steps.throw, error)
        else:
            step = functools.partial(steps.send, sent)


def _wrap_coroutine(mode: Mode, function: AnyFunction) -> AnyFunction:
    drive = types.coroutine(_wrap_generator(mode, function))

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await drive(*args, **kwargs)

    return run
