"""Arguments against schemas: conversions row by row, and the errors."""

import enum
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import ArgumentError, DeviceError, DtypeError
from oplib.library.arguments.binding import Binder
from oplib.library.infer_schema import infer_function_schema
from oplib.library.schema import parse_schema
from oplib.tensor import Tensor
from oplib.tensor.devices.device import Device
from oplib.tensor.random.generator import Generator


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.Enum):
    SMALL = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


def make_tensor(value, dtype=None) -> Tensor:
    return Tensor.from_array(jnp.asarray(value, dtype))


def convert(type_: str, value):
    return Binder(parse_schema(f"f({type_} v) -> ()")).bind((value,), {}, op="ns::f")[0]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int", 3, 3),
        ("int", True, 1),
        ("int", np.int8(3), 3),
        ("int", np.bool_(True), 1),
        ("int", np.array(3), 3),
        ("int", np.array([3]), 3),
        ("int", np.float32(3), 3),
        ("int", np.array(3.0), 3),
        ("float", 3, 3.0),
        ("float", True, 1.0),
        ("float", np.float64(0.5), 0.5),
        ("float", np.float16(0.5), 0.5),
        ("float", np.array(2), 2.0),
        ("bool", True, True),
        ("bool", 0, False),
        ("bool", 0.5, True),
        ("bool", np.bool_(True), True),
        ("str", "a", "a"),
        ("str", b"a", "a"),
        ("complex", 1, 1 + 0j),
        ("complex", np.complex64(1j), 1j),
        ("Scalar", 1, 1),
        ("Scalar", 1.5, 1.5),
        ("Scalar", True, True),
        ("Scalar", 1j, 1j),
        ("Scalar", np.float64(1), 1.0),
        ("ScalarType", np.dtype("float32"), np.dtype("float32")),
        ("ScalarType", jnp.bfloat16, jnp.dtype("bfloat16")),
        ("ScalarType", "bfloat16", jnp.dtype("bfloat16")),
        ("ScalarType", "float32", np.dtype("float32")),
        ("Device", "cuda:1", Device("cuda", 1)),
        ("Device", Device("cpu"), Device("cpu")),
        ("Enum", Color.RED, Color.RED),
        ("Any", None, None),
        ("int?", None, None),
        ("int?", 3, 3),
        ("int[]", [1, True], [1, 1]),
        ("int[]", (1, 2), [1, 2]),
        ("int[]", range(2), [0, 1]),
        ("int[]", {1}, [1]),
        ("int[]", (n for n in (1, 2)), [1, 2]),
        ("int[]", np.array([1, 2]), [1, 2]),
        ("int[]", [], []),
        ("float[]", [1, np.float32(0.5)], [1.0, 0.5]),
        ("str[]", ["a", "b"], ["a", "b"]),
        ("int?[]", [1, None], [1, None]),
        ("int[][]", [[1], (2,)], [[1], [2]]),
        ("int[2]", 3, [3, 3]),
        ("int[2]", [1, 2, 3], [1, 2, 3]),
        ("int[2]", np.int64(3), [3, 3]),
        ("float[2]?", 1, [1.0, 1.0]),
        ("(int, float)", [1, 2], (1, 2.0)),
        ("(int, float)[]", [(1, 2)], [(1, 2.0)]),
    ],
)
def test_a_value_is_converted_to_its_type(type_, value, expected):
    converted = convert(type_, value)
    assert converted == expected
    assert type(converted) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert [type(item) for item in converted] == [type(item) for item in expected]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 1.0),
        ("int", np.float64(1)),
        ("int", np.float32(1.5)),
        ("int", np.float32("inf")),
        ("int", "1"),
        ("int", None),
        ("int", 2**63),
        ("int", np.array([1, 2])),
        ("int", np.array(1.5)),
        ("float", "1"),
        ("float", None),
        ("float", 1j),
        ("float", np.array([1.0, 2.0])),
        ("bool", None),
        ("bool", "True"),
        ("str", 3),
        ("str", b"\xff"),
        ("complex", "1j"),
        ("Scalar", np.float32(1)),
        ("Scalar", np.array(1)),
        ("Scalar", "1"),
        ("ScalarType", "flot32"),
        ("ScalarType", float),
        ("ScalarType", np.float32),
        ("ScalarType", 6),
        ("Device", 0),
        ("Device", None),
        ("Generator", 3),
        ("Generator", None),
        ("Enum", "RED"),
        ("int[]", 3),
        ("int[]", "12"),
        ("int[]", {1: 2}),
        ("int[]", [1.5]),
        ("int[]", np.array([[1]])),
        ("int[]", np.array([0.5])),
        ("int[]", None),
        ("str[]", "ab"),
        ("(int, int)", (1, 2, 3)),
        ("(int, int)", 1),
        ("Tensor", None),
        ("Tensor", "a"),
        ("Tensor", [1, 2]),
        ("Tensor", {}),
        ("Tensor?", []),
        ("Tensor[]", None),
        ("Tensor[]", np.zeros((2, 2))),
        ("Tensor[]", [None]),
        ("Tensor[]", [np.zeros(2), "a"]),
    ],
)
def test_a_value_of_another_type_is_refused(type_, value):
    with pytest.raises(ArgumentError, match=r"ns::f: argument 'v' \(position 0\) expected a value of type '"):
        convert(type_, value)


