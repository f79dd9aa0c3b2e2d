"""Schemas that do not parse, and their errors."""

import pytest

from oplib.errors import SchemaError
from oplib.library.schema import parse_schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of an op but found end of text"),
        ("()->()", "expected the name of an op but found '('"),
        ("1x()->()", "found '1x'"),
        ("a-b()->()", "expected '(' but found '-'"),
        ("x.y.z()->()", "expected '(' but found '.'"),
        ("a::b::c()->()", "expected '(' but found '::'"),
        ("f.default()->()", "'default' is not a legal overload name"),
        ("f.__a__()->()", "'__a__' is not a legal overload name"),
        ("f", "only the name is here"),
        ("f(Tensor x", "expected ',' or ')' but found end of text"),
        ("f(Tensor)->()", "expected the name of an argument but found ')'"),
        ("f(Tensor x)", "expected '->' but found end of text"),
        ("f(Tensor x) - > Tensor", "but found '>'"),
        ("f(Tensor x,)->()", "expected a type but found ')'"),
        ("f()->(Tensor,)", "expected a type but found ')'"),
        ("f()->()?", "expected end of text but found '?'"),
        ("f()->(Tensor)[]", "expected end of text but found '['"),
        ("f(class x)->()", "expected a type but found 'class'"),
        ("f(int class)->()", "expected the name of an argument but found 'class'"),
        ("f(Tensor x, ...)->()", "Variadic arguments are not supported"),
        ("f()-> ...", "Variadic returns are not supported"),
        ("f(Tensor(!) x)->()", "expected the name of an alias set but found '!'"),
        ("f(Tensor(a! x)->()", "expected ')' but found 'x'"),
        ("f(Tensor(a, b) x)->()", "expected ')' but found ','"),
        ("f(Tensor(a)?(b) x)->()", "second alias mark"),
        ("f(int[-1] x)->()", "expected the length of the list, or ']' but found '-'"),
        ("f(() x)->()", "expected a type but found ')'"),
        ("f(Tensor x, int x)->()", "there are two arguments 'x'"),
        ("f(int x=1, int y)->()", "Non-default positional argument 'y' follows 'int x=1'"),
        ("f(int x='a)->()", "but found '''"),
    ],
)
def test_the_error_names_the_expected_and_the_found_token(text, message):
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("int64_t", "Use `SymInt` or `int`"),
        ("double", "Use `float`"),
        ("number", "Use `Scalar`"),
        ("tensor", "Use `Tensor`"),
        ("PyObject", "Use `Enum`"),
        ("t", "unknown type specifier 't'. Types are Tensor, int,"),
        ("Layout", "type 'Layout' is not supported"),
        ("MemoryFormat", "type 'MemoryFormat' is not supported"),
        ("Stream", "type 'Stream' is not supported"),
        ("Dict(str, Tensor)", "type 'Dict' is not supported"),
    ],
)
def test_an_unknown_type_is_refused_with_the_cure(type_, message):
    with pytest.raises(SchemaError) as caught:
        parse_schema(f"f({type_} x) -> ()")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("int x=abc", "invalid numeric default value"),
        ("bool x=true", "invalid numeric default value"),
        ("int x=+3", "invalid numeric default value"),
        ("complex x=1+2", "invalid numeric default value"),
        ("int x=1.5", "default 1.5 does not fit type 'int'"),
        ("int x=99999999999999999999", "does not fit type 'int'"),
        ("bool x=2", "default 2 does not fit type 'bool'"),
        ("float x=1j", "does not fit type 'float'"),
        ("float x=True", "default True does not fit type 'float'"),
        ("int x=None", "Write `?` behind the type"),
        ("int[] x=None", "expected '[' but found 'None'"),
        ("int[] x=3", "expected '[' but found '3'"),
        ("str x=3", "expected a string in quotes but found '3'"),
        ("str[2] x='a'", "expected '[' but found"),
        ("Device x=cpu", "expected a string in quotes but found 'cpu'"),
        ("ScalarType x=foo", "there is no dtype 'foo'"),
        ("Enum x=RED", "expected '.' but found ')'"),
        ("Tensor x=None", "a Tensor has no default"),
        ("Tensor? x=3", "a Tensor has no default"),
        ("(int, int) x=(1)", "expected ',' but found ')'"),
        ("(int, int) x=3", "expected '(' but found '3'"),
    ],
)
def test_a_default_that_does_not_fit_its_type_is_refused(argument, message):
    with pytest.raises(SchemaError) as caught:
        parse_schema(f"f({argument}) -> ()")
    assert message in str(caught.value)


def test_an_error_points_at_the_place():
    with pytest.raises(SchemaError) as caught:
        parse_schema("f(Tensor x,\n\tdouble y) -> Tensor")
    assert str(caught.value).splitlines() == [
        "schema: unknown type specifier 'double'. Use `float`.",
        "    \tdouble y) -> Tensor",
        "    \t^^^^^^ here",
    ]


def test_a_schema_error_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="expected a type but found end of text"):
        parse_schema("f(")
