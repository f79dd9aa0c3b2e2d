"""Every schema equals the schema that its text parses to."""

import math
import pickle

import ml_dtypes  # noqa: F401  names bfloat16 for numpy
import numpy as np
from hypothesis import given, settings, strategies as st

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
    parse_schema,
)

NAMES = st.sampled_from(["x", "y", "self", "weight_2", "_p", "Tensor", "inf", "tuple", "größe"])
BASES = st.sampled_from(
    ["Tensor", "int", "float", "bool", "str", "complex", "Scalar", "ScalarType", "Device", "Enum"]
)
INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = {"int": INT64, "float": st.floats(), "bool": st.booleans(), "complex": st.complex_numbers()}
VALUES = {
    **NUMBERS,
    "str": st.text(),
    "Device": st.text(),
    "Scalar": st.one_of(*NUMBERS.values()),
    "ScalarType": st.sampled_from(["float32", "bfloat16", "int64", "bool", "complex64"]).map(np.dtype),
    "Enum": st.just(EnumDefault("Color.RED")),
}
TYPES = st.recursive(
    BASES.map(BaseType),
    lambda inner: st.one_of(
        inner.filter(lambda type_: not isinstance(type_, OptionalType)).map(OptionalType),
        st.builds(ListType, inner, st.none() | st.integers(0, 3)),
        st.lists(inner, min_size=1, max_size=3).map(lambda types: TupleType(tuple(types))),
    ),
    max_leaves=4,
)
SETS = st.frozensets(st.sampled_from(["a", "b0", "*"]), min_size=1)


@st.composite
def marks(draw, type_):
    """Returns a mark that the grammar allows on this type, or None."""
    if isinstance(type_, OptionalType):
        return draw(marks(type_.element))
    parts = {ListType: lambda: (type_.element,), TupleType: lambda: type_.elements}.get(
        type(type_), lambda: ()
    )()
    elements = tuple(draw(marks(part)) for part in parts)
    if all(element is None for element in elements):
        elements = ()
    if draw(st.booleans()):
        return AliasInfo(draw(st.booleans()), draw(SETS), draw(SETS), elements)
    written = any(element is not None and element.is_write for element in elements)
    return AliasInfo(written, frozenset(), elements=elements) if elements else None


@st.composite
def defaults(draw, type_):
    if isinstance(type_, OptionalType):
        return None if draw(st.booleans()) else draw(defaults(type_.element))
    if isinstance(type_, ListType):
        lengths = [0] if "Tensor" in str(type_.element) else [0, 1, 2]
        return tuple(draw(defaults(type_.element)) for _ in range(draw(st.sampled_from(lengths))))
    if isinstance(type_, TupleType):
        return tuple(draw(defaults(element)) for element in type_.elements)
    return draw(VALUES[type_.name])


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    num_positional = draw(st.integers(0, len(names)))
    arguments, needs_default = [], False
    for place, name in enumerate(names):
        kwarg_only = place >= num_positional
        type_ = draw(
            TYPES if not needs_default or kwarg_only else TYPES.filter(lambda t: "Tensor" not in str(t))
        )
        can_default = "Tensor" not in str(type_)
        options = [Argument(name, type_, kwarg_only=kwarg_only, alias_info=draw(marks(type_)))]
        if can_default and (draw(st.booleans()) or (needs_default and not kwarg_only)):
            options = [Argument(name, type_, draw(defaults(type_)), kwarg_only, options[0].alias_info)]
            needs_default = True
        arguments += options
    returned = draw(st.lists(TYPES, max_size=3))
    returns = [Return(type_, draw(st.just("") | NAMES), draw(marks(type_))) for type_ in returned]
    return FunctionSchema(
        draw(st.sampled_from(["f", "ns::f", "_a::b_"])),
        draw(st.sampled_from(["", "ov"])),
        tuple(arguments),
        tuple(returns),
    )


@settings(max_examples=60, deadline=None)
@given(schemas())
def test_parsing_the_text_of_a_schema_gives_the_schema(schema):
    parsed = parse_schema(str(schema))
    assert parsed == schema
    assert str(parsed) == str(schema)
    assert hash(parsed) == hash(schema)
    assert pickle.loads(pickle.dumps(schema)) == schema


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("f(ab Tensorint[]?*,=!|->.:1\"')\n"), max_size=40))
def test_any_text_either_parses_or_raises_a_schema_error(text):
    try:
        parse_schema(text)
    except RuntimeError as error:
        assert str(error).startswith("schema: ")  # noqa: PT017  hypothesis wants one body


@settings(max_examples=60, deadline=None)
@given(st.floats())
def test_floats_keep_their_bits(value):
    read = parse_schema(
        str(FunctionSchema("f", "", (Argument("x", BaseType("float"), value),), ()))
    ).arguments[0]
    assert math.isnan(read.default_value) if math.isnan(value) else read.default_value.hex() == value.hex()
