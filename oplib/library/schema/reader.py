"""The tokens of the schema language, the reader that goes through them, and its errors."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from oplib.errors import SchemaError

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?(?!\w))
    |(?P<name>[^\W\d]\w*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>->|::|\.\.\.|[()\[\],.!?*|=+-])""",
    re.VERBOSE | re.DOTALL,
)
END = "end of text"
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a schema's text.

    Attributes:
        kind: ``name``, ``number``, ``string``, ``mark``, or :data:`END`.
        text: the text as written.
        start: the position in the schema's text.
    """

    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        return END if self.kind == END else f"'{self.text}'"


def read_tokens(source: str) -> list[Token]:
    """Returns the tokens of a text, without blanks and comments, and an END token, or raises SchemaError."""
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            stray = Token("stray", _read_stray(source, position), position)
            raise make_error(source, stray, f"expected a name, a number or punctuation but found {stray}.")
        if match.lastgroup != "blank":
            tokens.append(Token(str(match.lastgroup), match[0], position))
        position = match.end()
    return [*tokens, Token(END, "", len(source))]


def make_error(source: str, token: Token, message: str) -> SchemaError:
    """Returns an error that shows the line of the schema with a caret under the token."""
    before = source[: token.start]
    line_start = before.rfind("\n") + 1
    line = source[line_start:].split("\n", 1)[0]
    # Tabs stay tabs, so that the caret is below its token at any tab width.
    indent = re.sub(r"[^\t]", " ", before[line_start:])
    return SchemaError(f"schema: {message}\n    {line}\n    {indent}{'^' * max(1, len(token.text))} here")


def _read_stray(source: str, position: int) -> str:
    """Returns the text to show for a place that cannot be read: a word such as ``1x``, or one character."""
    word = re.match(r"\w+", source[position:])
    return word[0] if word else source[position]


# As in torch: its schemas use some keywords of Python as names (`from`); its lexer reserves the others.
_USABLE = {"async", "await", "except", "finally", "from", "lambda", "nonlocal", "try", "yield"}
_RESERVED = frozenset(keyword.kwlist) - _USABLE


class TokenReader:
    """A position in the tokens of a schema."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = read_tokens(source)
        self.position = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def at(self, kind: str) -> bool:
        """Tells whether the next token is this mark, or has this kind."""
        token = self.token
        return token.text == kind if token.kind == "mark" else token.kind == kind

    def advance(self) -> Token:
        """Returns the next token and moves past it."""
        token = self.token
        self.position += 1
        return token

    def take(self, mark: str) -> bool:
        """Moves past the next token if it is this mark, and tells whether it was."""
        is_there = self.at(mark)
        self.position += is_there
        return is_there

    def expect(self, mark: str, *, also: str = "") -> Token:
        """Moves past this mark, or raises; ``also`` is another mark that the error names as correct."""
        if not self.at(mark):
            self.fail(f"'{mark}' or '{also}'" if also else f"'{mark}'")
        return self.advance()

    def read_name(self, what: str) -> Token:
        """Moves past a name, or raises; ``what`` describes the name in the error."""
        if not self.at("name") or self.token.text in _RESERVED:
            self.fail(what)
        return self.advance()

    def read_items(self, close: str, read: Callable[[], Item]) -> list[Item]:
        """Reads items between commas, up to a closing mark and past it."""
        items: list[Item] = []
        while not self.take(close):
            if items:
                self.expect(",", also=close)
            items.append(read())
        return items

    def fail(self, expected: str, cure: str = "") -> NoReturn:
        """Raises an error at the next token."""
        self.refuse(self.token, f"expected {expected} but found {self.token}.{' ' * bool(cure)}{cure}")

    def refuse(self, token: Token, message: str) -> NoReturn:
        """Raises an error at a given token."""
        raise make_error(self.source, token, message)
