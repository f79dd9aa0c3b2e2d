"""The storage of a Tensor that was made while a function was traced, and outlives that trace."""

from __future__ import annotations

from typing import Any

from oplib.errors import TracingError

from .storage import Storage


class EndedStorage(Storage):
    """The storage of a Tensor that was made inside a compiled function and kept outside.

    Args:
        function: the name of the function.
        path: where the Tensor was kept, as a user would write it; empty if that is unknown.
    """

    __slots__ = ("function", "path")

    def __init__(self, function: str, path: str) -> None:
        self.version = 0
        self.function = function
        self.path = path

    @property
    def array(self) -> Any:
        """Raises: the array existed only while the function was traced.

        Raises:
            TracingError: always.
        """
        kept = f", which kept it in {self.path}" if self.path else ""
        raise TracingError(
            "oplib.jit: a Tensor that was made inside a compiled function is used outside of it. Got one of "
            f"{self.function}{kept}. Its value existed only while the function was traced. Return it from "
            "the function, or write it into a Tensor that existed before."
        )
