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

from oplib.tracebacks import entry_point

from .defaults import read_default
from .function_schema import NO_DEFAULT, Argument, FunctionSchema, Return
from .reader import TokenReader, shorten
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
    parser = _Parser(text)
    try:
        schema = parser.read_schema()
        str(schema)  # a type that nests too deeply to be printed is refused too
    except RecursionError:
        parser.refuse("types nest too deeply. Flatten them.")
    return schema


class _Parser(TokenReader):
    """Reads one schema, token by token."""

    def read_schema(self) -> FunctionSchema:
        """Reads the whole text, or raises."""
        name = self._read_op_name()
        if self.at("::") and name.startswith("__") and name.endswith("__"):
            self.position -= 1
            self.refuse(
                f"{self.found} is not a legal namespace: Python has its own use of such names. Rename it."
            )
        if self.take("::"):
            name += f"::{self._read_op_name()}"
        overload = self._read_overload() if self.take(".") else ""
        if not self.at("("):
            self.refuse(
                f"expected '(' but found {self.found}. The parts of a name are identifiers, of letters, "
                "digits and underscores. A schema is name(arguments) -> returns."
            )
        self._arguments: list[Argument] = []
        self._is_keyword_only = False
        self.expect("(")
        self.read_items(")", self._read_argument)
        self.expect("->")
        is_tuple = self.take("(")
        returns = self.read_items(")", self._read_return) if is_tuple else [self._read_return()]
        if self.text:
            self.fail("end of text")
        return FunctionSchema(name, overload, tuple(self._arguments), tuple(returns))

    def _read_op_name(self) -> str:
        if self.text.startswith("__") and hasattr(self, self.text):  # a namespace has such attributes too
            self.refuse(f"{self.found} is not a legal name, since each object of Python has it. Rename it.")
        return self.read_name("the name of an op")

    def _read_overload(self) -> str:
        if self.at("default") or (self.text.startswith("__") and self.text.endswith("__")):
            self.refuse(
                f"{self.found} is not a legal overload name. The overload without a name is the default."
            )
        return self.read_name("the name of an overload")

    def _read_argument(self) -> None:
        if self.take("*"):
            self._is_keyword_only = True
            return
        type_, alias = self._read_type()
        variadic, before, keyword_only = self.take("*"), self._arguments[-1:], self._is_keyword_only
        name = self.text
        if variadic and (keyword_only or not isinstance(type_, ListType)):
            self.refuse(f"*{self.found} takes further positional arguments. Make it a list before `*`.")
        if before and before[0].is_variadic and not keyword_only:
            self.refuse(f"{self.found} follows one that takes all. Put `*` before it.")
        if any(argument.name == name for argument in self._arguments):
            self.refuse(f"there are two arguments {self.found}. Rename one.")
        place = self.position
        self.read_name("the name of an argument")
        default = read_default(self, type_) if self.take("=") else NO_DEFAULT
        needs_default = bool(before) and before[0].has_default_value() and not (keyword_only or variadic)
        if needs_default and default is NO_DEFAULT:
            self.position = place
            self.refuse(
                f"Non-default positional argument {self.found} follows one with a default, "
                f"'{shorten(before[0].name)}'. Give it a default, move it forward, or put `*` before it."
            )
        self._arguments.append(Argument(name, type_, default, keyword_only, alias, variadic))

    def _read_return(self) -> Return:
        type_, alias = self._read_type()
        return Return(type_, self.read_name("a name") if self.kind == "name" else "", alias)

    def _read_type(self) -> Marked:
        if self.take("tuple") or self.at("("):
            self.expect("(")
            marked = [self._read_type()] if self.at(")") else self.read_items(")", self._read_type)
            types, marks = zip(*marked, strict=True)
            type_, alias = TupleType(types), _mark_container(marks)
        else:
            type_, alias = self._read_base_type(), None
        while True:
            alias = self._read_mark(alias)
            if self.take("?"):
                type_ = type_ if isinstance(type_, OptionalType) else OptionalType(type_)
            elif self.take("["):
                size = None if self.at("]") else self._read_size()
                self.expect("]")
                type_, alias = ListType(type_, size), _mark_container((alias,))
            else:
                return type_, alias

    def _read_base_type(self) -> SchemaType:
        written = self.read_name("a type")
        name = _SYNONYMS.get(written, written)
        if name in BASE_TYPES:
            return BaseType(name)
        self.position -= 1
        if name in _REFUSED:
            self.refuse(f"type {self.found} is not supported: JAX has no counterpart of it. Remove it.")
        near = difflib.get_close_matches(name, BASE_TYPES, 1, 0.7)
        hint = _HINTS.get(name) or (f"Use `{near[0]}`" if near else f"Types are {', '.join(BASE_TYPES)}")
        return self.refuse(f"unknown type specifier {self.found}. {hint}.")

    def _read_size(self) -> int:
        if not self.text.isdecimal():
            self.fail("the length of the list, or ']'")
        return int(self.advance())

    def _read_mark(self, alias: AliasInfo | None) -> AliasInfo | None:
        if not self.at("("):
            return alias
        if alias is not None and alias.before_set:
            self.refuse("expected a name but found a second alias mark. One mark fits one type.")
        self.expect("(")
        before = self._read_alias_sets()
        is_write = self.take("!")
        after = self._read_alias_sets() if self.take("->") else before
        self.expect(")")
        return AliasInfo(is_write, before, after, () if alias is None else alias.elements)

    def _read_alias_sets(self) -> frozenset[str]:
        names: set[str] = set()
        while not names or self.take("|"):
            names.add("*" if self.take("*") else self.read_name("the name of an alias set"))
        return frozenset(names)


def _mark_container(marks: tuple[AliasInfo | None, ...]) -> AliasInfo | None:
    """Returns the mark of a list or tuple whose elements have marks; None if they have none."""
    if all(mark is None for mark in marks):
        return None
    is_write = any(mark is not None and mark.is_write for mark in marks)
    return AliasInfo(is_write, frozenset(), elements=marks)
