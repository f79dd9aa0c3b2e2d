"""The records of a schema and their canonical text."""

import copy
import enum
import pickle

import numpy as np
import pytest

from oplib.library.schema import (
    AliasInfo,
    Argument,
    BaseType,
    EnumDefault,
    FunctionSchema,
    ListType,
    OptionalType,
    Return,
    TupleType,
    fill_defaults,
    has_kwarg_only_args,
    has_kwarg_only_tensors,
    has_tensor,
    is_tensorlist_like_type,
    parse_schema,
)

TENSOR = BaseType("Tensor")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def read_argument(text: str) -> Argument:
    return parse_schema(f"f({text}) -> ()").arguments[0]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f(Tensor x)->Tensor", "f(Tensor x) -> Tensor"),
        (" ns::f.ov ( Tensor(a!) x,*,int y = 3 )->( Tensor (a!) out ,int )",
         "ns::f.ov(Tensor(a!) x, *, int y=3) -> (Tensor(a!) out, int)"),
        ("f(SymInt n, SymInt[2]? m=0) -> ()", "f(int n, int[2]? m=[0, 0]) -> ()"),
        ("f(Tensor?(a!) x) -> ()", "f(Tensor(a!)? x) -> ()"),
        ("f(Tensor?(a!)[] x) -> ()", "f(Tensor(a!)?[] x) -> ()"),
        ("f(Tensor(b|a -> *)[](c)? x) -> Tensor(*)[]", "f(Tensor(a|b -> *)[](c)? x) -> Tensor(*)[]"),
        ("f(Tensor(*!) x) -> ()", "f(Tensor(*!) x) -> ()"),
        ("f(int?? x) -> ()", "f(int? x) -> ()"),
        ("f(int[3][2] x, int?[] y, Tensor?[]? z) -> ()", "f(int[3][2] x, int?[] y, Tensor?[]? z) -> ()"),
        ("f(tuple(int, float) x=(1, 2)) -> ()", "f((int, float) x=(1, 2.)) -> ()"),
        ("f((int) x=(1,)) -> ()", "f((int) x=(1)) -> ()"),
        ("f((Tensor(a), Tensor(b!))[] x) -> ()", "f((Tensor(a), Tensor(b!))[] x) -> ()"),
        ("f(*, *, Tensor x, *) -> ()", "f(*, Tensor x) -> ()"),
        ("f(Tensor x, *) -> ()", "f(Tensor x) -> ()"),
        ("f(int # a comment\n x) -> ()", "f(int x) -> ()"),
        ("f() -> (Tensor)", "f() -> Tensor"),
        ("f() -> ((Tensor))", "f() -> ((Tensor))"),
        ("f() -> ((Tensor, int), float)", "f() -> ((Tensor, int), float)"),
        ("f() -> Tensor y", "f() -> Tensor y"),
        ("f() -> (Tensor[], Tensor?, int[2])", "f() -> (Tensor[], Tensor?, int[2])"),
        ("f(Any x, Generator? g=None, *, complex c, Device d) -> str",
         "f(Any x, Generator? g=None, *, complex c, Device d) -> str"),
        ("f(Tensor self, int lambda, int from) -> ()", "f(Tensor self, int lambda, int from) -> ()"),
    ],
)  # fmt: skip
def test_a_schema_prints_canonically_and_its_text_parses_back(text, canonical):
    assert str(parse_schema(text)) == canonical
    assert parse_schema(canonical) == parse_schema(text)


