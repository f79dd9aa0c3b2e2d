"""The error tree and the way values are shown in messages."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.errors as errors
from oplib.errors import DimensionError, OplibError, describe, describe_dtype, frame_error

CLASSES = {
    name: item
    for name, item in vars(errors).items()
    if inspect.isclass(item)
    and issubclass(item, (OplibError, Warning))
    and item.__module__ == errors.__name__
}


def read_tree() -> dict[str, tuple[str | None, list[str]]]:
    """Returns what the module docstring draws: class to (parent in the tree, builtins in parentheses)."""
    drawn: dict[str, tuple[str | None, list[str]]] = {}
    path: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = re.match(r"^( {4}[│├└─ ]*)([A-Z]\w+(?:Error|Warning))(?: \(([\w, ]+)\))?", line)
        if found:
            depth = (len(found[1]) - 4) // 4
            path[depth:] = [found[2]]
            drawn[found[2]] = (path[depth - 1] if depth else None, (found[3] or "").split(", "))
    return drawn


def test_the_docstring_draws_exactly_the_classes_of_the_module():
    assert set(read_tree()) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_the_parent_and_the_builtin_that_the_docstring_draws(name):
    parent, builtins = read_tree()[name]
    bases = [base.__name__ for base in CLASSES[name].__bases__]
    is_in_tree = issubclass(CLASSES[name], OplibError)
    drawn = [base for base in (parent if is_in_tree else None, *builtins) if base]
    assert bases == (drawn or ["Exception"])  # which the root is, without saying so


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_a_docstring(name):
    assert (inspect.getdoc(CLASSES[name]) or "").endswith(".")


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "f32"),
        ("float64", "f64"),
        ("int8", "i8"),
        ("uint16", "u16"),
        ("complex64", "c64"),
        ("bool", "bool"),
        (jnp.bfloat16, "bf16"),
        (jnp.float8_e4m3fn, "f8_e4m3fn"),
    ],
)
def test_a_dtype_has_a_short_name(dtype, text):
    assert describe_dtype(np.dtype(dtype)) == text


def test_a_thing_without_a_dtype_name_is_shown_as_it_prints():
    assert describe_dtype("whatever") == "whatever"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "f32[2,3]"),
        (jnp.zeros((), jnp.int32), "i32[]"),
        (jax.ShapeDtypeStruct((4,), jnp.bfloat16), "bf16[4]"),
        ([np.zeros(1, bool), None], "[bool[1], None]"),
        ((1,), "(1,)"),
        ((), "()"),
        ("text", "'text'"),
    ],
)
def test_a_value_is_shown_short(value, text):
    assert describe(value) == text


def test_a_long_value_is_cut_and_never_shown_whole():
    assert describe("x" * 1000) == "'" + "x" * 56 + "..."
    assert len(describe(list(range(1000)))) == 60


def test_a_value_that_python_cannot_print_is_described_by_its_class():
    deep = {}
    for _ in range(100_000):  # how deep it must be depends on the version of Python
        deep = {"a": deep}
    assert describe(deep) == "<dict without a repr>"
    assert describe([10**5000]) == "[<int without a repr>]"


def test_a_tracer_is_shown_by_its_shape():
    seen = []
    jax.jit(lambda x: seen.append(describe(x)))(np.zeros((5, 2), np.float32))
    assert seen == ["f32[5,2]"]


def test_the_error_of_a_kernel_gets_the_name_and_the_arguments_of_the_call():
    error = DimensionError("the index must be a vector", "Flatten it.")
    frame_error(error, "take", [("n", 2), ("out", None)])
    frame_error(error, "outer", [])
    assert str(error) == "take: the index must be a vector. Got n 2. Flatten it."


def test_the_error_of_a_kernel_keeps_what_the_user_handles():
    def fail():
        try:
            raise KeyError("theirs")
        except KeyError:
            oplib.ones(2).sum(dim=5)

    with pytest.raises(DimensionError) as caught:
        fail()
    assert isinstance(caught.value.__context__, KeyError)
    assert not caught.value.__suppress_context__


MANY = 3000


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: oplib.quantile(oplib.ones(3), oplib.linspace(0, 2, MANY)), "range [0, 1]; one is 1.0"),
        (
            lambda: oplib.repeat_interleave(oplib.ones(MANY), oplib.arange(MANY) - 7),
            "can not be negative; one is -7.",
        ),
        (
            lambda: oplib.nn.functional.embedding_bag(
                oplib.arange(9), oplib.ones(9, 2), oplib.arange(1, MANY + 1)
            ),
            f"they are 1 and {MANY}.",
        ),
        (
            lambda: oplib.nn.functional.ctc_loss(
                oplib.zeros(2, MANY, 3), oplib.ones(MANY, 1, dtype=int), (3,) * MANY, (1,) * MANY
            ),
            "at most 2; they are from 3 to 3.",
        ),
        (
            lambda: oplib.nn.functional.ctc_loss(
                oplib.zeros(2, MANY, 3), oplib.ones(MANY, dtype=int), (1,) * MANY, (1, 2) * (MANY // 2)
            ),
            f"{MANY}; they are from 1 to 2, and {MANY * 3 // 2} in all.",
        ),
        (lambda: oplib.broadcast_shapes(*[(size,) for size in range(2, MANY)]), "or be 1. Got [(2,), (3,), "),
        (lambda: oplib.ones(2).uniform_(*range(MANY)), "it takes from and to, but got [0, 1, 2, "),
        (lambda: oplib.vmap(lambda xs: xs[0])(list(map(oplib.ones, range(1, 20)))), "Got sizes [1, 2, 3, "),
        (
            lambda: oplib.scan(lambda c, xs: (c, c), oplib.ones(1), list(map(oplib.ones, range(1, 20)))),
            "Got first dimensions [1, 2, 3, ",
        ),
        (
            lambda: oplib.autograd.functional.vjp(lambda *xs: xs, (oplib.ones(2),) * 50),
            "Got 50 of sizes [[2], [2], ",
        ),
        (
            lambda: oplib.testing.assert_close({"a": [1.0] * MANY}, {"a": [1.0] * (MANY + 1)}),
            f"at '['a'][{MANY}]'. Got PyTreeSpec(",
        ),
    ],
)
def test_an_error_of_many_values_names_one_or_a_few_of_them(call, text):
    with pytest.raises(OplibError, match=re.escape(text)) as caught:
        call()
    assert len(str(caught.value)) <= 400
