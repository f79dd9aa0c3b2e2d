"""Schemas from annotations, row by row, and the refusals."""

# ruff: noqa: UP006, UP007, UP045  older code spells its hints so, and is to be understood
# ruff: noqa: F821  the names of axes in jaxtyping's strings are no types

import enum
import functools
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, List, Literal, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

import oplib
from oplib.errors import SchemaInferenceError
from oplib.library import custom_op
from oplib.library.infer_schema import infer_function_schema, infer_kind, infer_schema
from oplib.library.schema import parse_schema
from oplib.tensor import Tensor
from oplib.tensor.devices.device import Device

from .annotated import annotate, infer_type

Number = Union[int, float, bool]  # torch's spelling


class Mode(enum.Enum):
    NEAREST = 1
    CUBIC = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Parameter(Tensor):
    pass


class Pair(NamedTuple):
    first: Tensor
    second: dict[str, Tensor]


TREES = [
    *(Pair, dict, dict[str, Tensor], tuple, tuple[Tensor, ...], list, list[Pair], list[list[Tensor]]),
    *(list[Tensor | None], Any, Optional[Tensor], Sequence[Tensor], Pair | Tensor, Annotated[Pair, "x"]),
]


@pytest.mark.parametrize(
    ("hint", "type_"),
    [
        (Tensor, "Tensor"),
        (jax.Array, "Tensor"),
        (jnp.ndarray, "Tensor"),
        (np.ndarray, "Tensor"),
        (npt.NDArray[np.float32], "Tensor"),
        (Tensor | None, "Tensor?"),
        (Optional[jax.Array], "Tensor?"),
        (list[Tensor], "Tensor[]"),
        (List[np.ndarray], "Tensor[]"),
        (Sequence[jax.Array], "Tensor[]"),
        (typing.Sequence[jax.Array], "Tensor[]"),
        (list[Optional[Tensor]], "Tensor?[]"),
        (Optional[list[Tensor]], "Tensor[]?"),
        (Optional[list[Tensor | None]], "Tensor?[]?"),
        (int, "int"),
        (Optional[int], "int?"),
        (list[int], "int[]"),
        (Optional[Sequence[int]], "int[]?"),
        (float, "float"),
        (List[float], "float[]"),
        (bool | None, "bool?"),
        (list[bool], "bool[]"),
        (str, "str"),
        (Optional[str], "str?"),
        (list[str], "str[]"),
        (Number, "Scalar"),
        (int | float | bool, "Scalar"),
        (int | float | bool | complex, "Scalar"),
        (Optional[Number], "Scalar?"),
        (list[Number], "Scalar[]"),
        (np.dtype, "ScalarType"),
        (np.dtype[Any], "ScalarType"),
        (Optional[jnp.dtype], "ScalarType?"),
        (Device, "Device"),
        (Device | None, "Device?"),
        (Mode, "Enum"),
        (Optional[Mode], "Enum?"),
        (Literal["a", "b"], "str"),
        (Literal[1, 2], "int"),
        (Literal["a", None], "str?"),  # noqa: PYI061  one more spelling
        (Literal[Mode.NEAREST], "Enum"),
        (tuple[int, int], "(int, int)"),
        (Tuple[int, float], "(int, float)"),
        (tuple[int | None, str], "(int?, str)"),
        (tuple[float, ...], "float[]"),
        (tuple[jax.Array, ...], "Tensor[]"),
        (Optional[tuple[int, int]], "(int, int)?"),
        (list[tuple[int, int]], "(int, int)[]"),
        ("Tensor", "Tensor"),
        ("list[Tensor]", "Tensor[]"),
        (list["Tensor"], "Tensor[]"),
        (List["Optional[Tensor]"], "Tensor?[]"),
    ],
)
def test_a_hint_becomes_a_type(hint, type_):
    assert infer_type(hint) == type_


