"""The grammar of schemas, by recursive descent.

schema    = name ["." overload] "(" [argument {"," argument}] ")" "->" returns
argument  = "*" | type ["*"] name ["=" default]
returns   = "(" [return {"," return}] ")" | return
return    = type [name]
type      = (base | "(" type {"," type} ")") [mark] {("?" | "[" [number] "]") [mark]}
mark      = "(" sets ["!"] ["->" sets] ")",   sets = set {"|" set},   set = name | "*"
"""

from __future__ import annotations

import difflib
from typing import NoReturn

from oplib.tracebacks import entry_point

from .defaults import DefaultReader
from .function_schema import NO_DEFAULT, Argument, FunctionSchema, Return
from .reader import END, Token
from .types import BASE_TYPES, AliasInfo, BaseType, ListType, OptionalType, SchemaType, TupleType

_SYNONYMS = {"SymInt": "int"}
_HINTS = {
    "int64_t": "Use `SymInt` or `int`",
    "int32_t": "Use `int`",
    "long": "Use `int`",
    "double": "Use `float`",
    "string": "Use `str`",
    "number": "Use `Scalar`",
    "Number": "Use `Scalar`",
    "dtype": "Use `ScalarType`",
    "List": "Use `[]` behind the element's type",
    "Optional": "Use `?` behind the type",
    "PyObject": "Use `Enum` for a member of an enum, otherwise `Any`",
    "Array": "Use `Tensor`",
}
_REFUSED = frozenset({"Layout", "MemoryFormat", "Stream", "Dict", "Future", "Storage", "QScheme", "SymBool"})

Marked = tuple[SchemaType, AliasInfo | None]


@entry_point
def parse_schema(text: str) -> FunctionSchema:
    """Parses a schema.

    Args:
        text: ``ns::name.overload(type name=default, *, type name) -> type``; the namespace, the overload and
            the blanks are optional.

    Returns:
        The schema; printing it gives the canonical text.

    Raises:
        SchemaError: the text does not parse, or contradicts itself: two arguments with one name, a positional
            argument without a default after one with a default, a default that does not fit its type, an
            overload called ``default``. The message shows the place.

    Source:
        torch's schema language. Tuples, ``str[]``, ``Tensor[]?``, ``Enum`` and dtype names are additions.

    Example:
        >>> schema = parse_schema("demo::scale(Tensor x,float by=2,*,int[2] pad=0)->Tensor")
        >>> print(schema)
        demo::scale(Tensor x, float by=2., *, int[2] pad=[0, 0]) -> Tensor
        >>> schema.arguments[2].default_value
        [0, 0]
    """
    return Parser(text).read_schema()


