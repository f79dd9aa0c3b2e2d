"""The tokens of the schema language, the reader that goes through them, and its errors."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from oplib.errors import SchemaError

_TOKEN = re.compile(
    r"""(?:\s|\#[^\n]*)*(?:
    (?P<name>[^\W\d]\w*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>->|::|\.\.\.|[()\[\],!?*|=])
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?(?!\w))
    |(?P<word>\w+)
    |(?P<other>.|$))""",
    re.VERBOSE | re.DOTALL,
)
_SHOWN = 80  # characters of the text beside the place of an error
# As in torch: its schemas use some keywords of Python as names (`from`); its lexer reserves the others.
_USABLE = {"async", "await", "except", "finally", "from", "lambda", "nonlocal", "try", "yield"}
_RESERVED = frozenset(keyword.kwlist) - _USABLE
Item = TypeVar("Item")


def shorten(text: str) -> str:
    """Returns a text that is short enough for an error."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}..."


class TokenReader:
    """A position in the tokens of a schema. The text of the last token is empty."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = list(_TOKEN.finditer(source))
        self.position = 0

    @property
    def kind(self) -> str:
        """The kind of the next token: a group of the expression."""
        return str(self._tokens[self.position].lastgroup)

    @property
    def is_word(self) -> bool:
        """Whether the next token is a name, a number or a string, or like one of them."""
        return self.kind not in ("mark", "other")

    @property
    def text(self) -> str:
        """The next token."""
        return self._tokens[self.position][self.kind]

    @property
    def found(self) -> str:
        """The next token as an error shows it."""
        return f"'{shorten(self.text)}'" if self.text else "end of text"

    def at(self, text: str) -> bool:
        """Tells whether the next token is this one."""
        return self.text == text

    def advance(self) -> str:
        """Returns the next token and moves past it."""
        self.position += 1
        token = self._tokens[self.position - 1]
        return token[str(token.lastgroup)]

    def take(self, text: str) -> bool:
        """Moves past the next token if it is this one, and tells whether it was."""
        is_there = self.text == text
        self.position += is_there
        return is_there

    def expect(self, mark: str) -> None:
        """Moves past this token, or raises."""
        if not self.take(mark):
            self.fail(f"'{mark}'")

    def read_name(self, what: str) -> str:
        """Moves past a name, or raises; ``what`` describes the name in the error."""
        if self.kind != "name" or self.text in _RESERVED:
            self.fail(what)
        return self.advance()

    def read_items(self, close: str, read: Callable[[], Item]) -> list[Item]:
        """Reads items between commas, up to a closing mark and past it."""
        items: list[Item] = []
        while not self.take(close):
            if items and not self.take(","):
                self.fail(f"',' or '{close}'")
            items.append(read())
        return items

    def fail(self, expected: str) -> NoReturn:
        """Raises an error at the next token."""
        self.refuse(f"expected {expected} but found {self.found}.")

    def refuse(self, message: str) -> NoReturn:
        """Raises an error that shows the line of the next token, near it, with a caret under it."""
        token = self._tokens[self.position]
        place = token.start(str(token.lastgroup))
        start = max(self._source.rfind("\n", 0, place) + 1, place - _SHOWN)
        shown = self._source[start:place] + self._source[place : place + _SHOWN].split("\n")[0]
        # Tabs stay tabs, so that the caret is below its token at any tab width.
        indent = re.sub(r"[^\t]", " ", self._source[start:place])
        carets = "^" * min(max(1, len(self.text)), _SHOWN)
        raise SchemaError(f"schema: {message}\n    {shown}\n    {indent}{carets} here")
