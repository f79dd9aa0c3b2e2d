"""A reader of the tokens of a schema: the current position, and the steps forward."""

from __future__ import annotations

import keyword
from typing import NoReturn

from .lexer import Token, make_error, read_tokens

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
        found = self.at(mark)
        self.position += found
        return found

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

    def fail(self, expected: str, cure: str = "") -> NoReturn:
        """Raises an error at the next token."""
        self.refuse(self.token, f"expected {expected} but found {self.token}.{' ' * bool(cure)}{cure}")

    def refuse(self, token: Token, message: str) -> NoReturn:
        """Raises an error at a given token."""
        raise make_error(self.source, token, message)
