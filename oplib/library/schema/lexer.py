"""The tokens of the schema language, and the error that points at a token."""

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
    """Returns an error that shows the line of the schema with a caret under the token.

    Args:
        source: the schema's text.
        token: the token to point at.
        message: the expectation, the token that was found, and the cure.
    """
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