@pytest.mark.parametrize(
    "hint",
    [
        complex,
        typing.Callable,
        dict,
        dict[str, Tensor],
        list,
        List,
        tuple,
        Tuple,
        tuple[()],
        list[list[int]],
        list[Optional[int]],
        list[np.dtype],
        Union[int, float],
        Tensor | int,
        np.float32,
        Annotated[int, "units"],
        Literal["a", 1],
        Literal[b"a"],
        Parameter,
        object(),
        tuple[Tensor, int],
        set[int],
    ],
)
def test_an_unsupported_hint_is_refused_by_the_parameters_name(hint):
    with pytest.raises(
        SchemaInferenceError,
        match=r"Parameter v has unsupported type .*\. [A-Z].{20,}\.$",
    ):
        infer_schema(annotate(hint))


@pytest.mark.parametrize(
    ("hint", "advice"),
    [
        (int | float, "write int | float | bool"),
        (list[list[int]], "Lists do not nest"),
        (list[int | None], "Only lists of tensors may hold None"),
        (tuple[Tensor, int], "write list"),
        (Literal["a", 1], "must be of one type"),
    ],
)
def test_the_error_names_the_supported_annotation(hint, advice):
    with pytest.raises(SchemaInferenceError) as caught:
        infer_schema(annotate(hint))
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("hint", "type_"),
    [
        (None, "()"),
        (Tensor, "Tensor"),
        (jax.Array, "Tensor"),
        (list[Tensor], "Tensor[]"),
        (List[jax.Array], "Tensor[]"),
        (int, "int"),
        (float, "float"),
        (bool, "bool"),
        (Number, "Scalar"),
        (tuple[Tensor, int], "(Tensor, int)"),
        (Tuple[Tensor, list[Tensor], Number], "(Tensor, Tensor[], Scalar)"),
        (tuple[Tensor], "((Tensor))"),
        (tuple[()], "()"),
        ("tuple[Tensor, Tensor]", "(Tensor, Tensor)"),
        *((hint, "Any") for hint in TREES),
        (tuple[Tensor, dict[str, Tensor], int], "(Tensor, Any, int)"),
        (tuple[tuple[Tensor, int], list[Pair]], "(Any, Any)"),
        (tuple[Pair], "((Any))"),
    ],
)
def test_a_return_hint_becomes_the_returns(hint, type_):
    assert infer_schema(annotate(int, hint)) == f"(int v) -> {type_}"


@pytest.mark.parametrize(
    "hint",
    [str, np.dtype, list[int], tuple[Tensor, str], tuple[tuple[int, str], Tensor], Mode, Literal[1],
     dict[str, int], Callable[[Tensor], Tensor], np.float32, Optional[int], int | float],
)  # fmt: skip
def test_an_unsupported_return_is_refused(hint):
    with pytest.raises(
        SchemaInferenceError,
        match=r"Return has unsupported type .*\. (Supported are None, jax.* pytrees of arrays, |[A-Z].*\.)",
    ):
        infer_schema(annotate(int, hint))


@pytest.mark.spec("D.33")
def test_the_text_of_a_tree_of_results_is_any():
    schema = infer_function_schema(annotate(int, tuple[Pair, Tensor]), name="ns::f")
    assert str(schema) == "ns::f(int v) -> (Any, Tensor)"
    assert parse_schema(str(schema)) == schema
    assert [returned.is_tree for returned in schema.returns] == [True, False]


def test_a_refused_return_is_not_blamed_on_a_parameter():
    """A parameter without arrays of its own is a tree only if the return shows the kind of kernel."""

    def fn(v, w):
        pass

    fn.__annotations__ = {"v": dict, "w": Number, "return": str}
    with pytest.raises(SchemaInferenceError, match="Return has unsupported type str"):
        infer_schema(fn)


