"""Schemas that do not parse, and their errors."""

import pytest

import oplib
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
        ("f", "expected '(' but found end of text. The parts of a name"),
        ("f(Tensor x", "expected ',' or ')' but found end of text"),
        ("f(Tensor)->()", "expected the name of an argument but found ')'"),
        ("f(Tensor x)", "expected '->' but found end of text"),
        ("f(Tensor x) - > Tensor", "expected '->' but found '-'"),
        ("f(Tensor x,)->()", "expected a type but found ')'"),
        ("f()->(Tensor,)", "expected a type but found ')'"),
        ("f()->()?", "expected end of text but found '?'"),
        ("f()->(Tensor)[]", "expected end of text but found '['"),
        ("f(class x)->()", "expected a type but found 'class'"),
        ("f(int class)->()", "expected the name of an argument but found 'class'"),
        ("f(Tensor x, ...)->()", "expected a type but found '...'"),
        ("f()-> ...", "expected a type but found '...'"),
        ("f(Tensor(!) x)->()", "expected the name of an alias set but found '!'"),
        ("f(Tensor(a! x)->()", "expected ')' but found 'x'"),
        ("f(Tensor(a, b) x)->()", "expected ')' but found ','"),
        ("f(Tensor(a)?(b) x)->()", "second alias mark"),
        ("f(int[-1] x)->()", "expected the length of the list, or ']' but found '-'"),
        ("f(() x)->()", "expected a type but found ')'"),
        ("f(tuple Tensor x)->()", "expected '(' but found 'Tensor'"),
        ("f()->tuple", "expected '(' but found end of text"),
        ("f(Tensor x, int x)->()", "there are two arguments 'x'"),
        ("f(int x=1, int y)->()", "Non-default positional argument 'y' follows one with a default, 'x'"),
        ("f(int x='a)->()", "default 'a does not fit type 'int'"),
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
        ("int x=abc", "default abc does not fit type 'int'"),
        ("bool x=true", "default true does not fit type 'bool'"),
        ("int x=+3", "default +3 does not fit type 'int'"),
        ("complex x=1+2", "default 1+2 does not fit type 'complex'"),
        ("int x=1.5", "default 1.5 does not fit type 'int'"),
        ("int x=99999999999999999999", "does not fit type 'int'"),
        ("bool x=2", "default 2 does not fit type 'bool'"),
        ("float x=1j", "does not fit type 'float'"),
        ("float x=True", "default True does not fit type 'float'"),
        ("int x=None", "Write `?` behind the type"),
        ("int[] x=None", "expected '[' but found 'None'"),
        ("int[] x=3", "expected '[' but found '3'"),
        ("str x=3", "default 3 does not fit type 'str'. Write a string in quotes"),
        ("str[2] x='a'", "expected '[' but found"),
        ("Device x=cpu", "default cpu does not fit type 'Device'. Write a string in quotes"),
        ("ScalarType x=foo", "default foo does not fit type 'ScalarType'. Write float32"),
        ("Enum x=RED", "Write a member such as Color.RED"),
        ("Enum x=Color.1", "default Color does not fit type 'Enum'"),
        ("int x=", "default  does not fit type 'int'"),
        ("int x=1 2", "expected ',' or ')' but found '2'"),
        ("float x=1. 5", "expected ',' or ')' but found '5'"),
        ("float x=1 1_0", "expected ',' or ')' but found '1_0'"),
        ("str x='a' 'b'", "expected ',' or ')' but found ''b''"),
        ("bool x=Tr ue", "default Tr does not fit type 'bool'"),
        ("float x='1'", "default '1' does not fit type 'float'"),
        ("Any x=abc", "default abc does not fit type 'Any'"),
        ("Tensor x=None", "Write `?` behind the type to allow None"),
        ("Tensor? x=3", "The only default is None"),
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


@pytest.mark.parametrize(
    "text",
    [
        "f" + "(" * 100_000,
        "f() -> " + "(" * 20_000,
        "f(int" + "[]" * 20_000 + " x) -> ()",
        "f(" + "(" * 20_000 + "int" + ")" * 20_000 + " x) -> ()",
    ],
)
def test_types_that_nest_too_deeply_are_refused_in_few_characters(text):
    with pytest.raises(SchemaError, match="types nest too deeply") as caught:
        parse_schema(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "f" * 100_000,
        f"f({'x' * 100_000} y) -> ()",
        f"f(int {'x' * 100_000}=1, int y) -> ()",
        f"f(int x={'9' * 10_000}) -> ()",
        f"f(str x={'9, ' * 30_000}",
        f"f(Tensor x) -> Tensor{' ' * 100_000}]",
        f"f(Tensor x) -> Tensor{',' * 100_000}",
    ],
)
def test_an_error_about_a_long_text_shows_the_part_around_its_place(text):
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    message, line, place = str(caught.value).split("\n")
    assert len(message) < 250
    assert len(line) <= 200
    assert len(place) <= 200
    assert place.endswith("^ here")


@pytest.mark.parametrize("name", ["__name__", "__all__", "__x__", "__getattr__"])
def test_a_namespace_with_a_name_of_python_is_refused(name, forget_ops):
    with pytest.raises(SchemaError, match=f"'{name}' is not a legal namespace"):
        parse_schema(f"{name}::f()->()")
    with pytest.raises(SchemaError, match=f"'{name}' is not a legal namespace"):
        oplib.library.custom_op(f"{name}::f", mutates_args=())(keep)
    assert str(parse_schema(f"ns::{name}()->()")) == f"ns::{name}() -> ()"


def keep(x: oplib.Tensor) -> oplib.Tensor:
    return x.clone()


@pytest.mark.parametrize("name", ["__dict__", "__class__", "__weakref__"])
@pytest.mark.parametrize("form", ["{}()->()", "ns::{}()->()", "{}::f()->()", "ns::f.{}()->()"])
def test_names_of_attributes_of_python_are_refused(name, form):
    with pytest.raises(SchemaError, match=f"'{name}' is not a legal"):
        parse_schema(form.format(name))
