"""The docstrings of functions that are generated from rows."""

import doctest
import inspect
import re

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.builtin.public_functions.description import describe_dtypes
from oplib.builtin.public_functions.examples import read_examples
from oplib.builtin.public_functions.explanations import read_meanings
from oplib.builtin.public_functions.families import ROWS
from oplib.builtin.public_functions.registry import (
    FFT,
    FUNCTIONS,
    LINALG,
    METHODS,
    NETWORKS,
    OVERLOADS,
    SPECIAL,
    UPCALLS,
)
from oplib.builtin.rows.parameters import takes_further_names
from oplib.library.schema import parse_schema
from oplib.tensor import Tensor

EXAMPLES = read_examples()
GIVING_BOOLS = {row.op for row in ROWS if row.result == "bools"}
GIVING_FLOATS = {row.op for row in ROWS if row.result == "floats"}
KEEPING_SHAPE = {row.op for row in ROWS if row.result == "shape"}

SECTIONS = ("Args:", "Returns:", "Raises:", "Gradient:", "Source:", "Overloads:")
PUBLIC = [
    (table, name)
    for table in (FUNCTIONS, LINALG, FFT, SPECIAL)
    for name in table
    if name in OVERLOADS.list_ops()
]
SHOWN = {
    op
    for table in (FUNCTIONS, LINALG, FFT, SPECIAL, METHODS, NETWORKS)
    for _, op in table.keys_by_name.values()
}
ABSTRACT = [jax.ShapeDtypeStruct((2, 3), jnp.int32)] * 2


@pytest.fixture(scope="module")
def docs() -> dict[str, str]:
    functions = {name: table[name] for table, name in PUBLIC}
    return {
        name: inspect.getdoc(one) or "" for name, one in functions.items() if "\nOverloads:\n" in one.__doc__
    }


def list_names(name):
    function = next(table[name] for table, one in PUBLIC if one == name)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if not takes_further_names(one)]


def test_each_function_of_a_table_tells_all_sections_in_this_order(docs):
    wrong = [
        name
        for name, text in docs.items()
        if -1 in (places := [text.find(f"\n{section}\n") for section in SECTIONS]) or places != sorted(places)
    ]
    assert len(docs) > 280
    assert not wrong


def test_each_parameter_of_a_function_of_a_table_is_described(docs):
    missing = [
        (name, one) for name, text in docs.items() for one in list_names(name) if f"\n    {one}: " not in text
    ]
    assert not missing


def test_no_argument_of_a_public_row_lacks_an_explanation():
    arguments = {
        it.name
        for op in SHOWN & set(OVERLOADS.list_ops())
        for row in OVERLOADS.rows_of(op)
        for it in parse_schema(row.schema).arguments
    }
    explained = {name for op, name in read_meanings() if not op}
    assert arguments - explained == {"self", "input", "tensor"}  # tensors, as their type says
    assert all(read_meanings().values())


def test_each_explanation_by_op_is_of_a_parameter_that_the_op_has():
    arguments = {
        op: {
            "input" if it.name == "self" else it.name
            for row in rows
            for it in parse_schema(row.schema).arguments
        }
        for op, rows in ((op, OVERLOADS.rows_of(op)) for op, _ in read_meanings() if op)
    }
    assert set(arguments) <= SHOWN
    further = {("normal", "size"), ("normal", "dtype")}
    lost = {(op, name) for op, name in read_meanings() if op and name not in arguments[op]}
    assert lost == further


def test_a_docstring_names_arguments_as_the_function_does_and_nowhere_self(docs):
    wrong = [name for name, text in docs.items() if "self" in text.partition("\nOverloads:")[0].split()]
    assert not wrong


def test_the_lines_of_a_generated_docstring_are_short_except_schemas(docs):
    assert not [
        line
        for text in docs.values()
        for line in text.partition("\nOverloads:")[0].split("\n")
        if len(line) > 110
    ]


def infer(name):
    """Returns the dtype of an op's result for ints, without computing anything."""
    rows = [row for row in OVERLOADS.rows_of(name) if "Scalar " not in row.schema]
    count = rows[0].schema.partition(") ->")[0].count("Tensor ")
    return jax.eval_shape(rows[0].kernel, *ABSTRACT[:count]).dtype


def test_ops_in_giving_bools_return_bools():
    assert {name: infer(name) for name in GIVING_BOOLS} == dict.fromkeys(GIVING_BOOLS, jnp.dtype("bool"))


def test_ops_in_giving_floats_return_floats_for_ints():
    assert {name: infer(name) for name in GIVING_FLOATS} == dict.fromkeys(GIVING_FLOATS, jnp.dtype("float32"))


