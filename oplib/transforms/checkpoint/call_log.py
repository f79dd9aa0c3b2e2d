"""A log of the ops of a forward and of its repetition, for errors of regions that change."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from oplib.errors import CheckpointError, describe
from oplib.library.objects.observers import ObservedCall, observing
from oplib.tensor import Tensor
from oplib.tracebacks import is_inside


class CallLog:
    """Lists the ops of both computations, each with the line of the user's code that called it."""

    def __init__(self) -> None:
        self._lines: tuple[list[str], list[str]] = ([], [])

    @property
    def forward(self) -> AbstractContextManager[None]:
        """The context of the forward."""
        return _listing(self._lines[0])

    @property
    def again(self) -> AbstractContextManager[None]:
        """The context of the repetition. It can be entered several times."""
        return _Again(self._lines[1])

    def explain(self, unpack: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        """Returns ``unpack`` with both lists added to its CheckpointErrors."""

        def explained(holder: Any) -> Tensor:
            try:
                return unpack(holder)
            except CheckpointError as error:
                listed = CheckpointError(f"{error}\n{self._describe()}")
                raise listed.with_traceback(error.__traceback__) from error.__cause__

        return explained

    def _describe(self) -> str:
        titles = (
            "Operations executed during the original forward",
            "Operations executed during recomputation",
        )
        return "\n".join(
            f"{title}:\n" + "".join(f"  {line}\n" for line in lines or ["none"])
            for title, lines in zip(titles, self._lines, strict=True)
        )


class _Again(AbstractContextManager[None]):
    """Starts a new list each time it is entered."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        self._lines.clear()
        self._entered.append(_listing(self._lines))
        self._entered[-1].__enter__()

    def __exit__(self, *exc_info: object) -> None:
        self._entered.pop().__exit__(None, None, None)


@contextmanager
def _listing(lines: list[str]) -> Generator[None]:
    def observe(call: ObservedCall) -> Any:
        args, kwargs = call.arguments
        given = [*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())]
        lines.append(f"{call.overload}({', '.join(given)})   at {_find_line()}")
        return call.run()

    with observing(observe):
        yield


def _find_line() -> str:
    """Returns the innermost line outside of the package and of JAX."""
    for frame, line in traceback.walk_stack(None):
        if not is_inside[frame.f_code.co_filename]:
            return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return "?"