class Parser(DefaultReader):
    """Reads one schema, token by token."""

    def read_schema(self) -> FunctionSchema:
        """Reads the whole text, or raises."""
        name = self._read_qualified_name()
        overload = self._read_overload() if self.take(".") else ""
        if self.at(END):
            self.fail(
                "'(' and the arguments", "A schema is name(arguments) -> returns, and only the name is here."
            )
        if not self.at("("):
            self.fail("'('", "The parts of a name are identifiers, of letters, digits and underscores.")
        arguments = self._read_arguments()
        self.expect("->")
        returns = self._read_returns()
        if not self.at(END):
            self.fail(END)
        return FunctionSchema(name, overload, arguments, returns)

    def _read_qualified_name(self) -> str:
        first = self.read_name("the name of an op").text
        return f"{first}::{self.read_name('the name of an op').text}" if self.take("::") else first

    def _read_overload(self) -> str:
        token = self.read_name("the name of an overload")
        if token.text == "default" or (token.text.startswith("__") and token.text.endswith("__")):
            self.refuse(
                token, f"{token} is not a legal overload name. The overload without a name is the default."
            )
        return token.text

    def _read_arguments(self) -> tuple[Argument, ...]:
        self.expect("(")
        arguments: list[Argument] = []
        keyword_only = False
        while not self.take(")"):
            if arguments or keyword_only:
                self.expect(",", also=")")
            if self.take("*"):
                keyword_only = True
            elif self.at("..."):
                self.refuse(
                    self.token, "expected an argument but found '...'. Variadic arguments are not supported."
                )
            else:
                arguments.append(self._read_argument(arguments, kwarg_only=keyword_only))
        return tuple(arguments)

    def _read_argument(self, before: list[Argument], *, kwarg_only: bool) -> Argument:
        type_, alias = self._read_type()
        variadic = self.take("*")
        token = self.read_name("the name of an argument")
        self._check_variadic(token, type_, before, variadic=variadic, kwarg_only=kwarg_only)
        if any(argument.name == token.text for argument in before):
            self.refuse(token, f"there are two arguments {token}. Rename one.")
        default = self.read_default(type_) if self.take("=") else NO_DEFAULT
        if (
            default is NO_DEFAULT
            and not (kwarg_only or variadic)
            and before
            and before[-1].has_default_value()
        ):
            self.refuse(
                token,
                f"Non-default positional argument {token} follows '{before[-1]}'. "
                "Give it a default, move it forward, or put `*` before it.",
            )
        return Argument(token.text, type_, default, kwarg_only, alias, variadic)

    def _check_variadic(
        self, token: Token, type_: SchemaType, before: list[Argument], *, variadic: bool, kwarg_only: bool
    ) -> None:
        if variadic and (kwarg_only or not isinstance(type_, ListType)):
            self.refuse(
                token, f"*{token.text} takes further positional arguments. Make it a list before `*`."
            )
        if not kwarg_only and before and before[-1].is_variadic:
            self.refuse(token, f"{token} follows '{before[-1]}', which takes all. Put `*` before it.")

    def _read_returns(self) -> tuple[Return, ...]:
        if not self.take("("):
            return (self._read_return(),)
        return tuple(self.read_items(")", self._read_return))

    def _read_return(self) -> Return:
        if self.at("..."):
            self.refuse(self.token, "expected a type but found '...'. Variadic returns are not supported.")
        type_, alias = self._read_type()
        return Return(type_, self.read_name("a name").text if self.at("name") else "", alias)

    def _read_type(self) -> Marked:
        type_, alias = self._read_tuple_type() if self.at("(") else self._read_base_type()
        alias = self._read_mark(alias)
        while True:
            if self.take("?"):
                type_ = type_ if isinstance(type_, OptionalType) else OptionalType(type_)
            elif self.take("["):
                type_, alias = ListType(type_, self._read_size()), _mark_container((alias,))
            else:
                return type_, alias
            alias = self._read_mark(alias)

    def _read_base_type(self) -> Marked:
        token = self.token
        if token.text == "tuple" and self.tokens[self.position + 1].text == "(":
            self.advance()
            return self._read_tuple_type()
        name = self.read_name("a type").text
        name = _SYNONYMS.get(name, name)
        if name not in BASE_TYPES:
            self._refuse_type(token)
        return BaseType(name), None

    def _refuse_type(self, token: Token) -> NoReturn:
        if token.text in _REFUSED:
            self.refuse(
                token, f"type {token} is not supported: JAX has no counterpart of it. Remove the argument."
            )
        near = difflib.get_close_matches(token.text, BASE_TYPES, 1, 0.7)
        hint = _HINTS.get(token.text) or (
            f"Use `{near[0]}`" if near else f"Types are {', '.join(BASE_TYPES)}"
        )
        self.refuse(token, f"unknown type specifier {token}. {hint}.")

    def _read_tuple_type(self) -> Marked:
        self.expect("(")
        read = [self._read_type()]
        while not self.take(")"):
            self.expect(",", also=")")
            read.append(self._read_type())
        types, marks = zip(*read, strict=True)
        return TupleType(types), _mark_container(marks)

    def _read_size(self) -> int | None:
        if self.take("]"):
            return None
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            self.fail("the length of the list, or ']'")
        self.advance()
        self.expect("]")
        return int(token.text)

    def _read_mark(self, alias: AliasInfo | None) -> AliasInfo | None:
        token = self.token
        if not self.take("("):
            return alias
        if alias is not None and alias.before_set:
            self.refuse(token, "expected a name but found a second alias mark. One mark fits one type.")
        before = self._read_alias_sets()
        is_write = self.take("!")
        after = self._read_alias_sets() if self.take("->") else before
        self.expect(")")
        return AliasInfo(is_write, before, after, () if alias is None else alias.elements)

    def _read_alias_sets(self) -> frozenset[str]:
        names = {self._read_alias_set()}
        while self.take("|"):
            names.add(self._read_alias_set())
        return frozenset(names)

    def _read_alias_set(self) -> str:
        return "*" if self.take("*") else self.read_name("the name of an alias set").text


def _mark_container(marks: tuple[AliasInfo | None, ...]) -> AliasInfo | None:
    """Returns the mark of a list or tuple whose elements have marks; None if they have none."""
    if all(mark is None for mark in marks):
        return None
    is_write = any(mark is not None and mark.is_write for mark in marks)
    return AliasInfo(is_write, frozenset(), elements=marks)