def test_the_docstring_of_softmax_describes_each_argument():
    assert oplib.softmax.__doc__ == (
        "Computes exp(input), divided by its sum along a dim.\n"
        "\nArgs:\n"
        "    input: a tensor of floating dtype; in a method, the tensor itself.\n"
        "    dim: an int; the dimension along which the results sum to 1, a negative one "
        "counted from the last.\n"
        "    dtype: a dtype, by default None; the dtype to which `input` is converted first, "
        "if it is given.\n"
        "\nReturns:\n"
        "    A tensor of the shape of `input`, of `dtype` if it is given.\n"
        "\nRaises:\n"
        "    ArgumentTypeError: an argument has a type that is not listed above.\n"
        "    UnsupportedDtypeError: the dtype is not floating.\n"
        "    DimensionError: a dimension does not exist.\n"
        "\nGradient:\n    A formula of the op.\n"
        "\nSource:\n    torch.softmax\n"
        "\nOverloads:\n    softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor\n"
        "\nExample:\n    >>> import oplib\n    >>> oplib.softmax(oplib.tensor([0.0, 1.0]), dim=0)\n"
        "    tensor([0.2689, 0.7311])\n"
    )


def test_the_argument_out_comes_last_in_a_docstring():
    assert (
        "\n    out: a tensor that the result is written into"
        in oplib.add.__doc__.partition("\n\nReturns:")[0]
    )


def test_a_dimension_that_does_not_exist_raises_as_documented():
    tensor = oplib.ones(2, 3)
    for name in ("softmax", "cumsum", "sum", "argmax", "unbind", "norm", "flip", "unsqueeze", "glu"):
        with pytest.raises(oplib.errors.DimensionError):
            FUNCTIONS[name](tensor, **{"dims" if name == "flip" else "dim": [9] if name == "flip" else 9})


def test_dtypes_are_described_by_adjectives():
    assert describe_dtypes("bihfc") == "bool, integer, floating or complex"
    assert describe_dtypes("f") == "float32 or float64"


GIVEN = {
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "cumsum", "cumprod", "logcumsumexp", "roll"), (0,)),
    "flip": ([0],),
    "layer_norm": ([3],),
    "rms_norm": ([3],),
    "group_norm": (3,),
}


def test_ops_in_keeping_shape_keep_the_shape():
    def find_shape(name):
        dtype = jnp.complex64 if name == "imag" else jnp.float32
        array = jax.ShapeDtypeStruct((2, 3), dtype)
        return jax.eval_shape(lambda one: UPCALLS[name](one, *GIVEN.get(name, ())), array).shape

    assert {name: find_shape(name) for name in KEEPING_SHAPE} == dict.fromkeys(KEEPING_SHAPE, (2, 3))


def test_an_op_raises_the_errors_that_its_docstring_lists():
    ones, ints = oplib.ones(2, 3), oplib.tensor([1, 2])
    assert "UnsupportedDtypeError: the dtype is not floating." in oplib.softmax.__doc__
    with pytest.raises(oplib.errors.UnsupportedDtypeError):
        oplib.softmax(ints, 0)
    assert "ArgumentError: the shapes do not broadcast." in oplib.atan2.__doc__
    with pytest.raises(oplib.errors.ArgumentError):
        oplib.atan2(ones, oplib.ones(4))
    assert "ArgumentTypeError: an argument has a type" in oplib.atan2.__doc__
    with pytest.raises(oplib.errors.ArgumentTypeError):
        oplib.atan2(ones, "one")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_function_is_right(name):
    case = doctest.DocTestParser().get_doctest(
        f">>> import oplib\n{EXAMPLES[name]}\n", {}, name, "examples.txt", 0
    )
    said = []
    runner = doctest.DocTestRunner()
    runner.run(case, out=said.append)
    assert len(case.examples) == 2
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert re.search(rf"[. (]{re.sub('^linalg_', '', name)}\(", case.examples[1].source)


def test_a_function_shows_one_example():
    shown = [
        (name, table[name].__doc__ or "") for table in (FUNCTIONS, LINALG, FFT, SPECIAL) for name in table
    ]
    assert [name for name, doc in shown if doc.count("Example:") > 1] == []


WITHOUT = {"cuda": "it needs a GPU", "float_power_": "x64"}


def test_each_public_method_of_tensor_has_an_example():
    found = {name for name in dir(Tensor) if not name.startswith("_") and is_method(name)}
    lacking = {name for name in found if ">>>" not in getattr(Tensor, name).__doc__}
    assert lacking == set(WITHOUT)


def is_method(name):
    method = getattr(Tensor, name, None)  # names of torch that are not here raise the hint
    return callable(method) and not isinstance(method, type)
