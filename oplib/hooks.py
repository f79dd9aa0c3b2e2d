"""Handles that remove registered hooks, and the check of what a hook takes."""

from __future__ import annotations

import inspect
import weakref
from collections import OrderedDict
from types import FunctionType, MethodType
from typing import Any, Self

from .errors import GradientTypeError

_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def refuse_later(fn: object, subject: str, error: type[Exception]) -> None:
    """Raises the error if a call of a function, or of an object with ``__call__``, gives no values yet."""
    later = inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction
    if any(returns_later(called) for called in (fn, type(fn).__call__) for returns_later in later):
        raise error(
            f"{subject} is async, or has a yield, so a call of it returns no values. Got "
            f"{getattr(fn, '__qualname__', type(fn).__name__)}. Write a plain def that returns them."
        )


def require_parameters(fn: Any, subject: str, *names: str) -> None:
    """Raises if a callable of the user does not take its arguments, or gives no values yet.

    One without a signature is accepted.

    Args:
        fn: the callable.
        subject: its name, for the error.
        *names: those of the arguments that it will be called with, by position.

    Raises:
        GradientTypeError: it does not take them, is async or a generator, or is no callable.
    """
    function = fn.__func__ if fn.__class__ is MethodType else fn
    if function.__class__ is FunctionType:  # nearly all are; a signature takes a hundred times as long
        code = function.__code__
        count = code.co_argcount - (function is not fn)
        if count == len(names) and not code.co_kwonlyargcount and not code.co_flags & _LATER:
            return
    refuse_later(fn, subject, GradientTypeError)
    due = f"({', '.join(names)})"
    if not callable(fn):
        raise GradientTypeError(
            f"{subject} cannot be called. Got {type(fn).__name__}. Give a function of {due}."
        )
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise GradientTypeError(
            f"{subject} does not accept its arguments. Got {getattr(fn, '__name__', type(fn).__name__)}"
            f"{signature}, it will be called with {due}: {error}. Give it these parameters."
        ) from None


class RemovableHandle:
    """Removes a hook from its dictionary; as a context manager it does so at the end of the block.

    The handle refers to the dictionary weakly, so it keeps neither tensor nor node alive.

    Attributes:
        id: the key of the hook, unique in the process even for unpickled handles.
    """

    next_id: int = 0

    def __init__(self, hooks_dict: OrderedDict[int, Any]) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook; a second call has no effect."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = weakref.ref(OrderedDict[int, Any]() if hooks is None else hooks)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()
