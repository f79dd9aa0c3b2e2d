"""Calling an op: the arguments that reach the kernel, the results that come out, and the calls that fail."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oplib
import oplib.errors

from .worlds import World

pytestmark = pytest.mark.usefixtures("forget_ops")


def see(lib, schema, args, kwargs):
    """Returns the arguments that a kernel gets, with their types."""
    world = World(lib)
    seen = []
    op = world.custom(f"{schema} -> ()", lambda *args, **kwargs: seen.append((args, kwargs)))
    op(
        *(make(world, value) for value in args),
        **{name: make(world, value) for name, value in kwargs.items()},
    )
    (args, kwargs) = seen[0]
    return tuple(map(name_type, args)), {name: name_type(value) for name, value in kwargs.items()}


def make(world, value):
    return value(world) if callable(value) and not isinstance(value, type) else value


def name_type(value):
    if isinstance(value, list):
        return [name_type(item) for item in value]
    return type(value).__name__, value


def tensor(*values):
    return lambda world: world.tensor(*values)


def integers(value):
    return lambda world: world.lib.tensor(value)


def listed(*makers):
    return lambda world: [make(world, maker) for maker in makers]


CONVERSIONS = [
    ("int", 3),
    ("int", True),
    ("int", np.int32(3)),
    ("int", np.float64(3.0)),
    ("int", np.float32(3.0)),
    ("int", np.array(3)),
    ("int", integers(3)),
    ("int", integers([3])),
    ("int", integers([3, 4])),
    ("int", tensor(3)),
    ("int", 3.0),
    ("int", "3"),
    ("int", None),
    ("int", 3j),
    ("int", 2**63),
    ("int", -(2**63)),
    ("int", -(2**63) - 1),
    ("float", 3),
    ("float", True),
    ("float", np.float32(1.5)),
    ("float", np.int64(1)),
    ("float", tensor(1.5)),
    ("float", integers([2])),
    ("float", 2**70),
    ("float", "1"),
    ("float", None),
    ("float", 1j),
    ("bool", True),
    ("bool", 3),
    ("bool", 0.0),
    ("bool", np.bool_(True)),
    ("bool", integers(True)),
    ("bool", "x"),
    ("str", "a"),
    ("str", b"ab"),
    ("str", 1),
    ("str", None),
    ("Scalar", 3),
    ("Scalar", 3.5),
    ("Scalar", True),
    ("Scalar", 3j),
    ("Scalar", np.float32(1)),
    ("Scalar", np.float64(1)),
    ("Scalar", tensor(1)),
    ("Scalar", "a"),
    ("complex", 3),
    ("ScalarType", "flot32"),
    ("ScalarType", float),
    ("ScalarType", np.float32),
    ("Device", 0),
    ("Device", None),
    ("int?", None),
    ("int?", 3),
    ("int[]", [1, 2]),
    ("int[]", (1, 2)),
    ("int[]", range(3)),
    ("int[]", np.array([1, 2])),
    ("int[]", {1}),
    ("int[]", lambda world: (number for number in (1, 2))),
    ("int[]", [True, 2]),
    ("int[]", listed(integers(1))),
    ("int[]", integers([1, 2])),
    ("int[]", 3),
    ("int[]", [1.5]),
    ("int[]", "ab"),
    ("int[]", {1: 2}),
    ("int[]", [None]),
    ("int[]?", None),
    ("int[]?", (1, 2)),
    ("int?[]", [1, None]),
    ("int[][]", [[1], [2, 3]]),
    ("float[]", [1, 2.5, True]),
    ("float[]", np.array([1.0, 2.0])),
    ("bool[]", [True, 0]),
    ("str[]", ["a", "b"]),
    ("Scalar[]", [1, 2.5, True]),
    ("int[2]", 3),
    ("int[2]", True),
    ("int[2]", [3, 4]),
    ("int[2]", [3, 4, 5]),
    ("int[2]", [3]),
    ("int[2]", 1.5),
    ("Tensor", tensor(1, 2)),
    ("Tensor", [1.0, 2.0]),
    ("Tensor", "a"),
    ("Tensor?", None),
    ("Tensor[]", lambda world: (world.tensor(1), world.tensor(2))),
    ("Tensor[]", lambda world: (world.tensor(number) for number in (1, 2))),
    ("Tensor[]", []),
    ("Tensor[]", tensor(1, 2)),
    ("Tensor[]", listed(tensor(1), None)),
    ("Tensor[]", listed(tensor(1), 3)),
    ("Tensor?[]", listed(tensor(1), None)),
    ("Tensor[]?", None),
    ("(int, float)", (1, 2)),
    ("(int, float)", (1, 2, 3)),
]


@pytest.mark.parametrize(("type_", "value"), CONVERSIONS)
def test_a_value_reaches_the_kernel_as_in_torch(assert_agrees, type_, value):
    assert_agrees(lambda lib: see(lib, f"({type_} v)", (value,), {}))


BINDINGS = {
    "keywords by schema name": ("(Tensor x, int n)", (), {"n": 3, "x": tensor(1)}),
    "keyword-only": ("(Tensor x, *, int n)", (tensor(1),), {"n": 3}),
    "missing": ("(Tensor x, int n)", (tensor(1),), {}),
    "nothing": ("(Tensor x)", (), {}),
    "missing before a keyword": ("(Tensor x, int n)", (), {"n": 3}),
    "missing keyword-only": ("(Tensor x, *, int n)", (tensor(1),), {}),
    "too many": ("(Tensor x, int n)", (tensor(1), 1, 2), {}),
    "too many for nothing": ("()", (1,), {}),
    "keyword-only by position": ("(Tensor x, *, int n)", (tensor(1), 1), {}),
    "twice": ("(Tensor x, int n)", (tensor(1), 1), {"n": 2}),
    "unknown": ("(Tensor x, int n)", (tensor(1), 1), {"q": 2}),
}


@pytest.mark.parametrize("title", BINDINGS)
def test_arguments_are_bound_as_in_torch(assert_agrees, title):
    assert_agrees(lambda lib: see(lib, *BINDINGS[title]))


def test_python_parameters_may_have_other_names_than_the_schema(assert_agrees):
    def program(lib):
        world = World(lib)
        op = world.custom("(Tensor x, int n) -> Tensor", lambda first, second: first * second)
        return op(n=3, x=world.tensor(2)), op(world.tensor(2), n=4)

    assert_agrees(program)


def test_keyword_only_parameters_have_the_names_of_the_schema(assert_agrees):
    def program(lib):
        world = World(lib)
        return world.custom("(Tensor x, *, int n) -> Tensor", lambda x, *, other: x)(world.tensor(2), n=3)

    assert_agrees(program)


def test_the_kernel_gets_the_very_tensors_in_fresh_lists(assert_agrees):
    def program(lib):
        world = World(lib)
        x, given = world.tensor(1, grad=True), []

        def kernel(first, many, maybe):
            given.extend([first is x, many[0] is x, maybe is x, first.requires_grad])
            many.append(3)

        many = [x]
        world.custom("(Tensor a, Tensor[] b, Tensor? c) -> ()", kernel)(x, many, x)
        return given, len(many)

    assert_agrees(program)


# Results ----------------------------------------------------------------------------------------------------

RESULTS = {
    "a list for a pair": ("(Tensor, Tensor)", lambda w, x: [x * 1, x * 2]),
    "a tuple for a list": ("Tensor[]", lambda w, x: (x * 1, x * 2)),
    "a generator for a list": ("Tensor[]", lambda w, x: (x * n for n in (1, 2))),
    "an empty list": ("Tensor[]", lambda w, x: ()),
    "True for an int": ("int", lambda w, x: True),
    "an int for a float": ("float", lambda w, x: 3),
    "a float for an int": ("int", lambda w, x: 3.0),
    "numpy's int": ("int", lambda w, x: np.int64(3)),
    "numpy's float": ("float", lambda w, x: np.float32(3)),
    "a tensor for an int": ("int", lambda w, x: w.lib.tensor(3)),
    "a tensor for a float": ("float", lambda w, x: w.lib.tensor(3.0)),
    "a text for an int": ("int", lambda w, x: "a"),
    "a text": ("str", lambda w, x: "a"),
    "any number": ("Scalar", lambda w, x: 3.5),
    "a complex": ("complex", lambda w, x: 3.5j),
    "a tuple of ints": ("int[]", lambda w, x: (1, True)),
    "floats": ("float[]", lambda w, x: [1, 2]),
    "an absent tensor": ("Tensor?", lambda w, x: None),
    "an absent int": ("int?", lambda w, x: None),
    "a present tensor": ("Tensor?", lambda w, x: x * 1),
    "a number for a tensor": ("Tensor", lambda w, x: 3),
    "numpy for a tensor": ("Tensor", lambda w, x: np.ones(2, np.float32)),
    "a list for a tensor": ("Tensor", lambda w, x: [x * 1]),
    "a tensor for a list": ("Tensor[]", lambda w, x: x * 1),
    "None for a list": ("Tensor[]", lambda w, x: None),
    "something for nothing": ("()", lambda w, x: x * 1),
    "an empty tuple for nothing": ("()", lambda w, x: ()),
    "nothing": ("()", lambda w, x: None),
    "a number for a pair": ("(Tensor, Tensor)", lambda w, x: 3),
    "None for a pair": ("(Tensor, Tensor)", lambda w, x: None),
    "a tensor and an int": ("(Tensor, int)", lambda w, x: (x * 1, True)),
    "a tensor and a text": ("(Tensor, int)", lambda w, x: (x * 1, "a")),
    "nested": ("(Tensor, Tensor[], float)", lambda w, x: (x * 1, (x * 2, x * 3), 1)),
    "a one-tuple": ("((Tensor))", lambda w, x: (x * 1,)),
    "no one-tuple": ("((Tensor))", lambda w, x: x * 1),
    "parentheses": ("(Tensor)", lambda w, x: x * 1),
    "names": ("(Tensor first, Tensor second)", lambda w, x: (x * 1, x * 2)),
    "optional tensors": ("Tensor?[]", lambda w, x: [x * 1, None]),
}


@pytest.mark.parametrize("kind", ["custom", "low"])
@pytest.mark.parametrize("title", RESULTS)
def test_results_have_torchs_form(assert_agrees, title, kind):
    returns, result = RESULTS[title]

    def program(lib):
        world = World(lib, kind)
        given = world.op(f"(Tensor x) -> {returns}", lambda x: result(world, x))(world.tensor(1, 2))
        kinds = (
            [type(one).__name__ for one in given]
            if isinstance(given, (list, tuple))
            else type(given).__name__
        )
        return type(given).__name__, kinds, given

    assert_agrees(program)


ALIASES = {
    "the input": ("(Tensor x) -> Tensor", lambda x: x, 1),
    "an empty input": ("(Tensor x) -> Tensor", lambda x: x, 0),
    "a detached input": ("(Tensor x) -> Tensor", lambda x: x.detach(), 1),
    "in a list": ("(Tensor x) -> Tensor[]", lambda x: [x], 1),
    "another result": ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x * 1,) * 2, 1),
    "another result of the list": ("(Tensor x) -> Tensor[]", lambda x: [x * 1] * 2, 1),
    "declared": ("(Tensor(a) x) -> Tensor(a)", lambda x: x.detach(), 1),
}


@pytest.mark.parametrize("title", ALIASES)
def test_a_result_may_not_alias_what_the_schema_does_not_say(assert_agrees, title):
    schema, kernel, size = ALIASES[title]

    def program(lib):
        world = World(lib)
        return world.custom(schema, kernel)(world.lib.ones(size))

    assert_agrees(program)


def test_errors_of_a_kernel_keep_their_type(assert_agrees):
    def program(lib, grad):
        def kernel(x):
            raise KeyError("text")

        return World(lib).custom("(Tensor x) -> Tensor", kernel)(World(lib).tensor(1, grad=grad))

    assert_agrees(lambda lib: program(lib, grad=False))
    assert_agrees(lambda lib: program(lib, grad=True))


# Kernels for devices, factories, packets --------------------------------------------------------------------


def make_ones(world):
    return lambda n, device: world.lib.ones(n, device=device)


def low(schema, key, *args):
    return lambda world: world.low(schema, lambda *values: 1, key=key)(
        *(make(world, value) for value in args)
    )


def custom(schema, devices, *args, **kwargs):
    def program(world):
        op = world.custom(
            schema, make_ones(world) if "device" in schema else lambda *_: 1, device_types=devices
        )
        return op(*(make(world, value) for value in args), **kwargs)

    return program


def both_kernels(schema, *args):
    def program(world):
        op = world.low(schema, lambda *values: 1, key="CPU", name="f")
        world.library("IMPL").impl("f", lambda *values: 2, "CompositeExplicitAutograd")
        return op(*(make(world, value) for value in args))

    return program


DEVICES = {
    "no kernel": custom("(Tensor x) -> int", [], tensor(1)),
    "another device": custom("(Tensor x) -> int", "cuda", tensor(1)),
    "one of the devices": custom("(Tensor x) -> int", ["cuda", "cpu"], tensor(1)),
    "an empty list": custom("(Tensor[] x) -> int", "cpu", []),
    "an absent tensor": custom("(Tensor? x) -> int", "cpu", None),
    "an absent tensor, any device": custom("(Tensor? x) -> int", None, None),
    "no kernel for numbers": lambda world: world.low("(int x) -> int")(1),
    "a device kernel for numbers": low("(int x) -> int", "CPU", 1),
    "a device kernel for an empty list": low("(Tensor[] x) -> int", "CPU", []),
    "the device goes first": both_kernels("(Tensor x) -> int", tensor(1)),
    "the default without a tensor": both_kernels("(int x) -> int", 1),
    "a composite kernel": low("(Tensor x) -> int", "CompositeImplicitAutograd", tensor(1)),
    "a factory": custom("(int n, Device device) -> Tensor", "cpu", 2, "cpu"),
    "a factory by keyword": custom("(int n, Device device) -> Tensor", "cpu", n=2, device="cpu"),
    "a factory for another device": custom("(int n, Device device) -> Tensor", "cpu", 2, "cuda"),
    "a factory without device": custom("(int n) -> int", "cpu", 2),
    "a factory with a device of another name": custom("(int n, Device dev) -> int", "cpu", 2, "cpu"),
    "a factory for all devices": custom("(int n) -> int", None, 2),
}
DEVICES["a device that steers nothing"] = lambda world: world.custom(
    "(Tensor x, Device device) -> int", lambda x, device: 1, device_types="cpu"
)(world.tensor(1), "cuda")


@pytest.mark.parametrize("title", DEVICES)
def test_kernels_are_chosen_as_in_torch(assert_agrees, title):
    assert_agrees(lambda lib: DEVICES[title](World(lib)))


def test_a_packet_calls_the_first_overload_that_fits(assert_agrees):
    def program(lib):
        world = World(lib)
        op = world.low("(Tensor x) -> int", lambda x: 1, name="f")
        world.low("(Tensor x, int n) -> int", lambda x, n: 2, name="f.two")
        world.low("(Tensor x, float n) -> int", lambda x, n: 3, name="f.three")
        world.low("(Tensor x, *, str s) -> int", lambda x, *, s: 4, name="f.four")
        x = world.tensor(1)
        return op(x), op(x, 3), op(x, 3.5), op(x, s="a"), op.overloads(), op.three(x, 3)

    assert_agrees(program)


def test_a_packet_without_a_fit_raises(assert_agrees):
    def program(lib):
        world = World(lib)
        op = world.low("(Tensor x) -> int", lambda x: 1, name="f")
        world.low("(Tensor x, int n) -> int", lambda x, n: 2, name="f.two")
        return op("a", "b")

    assert_agrees(program)


def test_an_error_inside_a_kernel_ends_the_search(assert_agrees):
    def program(lib):
        def kernel(x):
            raise RuntimeError("inside")

        world = World(lib)
        op = world.low("(Tensor x) -> int", kernel, name="f")
        world.low("(Tensor x, int n=1) -> int", lambda x, n=1: 2, name="f.two")
        return op(world.tensor(1))

    assert_agrees(program)


@pytest.mark.parametrize("wrap", [torch.Tensor, torch.nn.Parameter])
def test_a_tensor_of_torch_among_ours_is_refused_with_the_cure(wrap):
    ours, theirs = oplib.ones(2), wrap(torch.ones(2))
    calls = {
        "exp": lambda: oplib.exp(theirs),
        "add": lambda: ours.add(theirs),
        "left": lambda: ours + theirs,
        "right": lambda: theirs + ours,
        "list": lambda: oplib.cat([ours, theirs]),
        "values": lambda: oplib.bincount(theirs),
        "places": lambda: oplib.gather(ours, 0, theirs),
    }
    for call in calls.values():
        with pytest.raises(oplib.errors.ArgumentTypeError, match=r"torch\.float32\[2\].* oplib\.tensor\(t\)"):
            call()
