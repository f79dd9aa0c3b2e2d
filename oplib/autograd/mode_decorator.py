"""What makes a mode a decorator: each step of what it decorates runs in the mode, and nothing else does.

A function has one step. A generator has one for each value that it yields, and what its consumer does between
them, or throws in, or sends, is not its own; a coroutine has one for each time that it is resumed.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, cast

from oplib.errors import ArgumentTypeError

_F = TypeVar("_F", bound=Callable[..., Any])


class Mode:
    """A context manager that is a decorator too; each entry of a decorated function is a fresh one.

    It keeps what was there in a stack, so that one object can be entered again inside itself.
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
        """Wraps a function, generator or coroutine function, of either kind, so that it runs in this mode.

        Args:
            function: what to wrap. A class, which torch still takes, becomes a function that makes instances
                in the mode, with a warning.

        Raises:
            ArgumentTypeError: it cannot be called.
        """
        return cast("_F", _choose_wrapper(self, function)(self, function))


def _choose_wrapper(mode: Mode, function: Any) -> Callable[[Mode, Any], Callable[..., Any]]:
    if not callable(function):
        raise ArgumentTypeError(
            f"{type(mode).__name__}: it decorates what can be called. Got {function!r}. Use a with statement "
            "around code, or decorate a function."
        )
    if inspect.isclass(function):
        warnings.warn(
            f"{type(mode).__name__}: decorating a class is deprecated, and makes a function of it. Decorate "
            f"{function.__name__}.__init__ instead.",
            FutureWarning,
            stacklevel=3,
        )
        return _wrap_function
    if inspect.isgeneratorfunction(function):
        return _wrap_generator
    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator
    return _wrap_coroutine if inspect.iscoroutinefunction(function) else _wrap_function


def _wrap_function(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
    def run(*args: Any, **kwargs: Any) -> Any:
        with mode.clone():
            return function(*args, **kwargs)

    return run


def _wrap_generator(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return (yield from _drive(mode, function(*args, **kwargs)))

    return run


def _drive(mode: Mode, steps: Any) -> Generator[Any, Any, Any]:
    """Runs the steps of a generator, or of what is awaited, in the mode."""
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
        except BaseException as error:  # noqa: BLE001  whatever is thrown in belongs to the generator
            step = functools.partial(steps.throw, error)
        else:
            step = functools.partial(steps.send, sent)


class _Driven:
    """What can be awaited, with each of its steps in a mode."""

    __slots__ = ("_mode", "_steps")

    def __init__(self, mode: Mode, steps: Any) -> None:
        self._mode = mode
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return _drive(self._mode, self._steps)


def _wrap_coroutine(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await _Driven(mode, function(*args, **kwargs))

    return run


def _wrap_async_generator(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        step = generator.asend(None)
        while True:
            try:
                item = await _Driven(mode, step)
            except StopAsyncIteration:
                return
            try:
                sent = yield item
            except GeneratorExit:
                await _Driven(mode, generator.aclose())
                raise
            except BaseException as error:  # noqa: BLE001  whatever is thrown in belongs to the generator
                step = generator.athrow(error)
            else:
                step = generator.asend(sent)

    return run