@pytest.mark.parametrize(
    ("text", "printed", "value"),
    [
        ("int x=-3", "-3", -3),
        ("int x=True", "1", 1),
        ("bool x=True", "True", True),
        ("bool x=0", "False", False),
        ("float x=1", "1.", 1.0),
        ("float x=-1e-3", "-0.001", -0.001),
        ("float x=.5", "0.5", 0.5),
        ("float x=1e20", "1e+20", 1e20),
        ("float x=inf", "inf", float("inf")),
        ("float x=-inf", "-inf", float("-inf")),
        ("complex x=2", "2.+0.j", 2 + 0j),
        ("complex x=1.5-2j", "1.5-2.j", 1.5 - 2j),
        ("complex x=-3j", "0.-3.j", -3j),
        ("Scalar x=1", "1", 1),
        ("Scalar x=True", "True", True),
        ("Scalar x=1j", "0.+1.j", 1j),
        ("str x='a'", '"a"', "a"),
        ("""str x='a"b'""", r'"a\"b"', 'a"b'),
        (r"str x='it\'s\n\\'", r'''"it's\n\\"''', "it's\n\\"),
        ("str x='é\t'", r'"é\t"', "é\t"),
        ("Device x='cpu'", '"cpu"', "cpu"),
        ("ScalarType x=float32", "float32", np.dtype("float32")),
        ("ScalarType x=long", "int64", np.dtype("int64")),
        ("Enum x=Color.RED", "Color.RED", "Color.RED"),
        ("int? x=None", "None", None),
        ("str[] x=['a', \"b\"]", '["a", "b"]', ["a", "b"]),
        ("int[] x=[1,2]", "[1, 2]", [1, 2]),
        ("int[] x=[]", "[]", []),
        ("int[]? x=[1]", "[1]", [1]),
        ("int[2] x=1", "[1, 1]", [1, 1]),
        ("int[2] x=[1,2,3]", "[1, 2, 3]", [1, 2, 3]),
        ("bool[2]? x=True", "[True, True]", [True, True]),
        ("float[] x=[1, 2.5]", "[1., 2.5]", [1.0, 2.5]),
        ("Scalar[] x=[1, 2.5]", "[1, 2.5]", [1, 2.5]),
        ("Tensor[] x=[]", "[]", []),
        ("Tensor? x=None", "None", None),
        ("(int, str) x=(1, 'a')", '(1, "a")', (1, "a")),
        ("(int, int)[] x=[(1, 2)]", "[(1, 2)]", [(1, 2)]),
        ("Any x=3", "3", 3),
        ("Any x='a'", '"a"', "a"),
        ("Any x=None", "None", None),
    ],
)
def test_a_default_has_the_value_of_its_type_and_prints_so_that_it_parses_back(text, printed, value):
    argument = read_argument(text)
    assert argument.has_default_value()
    assert argument.default_value == value
    assert type(argument.default_value) in (type(value), EnumDefault)
    assert str(argument).split("=", 1)[1] == printed
    assert read_argument(str(argument)) == argument


def test_nan_is_a_default_equal_to_itself():
    schema = parse_schema("f(float x=nan, complex y=nan+infj) -> ()")
    assert schema == parse_schema(str(schema))
    assert str(schema.arguments[1]) == "complex y=nan+infj"


@pytest.mark.parametrize(("one", "other"), [("1", "1."), ("1", "True"), ("0.", "-0.")])
def test_defaults_that_python_calls_equal_make_different_schemas(one, other):
    first, second = (parse_schema(f"f(Scalar x={default}) -> ()") for default in (one, other))
    assert first != second


def test_a_list_default_is_fresh_on_every_read():
    argument = read_argument("int[] x=[1, 2]")
    argument.default_value.append(3)
    assert argument.default_value == [1, 2]


def test_an_argument_without_default_reads_none():
    argument = read_argument("int x")
    assert argument.default_value is None
    assert not argument.has_default_value()


def test_a_schema_has_torchs_attributes():
    schema = parse_schema("ns::f.ov(Tensor(a! -> b) x, *, int y=3) -> (Tensor(b) out, int)")
    x, y = schema.arguments
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("ns::f", "ov", True)
    assert (x.name, str(x.type), x.kwarg_only) == ("x", "Tensor", False)
    assert (y.name, str(y.type), y.kwarg_only, y.default_value, y.alias_info) == ("y", "int", True, 3, None)
    assert (x.alias_info.is_write, x.alias_info.before_set, x.alias_info.after_set) == (True, {"a"}, {"b"})
    assert [(r.name, str(r.type)) for r in schema.returns] == [("out", "Tensor"), ("", "int")]


def test_the_mark_of_a_list_element_writes_the_list_and_leaves_its_own_set_empty():
    alias = read_argument("Tensor(c!)[] x").alias_info
    assert alias.is_write
    assert alias.before_set == set()
    assert alias.elements == (AliasInfo(True, frozenset("c")),)


def test_a_mark_without_exclamation_writes_nothing():
    schema = parse_schema("f(Tensor(a) x) -> Tensor(a)")
    assert not schema.is_mutable
    assert not schema.arguments[0].is_written


