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

from .region_contexts import RepeatedContext


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
        return RepeatedContext(lambda: _listing(self._lines[1]))

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


@contextmanager
def _listing(lines: list[str]) -> Generator[None]:
    """Lists the ops of a block in ``lines``, instead of those of an earlier block."""
    lines.clear()

    def observe(call: ObservedCall) -> Any:
        args, kwargs = call.arguments
        arguments = [*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())]
        lines.append(f"{call.overload}({', '.join(arguments)})   at {_find_line()}")
        return call.run()

    with observing(observe):
        yield


def _find_line() -> str:
    """Returns the innermost line outside of the package and of JAX."""
    for frame, line in traceback.walk_stack(None):
        if not is_inside[frame.f_code.co_filename]:
            return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return "?"
