"""The tokens of the schema language, and the error that points at one."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a schema's text.

    Attributes:
        kind: ``name``, ``number``, ``string``, ``mark``, or :data:`END`.
        text: as written.
        start: where it begins in the schema's text.
    """

    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        return END if self.kind == END else f"'{self.text}'"


def read_tokens(source: str) -> list[Token]:
    """Returns the tokens of a schema's text without blanks and comments, an END token last.

    Raises:
        SchemaError: a character that starts no token.
    """
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
    """Returns an error that shows the line of the schema with a caret under the token.

    Args:
        source: the schema's text.
        token: where it went wrong.
        message: what was expected, what came, what to do.
    """
    before = source[: token.start]
    line_start = before.rfind("\n") + 1
    line = source[line_start:].split("\n", 1)[0]
    # tabs stay tabs, so that the caret stands under its token however wide they are shown
    indent = re.sub(r"[^\t]", " ", before[line_start:])
    return SchemaError(f"schema: {message}\n    {line}\n    {indent}{'^' * max(1, len(token.text))} here")


def _read_stray(source: str, position: int) -> str:
    """Returns what to show of an unreadable place: a word such as ``1x``, or one character."""
    word = re.match(r"\w+", source[position:])
    return word[0] if word else source[position]
