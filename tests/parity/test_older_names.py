"""Names and forms that older programs use: constructors, deprecated overloads, tests of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oplib

pytest.importorskip("torch")

WORDS = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float")
TENSORS = {
    "data": lambda lib, make: make([1, 2]),
    "floats": lambda lib, make: make([[1.5], [0.0]]),
    "numpy": lambda lib, make: make(np.array([1.5, 0.0])),
    "a tuple": lambda lib, make: make((2, 3)),
    "a range": lambda lib, make: make(range(3)),
    "sizes": lambda lib, make: make(2, 3).shape,
    "no size": lambda lib, make: make().shape,
    "a Size": lambda lib, make: make(lib.Size([2, 3])).shape,
    "a shape": lambda lib, make: make(lib.ones(2, 3).shape).shape,
    "a negative size": lambda lib, make: make(-1),
    "a float": lambda lib, make: make(1.5),
    "a bool": lambda lib, make: make(True),
    "a number and data": lambda lib, make: make(2, [1.0]),
    "text": lambda lib, make: make("a"),
    "None": lambda lib, make: make(None),
    "unequal rows": lambda lib, make: make([[1], [1, 2]]),
    "a complex number": lambda lib, make: make([1j]),
    "a keyword": lambda lib, make: make([1.0], requires_grad=True),
    "a device": lambda lib, make: make([1.0], device="cpu"),
    "a tensor of float32": lambda lib, make: make(lib.ones(2)),
    "a tensor of int16": lambda lib, make: make(lib.ones(2, dtype=lib.int16)),
    "shared": lambda lib, make: write_first(make, lib.ones(2)),
    "a leaf": lambda lib, make: make(lib.ones(2, requires_grad=True)).requires_grad,
}


def write_first(make: Any, x: Any) -> Any:
    make(x)[0] = 5
    return x


# Bools of complex numbers are refused here, as all conversions that drop an imaginary part are.
MADE = [
    (word, one) for word in ("", *WORDS) for one in TENSORS if (word, one) != ("Bool", "a complex number")
]


@pytest.mark.parametrize(("word", "given"), MADE)
def test_the_old_constructors_take_what_torch_takes(assert_agrees, given, word):
    assert_agrees(lambda lib: TENSORS[given](lib, getattr(lib, f"{word}Tensor")))


@pytest.mark.parametrize("word", WORDS)
def test_a_class_of_one_dtype_serves_isinstance_and_type(assert_agrees, word):
    def program(lib):
        kind = getattr(lib, f"{word}Tensor")
        made, other = kind([1, 0]), lib.ones(2).type(kind)
        return [
            isinstance(made, kind),
            isinstance(other, kind),
            isinstance(lib.ones(1).double, kind),
            type(made) is lib.Tensor,
        ]

    assert_agrees(program)


CALLS = {
    "addcmul": ("v", "v", "v"),
    "addcdiv": ("v", "v", "v"),
    "add": ("v", "v"),
    "sub": ("v", "v"),
    "addmm": ("m", "m", "m"),
    "addmv": ("v", "m", "v"),
    "addr": ("m", "v", "v"),
    "addbmm": ("m", "b", "b"),
    "baddbmm": ("b", "b", "b"),
}
FORMS = {
    "one number": lambda f, x, *rest: f(x, 3, *rest),
    "two numbers": lambda f, x, *rest: f(2, x, 3, *rest),
    "a number in front": lambda f, x, *rest: f(2, x, *rest),
    "a float": lambda f, x, *rest: f(x, 0.5, *rest),
    "too many": lambda f, x, *rest: f(x, 2, *rest, rest[0]),
    "out": lambda f, x, *rest: f(x, 3, *rest, out=x.clone()),
}
METHODS = {
    "one number": lambda f, *rest: f(3, *rest),
    "two numbers": lambda f, *rest: f(2, 3, *rest),
    "three numbers": lambda f, *rest: f(2, 3, 4, *rest),
}


def make_operands(lib: Any, op: str, *, requires_grad: bool = False) -> list[Any]:
    shapes = {"v": (2,), "m": (2, 2), "b": (2, 2, 2)}
    made = [(lib.arange(8.0) + 1 + place)[: 2 ** len(shapes[kind])] for place, kind in enumerate(CALLS[op])]
    made = [one.reshape(shapes[kind]) for one, kind in zip(made, CALLS[op], strict=True)]
    return [one.requires_grad_(requires_grad) for one in made]


# Torch's functions of products of matrices take one number only in front; here they are as its methods.
OF_PRODUCTS = ("two numbers", "a number in front", "too many")
OF_FUNCTIONS = [
    (op, form) for op in CALLS for form in (FORMS if op[:4] in ("addc", "add", "sub") else OF_PRODUCTS)
]


@pytest.mark.filterwarnings("ignore:.*overload")
@pytest.mark.parametrize(("op", "form"), OF_FUNCTIONS)
def test_numbers_among_the_tensors_are_keywords(assert_agrees, op, form):
    assert_agrees(lambda lib: FORMS[form](getattr(lib, op), *make_operands(lib, op)))


@pytest.mark.filterwarnings("ignore:.*overload")
@pytest.mark.parametrize("in_place", ["", "_"])
@pytest.mark.parametrize("form", METHODS)
@pytest.mark.parametrize("op", CALLS)
def test_methods_take_numbers_before_the_tensors(assert_agrees, op, form, in_place):
    def program(lib):
        x, *rest = make_operands(lib, op)
        result = METHODS[form](getattr(x, op + in_place), *rest)
        return result, x

    assert_agrees(program)


@pytest.mark.filterwarnings("ignore:.*overload")
@pytest.mark.parametrize("op", ["add", "addcmul"])
def test_an_overload_with_numbers_inside_is_recorded(assert_agrees, op):
    def program(lib):
        x, *rest = operands = make_operands(lib, op, requires_grad=True)
        getattr(lib, op)(x, 3, *rest).sum().backward()
        return [one.grad for one in operands]

    assert_agrees(program)


def test_a_deprecated_overload_warns_at_the_line_that_calls_it():

    with pytest.warns(
        UserWarning, match=r"add: this overload is deprecated. Write add\(..., alpha=2\)"
    ) as told:
        oplib.add(oplib.ones(1), 2, oplib.ones(1))
    assert told[0].filename == __file__


TESTS = [
    *("is_cpu", "is_cuda", "is_mps", "is_xpu", "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn"),
    *("is_nested", "is_meta"),
]


@pytest.mark.parametrize("name", TESTS)
def test_a_tensor_says_where_and_what_it_is(assert_agrees, name):
    assert_agrees(lambda lib: [getattr(x, name) for x in (lib.ones(2), lib.ones(2, 2)[0], lib.ones(2).data)])


def given_source(lib: Any, source: Any, *rest: Any) -> Any:
    x = lib.ones(2)
    view, version = x.view(-1), x._version
    result = x.set_(source, *rest)
    x[0] = 7
    return result is x, x, source, view, x._version - version, x.shape, x.stride()


SOURCES = {
    "a tensor": lambda lib: given_source(lib, lib.zeros(3)),
    "a view": lambda lib: given_source(lib, lib.zeros(2, 3)[1]),
    "a part": lambda lib: given_source(lib, lib.arange(6.0), 1, (2, 2), (2, 1)),
    "a part of given size": lambda lib: given_source(lib, lib.arange(6.0), 2, (2, 2)),
    "another dtype": lambda lib: given_source(lib, lib.zeros(3, dtype=lib.int32)),
    "no tensor": lambda lib: lib.ones(2).set_([1.0]),
    "a size that is text": lambda lib: lib.ones(2).set_(lib.ones(4), 0, "ab", (1,)),
    "nothing": lambda lib: lib.ones(2).set_(),
    "for a leaf": lambda lib: lib.ones(2, requires_grad=True).set_(lib.zeros(3)),
    "twice": lambda lib: given_source(lib, lib.zeros(3).set_(lib.ones(4))),
}


@pytest.mark.parametrize("source", SOURCES)
def test_set_gives_a_tensor_the_memory_of_another(assert_agrees, source):
    assert_agrees(SOURCES[source])


CHECKS = ("_check", "_check_index", "_check_not_implemented", "_check_type", "_check_value")


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize(
    "args", [(True,), (False,), (False, lambda: "reason"), (1,), (False, "text"), (True, 3)]
)
def test_checks_raise_the_kinds_of_torch(assert_agrees, name, args):
    assert_agrees(lambda lib: getattr(lib, name)(*args))


def test_the_switch_for_deterministic_algorithms_is_kept(assert_agrees):
    def program(lib):
        try:
            lib.use_deterministic_algorithms(True, warn_only=False)
            return lib.are_deterministic_algorithms_enabled()
        finally:
            lib.use_deterministic_algorithms(False)

    assert_agrees(program)
    assert_agrees(lambda lib: lib.use_deterministic_algorithms("yes"))


FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
EDGES = [0.0, -0.0, 464.0, 465.0, -465.0, 240.0, 249.0, 57344.0, 61440.0, 1e9, -1e9, 2.0**-9, 2.0**-11, 1e-9]
EDGES += [float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FLOAT8)
def test_numbers_beyond_a_float8_format_convert_as_in_torch(assert_agrees, name, source):
    def program(lib):
        dtype = getattr(lib, name)
        x = lib.tensor(EDGES).to(getattr(lib, source))
        stored = lib.zeros(len(EDGES)).to(dtype)
        stored[:] = x
        return [repr(one.float().tolist()) for one in (x.to(dtype), stored, lib.tensor(EDGES, dtype=dtype))]

    assert_agrees(program)


def test_a_conversion_that_saturates_passes_the_gradient_on(assert_agrees):
    def program(lib):
        x = lib.tensor([465.0, 448.0, 2.0, -1e6], requires_grad=True)
        (x.to(lib.float8_e4m3fn).to(lib.float32) * 3).sum().backward()
        return x.grad

    assert_agrees(program)
