"""The results of a check by the names of its tests."""

from __future__ import annotations

from typing import Literal


class OpCheckResults(dict[str, Literal["SUCCESS"] | Exception]):
    """A dictionary of results that prints as a table: a test per line, and the text of its error."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}}  {_tell(result)}" for name, result in self.items())


def _tell(result: str | Exception) -> str:
    return result if isinstance(result, str) else f"{type(result).__name__}: {' '.join(str(result).split())}"