def test_arrays_of_one_element_are_numbers_and_tracers_are_not():
    for array in (jnp.int32(3), make_tensor(3), make_tensor([3])):
        assert convert("int", array) == 3
        assert convert("float", array) == 3.0
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(
            ArgumentError,
            match=r"traced, so it is not known; the op could declare operand=\('v',\), which serves all "
            "transformations, or static_argnames of oplib.jit or jax.jit",
        ):
            transform(lambda n: convert("float", n))(jnp.ones(2 if transform is jax.vmap else ()))
    with pytest.raises(ArgumentError, match="found f32"):
        convert("int", jnp.float32(3.5))


def test_bfloat16_is_a_real_number():
    assert convert("float", jnp.bfloat16(0.5)) == 0.5


@pytest.mark.parametrize(
    "value", [1, 2.5, np.float32(1), np.zeros(2), jax.ShapeDtypeStruct((2,), np.float32)]
)
def test_whatever_can_be_a_tensor_passes_as_it_is(value):
    assert convert("Tensor", value) is value


def test_an_array_of_another_library_is_refused_with_the_cure():
    foreign = type("Tensor", (), {"__module__": "torch", "shape": (2,), "dtype": "float32"})()
    binder = Binder(parse_schema("f(Tensor x) -> ()"))
    with pytest.raises(
        TypeError, match=r"'x' .* found f32\[2\], of type torch.Tensor. .* Convert it: oplib.tensor\(t\)"
    ):
        binder.bind((foreign,), {})
    assert convert("Tensor", jax.ShapeDtypeStruct((2,), "float32")).shape == (2,)


def test_tensors_and_tracers_keep_their_identity():
    tensor = make_tensor([1.0])
    assert convert("Tensor", tensor) is tensor
    assert convert("Tensor[]", (tensor,))[0] is tensor
    seen = []
    jax.jit(lambda x: seen.append(convert("Tensor", x) is x))(1.0)
    assert seen == [True]


def test_a_list_is_fresh():
    given = [1, 2]
    converted = convert("int[]", given)
    converted.append(3)
    assert given == [1, 2]


def test_a_default_list_is_fresh_at_every_call():
    binder = Binder(parse_schema("f(int[] n=[1]) -> ()"))
    binder.bind((), {})[0].append(2)
    assert binder.bind((), {}) == [[1]]


def test_a_tensor_or_array_is_no_list():
    for value in (make_tensor([1, 2]), jnp.arange(2)):
        with pytest.raises(ArgumentError, match=r"Pass a list, such as .tolist"):
            convert("int[]", value)


def test_a_tensor_or_array_alone_is_no_list_of_tensors():
    for value in (make_tensor([1, 2]), jnp.arange(2), np.arange(2)):
        with pytest.raises(ArgumentError, match=r"Put it into a list, even if it is the only one"):
            convert("Tensor[]", value)


def test_defaults_are_filled_in_as_values_of_their_types():
    schema = parse_schema(
        "f(Device d='cpu', ScalarType t=float32, float x=1, *, int[2] n=3, Tensor? y=None) -> ()"
    )
    assert Binder(schema).bind((), {}) == [Device("cpu"), np.dtype("float32"), 1.0, [3, 3], None]


