"""A position in the tokens of a schema, and the ways forward from it."""

from __future__ import annotations

import keyword
from typing import NoReturn

from .lexer import Token, make_error, read_tokens

# as in torch: its own schemas use some words of Python as names (`from`), its lexer keeps the others
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
        """Tells whether the next token is this mark, or of this kind."""
        token = self.token
        return token.text == kind if token.kind == "mark" else token.kind == kind

    def advance(self) -> Token:
        """Returns the next token and goes past it."""
        token = self.token
        self.position += 1
        return token

    def take(self, mark: str) -> bool:
        """Goes past the next token if it is this mark, and tells whether it was."""
        found = self.at(mark)
        self.position += found
        return found

    def expect(self, mark: str, *, also: str = "") -> Token:
        """Goes past this mark, or raises; ``also`` is a mark that would have been right too."""
        if not self.at(mark):
            self.fail(f"'{mark}' or '{also}'" if also else f"'{mark}'")
        return self.advance()

    def read_name(self, what: str) -> Token:
        """Goes past a name, or raises; ``what`` says whose name it is."""
        if not self.at("name") or self.token.text in _RESERVED:
            self.fail(what)
        return self.advance()

    def fail(self, expected: str, cure: str = "") -> NoReturn:
        """Raises at the next token."""
        self.refuse(self.token, f"expected {expected} but found {self.token}.{' ' * bool(cure)}{cure}")

    def refuse(self, token: Token, message: str) -> NoReturn:
        """Raises at any token."""
        raise make_error(self.source, token, message)