def test_an_argument_has_the_properties_of_its_type():
    rows = {
        "Tensor(a!) x": "is_tensor has_tensor is_written",
        "Tensor? x": "is_optional_tensor has_tensor",
        "Tensor[] x": "is_tensor_list has_tensor",
        "Tensor?[] x": "is_tensor_list has_tensor",
        "Tensor[]? x": "is_tensor_list has_tensor",
        "Tensor?[]? x": "is_tensor_list has_tensor",
        "Tensor[][] x": "has_tensor",
        "(Tensor, int) x": "has_tensor",
        "int x": "",
    }
    asked = ("is_tensor", "is_optional_tensor", "is_tensor_list", "has_tensor", "is_written")
    for text, expected in rows.items():
        argument = read_argument(text)
        assert " ".join(name for name in asked if getattr(argument, name)) == expected, text


def test_the_four_lists_of_tensors_are_recognized():
    optional = OptionalType(TENSOR)
    alike = [
        ListType(TENSOR),
        ListType(optional),
        OptionalType(ListType(TENSOR)),
        OptionalType(ListType(optional)),
    ]
    assert all(map(is_tensorlist_like_type, alike))
    others = [TENSOR, optional, ListType(BaseType("int")), ListType(ListType(TENSOR)), TupleType((TENSOR,))]
    assert not any(map(is_tensorlist_like_type, others))
    assert not has_tensor(ListType(BaseType("int")))


def test_a_schema_is_hashable_picklable_and_copyable():
    schema = parse_schema("ns::f.ov(Tensor(a!)[] x, float y=nan, *, ScalarType d=bfloat16) -> (Tensor, int)")
    assert schema.is_mutable  # cached values must not get in the way
    for copied in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema), parse_schema(str(schema))):
        assert copied == schema
        assert hash(copied) == hash(schema)


def test_a_missing_default_survives_pickling():
    argument = pickle.loads(pickle.dumps(read_argument("int x")))
    assert not argument.has_default_value()


def test_a_schema_cannot_be_changed():
    schema = parse_schema("f(Tensor x) -> Tensor")
    with pytest.raises(AttributeError):
        schema.name = "g"
    with pytest.raises(AttributeError):
        schema.arguments[0].name = "y"


def test_schemas_built_by_hand_equal_parsed_ones():
    built = FunctionSchema(
        "f",
        "",
        (Argument("x", TENSOR), Argument("n", ListType(BaseType("int"), 2), [1, 2])),
        (Return(TENSOR),),
    )
    assert built == parse_schema("f(Tensor x, int[2] n=[1, 2]) -> Tensor")


def test_an_enum_member_prints_as_its_class_and_name():
    argument = Argument("x", BaseType("Enum", tuple(Color)), Color.RED)
    assert str(argument) == "Enum x=Color.RED"
    assert argument.default_value is Color.RED
    assert read_argument(str(argument)) == argument


def test_choices_are_no_part_of_equality():
    assert BaseType("str", ("a", "b")) == BaseType("str")


def test_fill_defaults_completes_positional_and_keyword_only_arguments():
    schema = parse_schema("f(int a, int b=2, *, int k=3, int m=4) -> ()")
    assert fill_defaults(schema, (1,), {}) == ((1, 2), {"k": 3, "m": 4})
    assert fill_defaults(schema, (1, 5), {"m": 6}) == ((1, 5), {"k": 3, "m": 6})


def test_keyword_only_arguments_and_tensors_are_found():
    assert not has_kwarg_only_args(parse_schema("f(Tensor x) -> ()"))
    assert has_kwarg_only_args(parse_schema("f(Tensor x, *, int k) -> ()"))
    assert not has_kwarg_only_tensors(parse_schema("f(Tensor x, *, int k) -> ()"))
    for kind in ("Tensor", "Tensor?", "Tensor[]"):
        assert has_kwarg_only_tensors(parse_schema(f"f(*, {kind} k) -> ()"))


def test_a_result_names_the_written_argument_that_it_returns():
    schema = parse_schema(
        "f(Tensor(a!) x, Tensor(b) y, Tensor(c!) z) -> (Tensor(c!), Tensor(b), Tensor, Tensor(a!))"
    )
    assert schema.returned_arguments == (2, None, None, 0)
