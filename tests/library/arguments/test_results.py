"""The results that a kernel may return for a schema, and their conversion."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import ResultError, ResultTypeError
from oplib.library.arguments.results import check_results
from oplib.library.schema import parse_schema
from oplib.tensor import Tensor

Pair = namedtuple("Pair", "first second")  # noqa: PYI024  as kernels return it


def check(returns: str, result):
    return check_results(parse_schema(f"ns::f() -> {returns}"))(result)


@pytest.mark.parametrize(
    ("returns", "result", "expected"),
    [
        ("()", None, []),
        ("int", 3, [3]),
        ("int", True, [1]),
        ("int", np.int32(3), [3]),
        ("float", 1, [1.0]),
        ("float", np.float32(0.5), [0.5]),
        ("bool", np.bool_(True), [True]),
        ("Scalar", 1j, [1j]),
        ("Scalar", np.float32(0.5), [0.5]),
        ("str", "a", ["a"]),
        ("(int, float)", (1, 2), [1, 2.0]),
        ("(int, float)", [1, 2], [1, 2.0]),
        ("(int first, float second)", Pair(1, 2), [1, 2.0]),
        ("((int))", (1,), [(1,)]),
        ("((int, float), int)", ([1, 2], 3), [(1, 2.0), 3]),
        ("int[]", (1, True), [[1, 1]]),
        ("int[]", (n for n in (1, 2)), [[1, 2]]),
        ("int[2]", [1, 2], [[1, 2]]),
        ("Tensor?", None, [None]),
        ("Tensor[]", (), [[]]),
    ],
)
def test_a_result_is_brought_into_the_declared_form(returns, result, expected):
    checked = check(returns, result)
    assert checked == expected
    assert [type(value) for value in checked] == [type(value) for value in expected]


def test_a_tensor_result_is_any_array_and_stays_the_same_object():
    tensor = Tensor.from_array(jnp.zeros(2))
    for array in (tensor, tensor.array, np.zeros(2), np.float32(1), jax.ShapeDtypeStruct((2,), np.float32)):
        assert check("Tensor", array)[0] is array
        assert check("Tensor[]", (array,))[0][0] is array
        assert check("(Tensor, int)", [array, 1])[0] is array


def test_tracers_are_tensors():
    seen = []
    jax.jit(lambda x: seen.append(check("Tensor", x)[0] is x))(1.0)
    assert seen == [True]


@pytest.mark.parametrize(
    ("returns", "result"),
    [
        ("Tensor", None),
        ("Tensor", 1.0),
        ("Tensor", "a"),
        ("Tensor", [np.zeros(2)]),
        ("Tensor[]", np.zeros(2)),
        ("Tensor[]", [None]),
        ("Tensor[]", {1: 2}),
        ("int", 1.5),
        ("int", None),
        ("int", np.float32(1.5)),
        ("float", "a"),
        ("bool", 1),
        ("bool", None),
        ("str", 3),
        ("Scalar", np.zeros(1)),
        ("(int, float)", (1, "a")),
        ("((int))", 1),
    ],
)
def test_a_result_of_another_kind_is_refused(returns, result):
    with pytest.raises(ResultError, match=r"ns::f: the kernel's result.* Unable to cast .* Declared: -> "):
        check(returns, result)


def test_a_value_where_nothing_is_declared_is_refused():
    with pytest.raises(ResultError, match=r"declares no results: -> \(\)"):
        check("()", 1)


@pytest.mark.parametrize("result", [1, None, np.zeros(2), {"a": 1}])
def test_a_single_value_where_several_are_declared_is_a_type_error(result):
    with pytest.raises(
        TypeError, match=r"Declared are 2 results: -> \(Tensor, int\)\. (A function .*)?Return a tuple"
    ) as caught:
        check("(Tensor, int)", result)
    assert isinstance(caught.value, ResultTypeError)


@pytest.mark.parametrize("result", [(), (1,), (1, 2, 3)])
def test_too_few_or_too_many_results_are_refused(result):
    with pytest.raises(
        ResultError, match=rf"returned {len(result)} results. Declared are 2: -> \(int, int\)"
    ):
        check("(int, int)", result)


def test_a_nested_tuple_has_its_own_count():
    with pytest.raises(ResultError, match="It has 1 elements and needs 2"):
        check("((int, int))", (1,))


def test_a_traced_number_is_no_number():
    with pytest.raises(ResultError, match="Its value is traced, so it is not known"):
        jax.jit(lambda x: check("int", x))(3)


def test_the_error_names_the_position_of_a_wrong_result():
    with pytest.raises(
        ResultError, match=r"the kernel's result 1 has the wrong type. Unable to cast 'a', of type str"
    ):
        check("(int, int)", (1, "a"))


def test_a_check_is_built_once_per_schema():
    schema = parse_schema("f() -> int")
    assert check_results(schema) is check_results(schema)
    assert check_results(schema) is not check_results(schema, "the fake kernel")


def test_a_list_result_is_fresh():
    result = [jnp.zeros(2)]
    assert check("Tensor[]", result)[0] is not result