def test_positional_and_keyword_arguments_come_in_schema_order():
    binder = Binder(parse_schema("f(int a, int b=2, *, int c, int d=4) -> ()"))
    assert binder.bind((1,), {"c": 3}) == [1, 2, 3, 4]
    assert binder.bind((), {"d": 7, "c": 3, "b": 5, "a": 6}) == [6, 5, 3, 7]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"c": 1}, r"is missing value for argument 'a' \(position 0\)"),
        ((), {}, r"is missing values for arguments 'a' \(position 0\), 'c' \(keyword-only\)"),
        ((1, 2, 3), {"c": 1}, "takes 2 positional arguments, but 3 were given. .* Give c by keyword"),
        (
            (1,),
            {"a": 1, "c": 1},
            "argument 'a' was given both as positional and keyword argument: 1 at position 0",
        ),
        ((1,), {"c": 1, "beta": 2}, "Unknown keyword argument 'beta'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args, kwargs, message):
    with pytest.raises(
        ArgumentError, match=f"^ns::f: {message}.* Declared: f\\(int a, int b=2, \\*, int c\\) -> |{message}"
    ):
        Binder(parse_schema("f(int a, int b=2, *, int c) -> ()")).bind(args, kwargs, op="ns::f")


def test_too_many_arguments_are_refused_with_the_number_allowed():
    with pytest.raises(
        ArgumentError, match=r"takes at most 1 argument, but 3 were given.* Leave out the last 2"
    ):
        Binder(parse_schema("f(int a) -> ()")).bind((1, 2, 3), {})


def test_an_unknown_keyword_suggests_the_nearest_name():
    with pytest.raises(ArgumentError, match=r"Unknown keyword argument 'limt'.* The nearest name is 'limit'"):
        Binder(parse_schema("f(Tensor x, float limit=1.) -> ()")).bind((np.zeros(2),), {"limt": 2})


def test_the_error_of_a_wrong_value_names_op_argument_position_and_schema():
    with pytest.raises(ArgumentError) as caught:
        Binder(parse_schema("ns::f.ov(Tensor x, int n) -> Tensor")).bind((np.zeros(2), [1.5]), {})
    assert str(caught.value) == (
        "ns::f.ov: argument 'n' (position 1) expected a value of type 'int' but found [1.5], of type list. "
        "Declared: ns::f.ov(Tensor x, int n) -> Tensor. "
        "Pass an int, a bool, or an integer array of one element."
    )


def test_the_error_names_the_position_of_a_wrong_element():
    with pytest.raises(
        ArgumentError, match=r"Its element 1 does not fit. Pass a sequence, each element an int"
    ):
        convert("int[]", [1, None])


def test_an_argument_error_is_a_runtime_error():
    with pytest.raises(RuntimeError, match=r"argument 'v' .* expected a value of type 'int'"):
        convert("int", "a")


def test_a_device_text_that_spells_none_is_refused():
    with pytest.raises(DeviceError, match="is not a device"):
        convert("Device", "nowhere 7")


def test_a_64_bit_dtype_is_refused_while_they_are_off():
    with pytest.raises(DtypeError, match="float64 was asked for"):
        convert("ScalarType", np.dtype("float64"))


def test_a_generator_passes():
    generator = Generator()
    assert convert("Generator", generator) is generator


def test_an_operand_may_be_an_array_without_axes():
    binder = Binder(parse_schema("f(float lr, float? eps=None) -> ()"), operand=("lr", "eps"))
    array, tensor = jnp.float32(0.5), make_tensor(0.5)
    assert binder.bind((array, tensor), {}) == [array, tensor]
    assert binder.bind((1,), {}) == [1.0, None]
    seen = []
    jax.jit(lambda lr: seen.append(binder.bind((lr,), {})[0] is lr))(0.5)
    assert seen == [True]
    with pytest.raises(ArgumentError, match="argument 'lr'"):
        binder.bind((jnp.zeros(2),), {})


def test_choices_are_held_to():
    def fn(how: Literal["up", "down"], color: Color, access: Access = Access.READ) -> None: ...

    binder = Binder(infer_function_schema(fn, name="f"))
    assert binder.bind(("up", Color.RED), {}) == ["up", Color.RED, Access.READ]
    assert binder.bind(("up", Color.RED, Access.READ | Access.WRITE), {})[2] == Access.READ | Access.WRITE
    with pytest.raises(ArgumentError, match=r"argument 'how'.* Choose one of 'up', 'down'"):
        binder.bind(("left", Color.RED), {})
    with pytest.raises(ArgumentError, match=r"argument 'color'.* Choose one of Color.RED, Color.BLUE"):
        binder.bind(("up", Size.SMALL), {})


def test_a_literal_of_integers_does_not_take_a_bool():
    def fn(n: Literal[0, 1]) -> None: ...

    assert Binder(infer_function_schema(fn, name="f")).bind((True,), {}) == [1]
    with pytest.raises(ArgumentError, match="Choose one of 0, 1"):
        Binder(infer_function_schema(fn, name="f")).bind((2,), {})