@pytest.mark.parametrize(
    ("hint", "default", "printed"),
    [
        (int, 3, "int v=3"),
        (float, 2, "float v=2."),
        (float, float("inf"), "float v=inf"),
        (bool, True, "bool v=True"),
        (str, 'a"b', r'str v="a\"b"'),
        (Number, True, "Scalar v=True"),
        (Optional[Tensor], None, "Tensor? v=None"),
        (Optional[int], None, "int? v=None"),
        (np.dtype, jnp.dtype("bfloat16"), "ScalarType v=bfloat16"),
        (np.dtype, jnp.float32, "ScalarType v=float32"),
        (Device, "cpu", 'Device v="cpu"'),
        (Device, Device("cuda", 1), 'Device v="cuda:1"'),
        (Mode, Mode.CUBIC, "Enum v=Mode.CUBIC"),
        (Literal["a", "b"], "b", 'str v="b"'),
        (tuple[int, int], (1, 2), "(int, int) v=(1, 2)"),
        (tuple[float, ...], (1, 2), "float[] v=[1., 2.]"),
        (Optional[tuple[int, int]], (1, 2), "(int, int)? v=(1, 2)"),
    ],
)
def test_a_default_is_printed_so_that_it_parses_back(hint, default, printed):
    text = infer_schema(annotate(hint, v=default), op_name="f")
    assert text == f"f({printed}) -> ()"
    assert str(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("hint", "default"),
    [(list[int], [1]), (list[int], (1,)), (int, 1.5), (int, "a"), (float, True), (int, None), (str, 3),
     (bool, 1), (Literal["a"], "b"), (Literal[1], True), (Mode, Access.READ),
     (Access, Access.READ | Access.WRITE), (tuple[int, int], (1, 2, 3)), (tuple[int, int], [1, 2]),
     (Number, object()), (int, 2**70), (Tensor, None)],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(hint, default):
    with pytest.raises(SchemaInferenceError, match="Parameter v has an unsupported default value type"):
        infer_schema(annotate(hint, v=default))


def test_keyword_only_parameters_stand_behind_one_star():
    def fn(x: Tensor, y: int = 1, *, k: int, m: float = 2.0) -> Tensor: ...

    assert infer_schema(fn) == "(Tensor x, int y=1, *, int k, float m=2.) -> Tensor"


def test_a_kernel_on_arrays_takes_any_annotation():
    def fn(
        x: jax.Array, /, p: dict[str, jax.Array], f: typing.Callable, q: Any = None, *ys: jax.Array
    ) -> jax.Array:
        return x

    text = "(Tensor x, Tree p, Any f, Tree q=None, Tensor[] *ys) -> Tensor"
    assert infer_schema(fn) == text
    assert str(parse_schema(f"f{text}")) == f"f{text}"


@pytest.mark.parametrize("source", ["x, /", "*x", "**x"])
def test_parameter_kinds_that_no_schema_has_are_refused(source):
    namespace: dict[str, Any] = {}
    exec(f"def fn({source}) -> None: ...", namespace)
    with pytest.raises(
        SchemaInferenceError, match="We do not support positional-only args, varargs, or varkwargs"
    ):
        infer_schema(namespace["fn"])


def test_missing_annotations_are_refused():
    def bare(x) -> Tensor: ...

    def silent(x: Tensor): ...

    def method(self, x: Tensor) -> Tensor: ...

    def later(x: Tensor, self) -> Tensor: ...

    with pytest.raises(SchemaInferenceError, match=r"Parameter x must .* annotation\. Supported are"):
        infer_schema(bare)
    with pytest.raises(SchemaInferenceError, match=r"Parameter self .* An op is a function: move it out"):
        infer_schema(method)
    with pytest.raises(SchemaInferenceError, match=r"Parameter self .* annotation\. Supported are"):
        infer_schema(later)
    with pytest.raises(SchemaInferenceError, match="No return type annotation was provided"):
        infer_schema(silent)


def test_a_string_that_names_no_type_is_refused():
    class Local:
        pass

    with pytest.raises(
        SchemaInferenceError, match=r"Parameter v has an unsupported type annotation Local\. It is not a"
    ):
        infer_schema(annotate("Local"))
    with pytest.raises(SchemaInferenceError, match="It is not a type"):
        infer_schema(annotate(int, "Nothing"))


def test_the_op_name_begins_the_text():
    assert infer_schema(annotate(Tensor), op_name="ns::f") == "ns::f(Tensor v) -> ()"


class TestWhatCanBeInferredFrom:
    def test_bound_method(self):
        class Layer:
            def run(self, x: Tensor) -> Tensor: ...

        assert infer_schema(Layer().run) == "(Tensor x) -> Tensor"

    def test_callable_object(self):
        class Layer:
            def __call__(self, x: "Tensor") -> "Tensor": ...

        assert infer_schema(Layer()) == "(Tensor x) -> Tensor"

    def test_partial_of_a_function_with_string_annotations(self):
        def fn(x: "Tensor", n: "int", k: "int") -> "Tensor": ...

        assert infer_schema(functools.partial(fn, k=2)) == "(Tensor x, int n, *, int k=2) -> Tensor"

    def test_wrapped_and_jitted_functions(self):
        def fn(x: "jax.Array") -> "jax.Array": ...

        assert infer_schema(functools.wraps(fn)(lambda *args: None)) == "(Tensor x) -> Tensor"
        assert infer_schema(jax.jit(fn)) == "(Tensor x) -> Tensor"

    def test_something_without_a_signature_is_refused(self):
        with pytest.raises(SchemaInferenceError, match=r"infer_schema\(dict\)|infer_schema\(map\)"):
            infer_schema(dict)
        with pytest.raises(SchemaInferenceError, match="has no signature"):
            infer_schema(3)


def test_choices_of_literals_and_enums_are_kept():
    schema = infer_function_schema(annotate(Literal["a", "b"]), name="ns::f", overload_name="ov")
    assert schema.arguments[0].type.choices == ("a", "b")
    assert infer_function_schema(annotate(Mode)).arguments[0].type.choices == tuple(Mode)
    assert str(schema) == "ns::f.ov(str v) -> ()"


def test_an_inference_error_is_a_value_error():
    with pytest.raises(ValueError, match="infer_schema"):
        infer_schema(annotate(dict))


def test_names_for_types_are_looked_through():
    typing_extensions = pytest.importorskip("typing_extensions")
    variable = typing.TypeVar("variable")
    array = typing_extensions.TypeAliasType("array", jax.Array)
    optional = typing_extensions.TypeAliasType("optional", Optional[variable], type_params=(variable,))
    assert infer_type(array) == "Tensor"
    assert infer_type(list[array]) == "Tensor[]"
    assert infer_type(optional[int]) == "int?"
    assert infer_kind(annotate(optional[array])) == "array"


def test_jaxtyping_hints_are_understood():
    jaxtyping = pytest.importorskip("jaxtyping")
    assert infer_type(jaxtyping.Float[jax.Array, "rows columns"]) == "Tensor"
    assert infer_type(jaxtyping.Int[np.ndarray, "..."] | None) == "Tensor?"
    assert infer_type(list[jaxtyping.Shaped[Tensor, "n"]]) == "Tensor[]"
    assert infer_type(jaxtyping.PRNGKeyArray) == "Tensor"
    assert infer_type(jaxtyping.Float[jax.Array, "n"] | jaxtyping.Int[jax.Array, "n"] | None) == "Tensor?"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_the_default_of_an_int_may_be_a_member_of_an_integer_enumeration():
    def kernel(x: jax.Array, level: int = Level.HIGH) -> jax.Array: ...

    assert infer_schema(kernel) == "(Tensor x, int level=2) -> Tensor"


class Speed(str, enum.Enum):  # noqa: UP042  its str() names the member
    FAST = "fast"
    SLOW = "slow"


class Path(str):
    __slots__ = ()


@pytest.mark.parametrize("default", [Speed.FAST, Path("fast")])
def test_a_default_of_a_subclass_of_str_reaches_the_kernel_as_it_is(default):
    seen = []

    def kernel(x: jax.Array, speed: str = default) -> jax.Array:
        seen.append(speed)
        return x * (2 if speed == "fast" else 3)

    assert infer_schema(kernel) == '(Tensor x, str speed="fast") -> Tensor'
    op = custom_op("inference::speed", kernel)
    for run in (op, jax.jit(op), jax.vmap(op)):
        assert run(jnp.ones(2)).tolist() == kernel(jnp.ones(2)).tolist()
    assert op(oplib.ones(2)).tolist() == [2.0, 2.0]
    assert all(value is default for value in seen)


class Named(int, enum.Enum):
    TWO = 2


class Flags(enum.IntFlag):
    ONE = 1
    TWO = 2


@pytest.mark.parametrize("default", [Level.HIGH, Named.TWO, Flags.TWO], ids=repr)
@pytest.mark.parametrize("hint", [jax.Array, np.ndarray, oplib.Tensor])
def test_a_member_of_an_integer_enumeration_reaches_the_kernel_as_it_is(default, hint):
    seen = []

    def kernel(x, level=default):
        seen.append(level)
        return x * 2

    kernel.__annotations__ = {"x": hint, "level": int, "return": hint}
    assert infer_schema(kernel) == "(Tensor x, int level=2) -> Tensor"
    op = custom_op("inference::level", kernel)
    if hint is np.ndarray:
        op.register_fake(lambda x, level: x)
    for call in (op, lambda x: op(x, default), lambda x: op(x, level=default)):
        assert call(oplib.ones(2)).tolist() == jax.jit(call)(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert all(value is default for value in seen)
    seen.clear()
    op(oplib.ones(2), 2)
    assert [type(value) for value in seen] == [int]


@pytest.mark.spec("D.33")
def test_a_kernel_from_any_pytree_to_any_pytree_is_a_kernel_on_arrays():
    def double(x: Any, scale: Any = None) -> Any:
        return jax.tree.map(lambda value: 2 * value, x)

    assert infer_schema(double) == "(Tree x, Tree scale=None) -> Any"
    op = custom_op("inference::double", double)
    tree = {"a": jnp.ones(2), "b": (jnp.arange(3.0),)}
    for run in (op, jax.jit(op)):
        jax.tree.map(np.testing.assert_array_equal, run(tree), double(tree))
    assert op([oplib.ones(2)])[0].tolist() == [2.0, 2.0]


def test_an_error_about_a_result_names_the_result():
    def kernel(x: Any) -> set[int]: ...

    with pytest.raises(SchemaInferenceError, match=r"Return has unsupported type set\[int\]"):
        infer_schema(kernel)


def test_the_default_of_an_int_has_64_bits():
    def kernel(x: jax.Array, level: int = 2**63) -> jax.Array: ...

    with pytest.raises(SchemaInferenceError, match="level"):
        infer_schema(kernel)


@pytest.mark.parametrize(
    ("function", "name"),
    [(jnp.array, "jax.numpy.array"), (np.array, "numpy.array"), ("np.array", "numpy.array")],
)
def test_a_function_in_the_place_of_a_type_is_refused(function, name):
    def parameter(x: function) -> jax.Array:
        return x

    def result(x: jax.Array) -> function:
        return x

    told = rf"{name}\. It is a function\. Annotate a type, such as jax\.Array or numpy\.ndarray\.$"
    with pytest.raises(SchemaInferenceError, match=f"Parameter x has unsupported type {told}"):
        infer_schema(parameter)
    with pytest.raises(SchemaInferenceError, match=f"Return has unsupported type {told}"):
        infer_schema(result)
