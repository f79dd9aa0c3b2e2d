"""opcheck accepts what torch's accepts, and finds with the same tests what that finds."""

from __future__ import annotations

import itertools

import pytest

import oplib

from .worlds import World

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("forget_ops")

TORCHS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def make(world, kernel, *, fake=None, formula=None, writes=()):
    schema = "(Tensor(a!) x) -> ()" if writes else "(Tensor x) -> Tensor"
    op = world.custom(schema, kernel, writes=writes)
    if not writes:
        op.register_fake(fake or (lambda x: world.lib.empty_like(x)))
    if formula is not None:
        op.register_autograd(formula, setup_context=save)
    return op


def outcome(world, op, args, test_utils=TORCHS):
    """Returns the tests of torch that succeed."""
    results = world.lib.library.opcheck(op, args, test_utils=test_utils, raise_exception=False)
    return {name: not isinstance(result, Exception) for name, result in results.items()}


def right(ctx, g):
    return g * 2 * ctx.saved_tensors[0]


def stateful():
    count = itertools.count(1)
    return lambda x: x * next(count)


def write_one(x):
    x.add_(1)


OPS = {
    "right": lambda world: (make(world, lambda x: x * x, formula=right), True),
    "no formula": lambda world: (make(world, lambda x: x * x), True),
    "no formula, none needed": lambda world: (make(world, lambda x: x * x), False),
    "undeclared write": lambda world: (make(world, lambda x: x.add_(1) * 2), False),
    "returns its argument": lambda world: (make(world, lambda x: x), False),
    "declared write": lambda world: (make(world, write_one, writes=("x",)), False),
    "declared, not written": lambda world: (make(world, lambda x: None, writes=("x",)), False),
    "state": lambda world: (make(world, stateful()), False),
    "formula raises": lambda world: (make(world, lambda x: x * x, formula=lambda ctx, g: 1 / 0), True),
}
SAME_TESTS = {
    "right": TORCHS,
    "no formula": TORCHS,
    "no formula, none needed": TORCHS,
    "undeclared write": TORCHS[:1],
    "returns its argument": TORCHS[:1],
    "declared write": TORCHS,
    "declared, not written": TORCHS,
    "state": TORCHS,
    "formula raises": TORCHS,
}


@pytest.mark.parametrize("name", OPS)
def test_the_same_tests_fail(assert_agrees, name):
    def program(lib):
        world = World(lib)
        op, grad = OPS[name](world)
        return outcome(world, op, (world.tensor(1, 2, grad=grad),), SAME_TESTS[name])

    assert_agrees(program)


@pytest.mark.parametrize(
    "fake",
    [lambda lib, x: lib.empty(3), lambda lib, x: lib.empty(2, dtype=lib.int32)],
    ids=["shape", "dtype"],
)
def test_a_wrong_fake_kernel_fails_its_test_and_not_that_of_the_schema(assert_agrees, fake):
    def program(lib):
        world = World(lib)
        op = make(world, lambda x: x * x, fake=lambda x: fake(lib, x))
        return outcome(world, op, (world.tensor(1, 2),), TORCHS[:3])

    assert_agrees(program)


def test_a_missing_fake_kernel_fails_its_test_where_none_can_be_derived(assert_agrees):
    def program(lib):
        world = World(lib)
        op = world.custom("(Tensor x) -> Tensor", lambda x: x * float(x.sum()))
        return outcome(world, op, (world.tensor(1, 2),), TORCHS[:3])

    assert_agrees(program)


CALLS = {
    "name": lambda lib, op, x: lib.library.opcheck("world::op", (x,)),
    "function": lambda lib, op, x: lib.library.opcheck(lambda x: x, (x,)),
    "several overloads": lambda lib, op, x: lib.library.opcheck(
        oplib.ops.oplib.add if lib is oplib else lib.ops.aten.add, (x, x)
    ),
    "unknown test": lambda lib, op, x: lib.library.opcheck(op, (x,), test_utils="test_magic"),
    "set": lambda lib, op, x: lib.library.opcheck(op, (x,), test_utils={"test_schema"}),
    "rtol alone": lambda lib, op, x: lib.library.opcheck(op, (x,), rtol=1e-3),
    "zero tolerances": lambda lib, op, x: lib.library.opcheck(op, (x,), rtol=0, atol=0, test_utils=TORCHS),
    "none": lambda lib, op, x: lib.library.opcheck(op, (x,), test_utils=()),
    "one": lambda lib, op, x: lib.library.opcheck(op, (x,), test_utils="test_schema"),
    "list": lambda lib, op, x: lib.library.opcheck(op, (x,), test_utils=["test_schema", "test_faketensor"]),
    "overload": lambda lib, op, x: lib.library.opcheck(op._opoverload, (x,), test_utils=TORCHS),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_taken_and_refused_alike(assert_agrees, name):
    def program(lib):
        world = World(lib)
        results = CALLS[name](lib, make(world, lambda x: x * x), world.tensor(1, 2))
        # torch calls a test a success that had nothing to check
        return {name: "SUCCESS" if "SKIPPED" in result else result for name, result in results.items()}

    assert_agrees(program)


def test_a_failure_holds_the_error_of_its_test(assert_agrees):
    def program(lib):
        world = World(lib)
        op = make(world, lambda x: x.add_(1) * 2)
        given = world.tensor(1, 2)
        try:
            lib.library.opcheck(op, (given,))
        except Exception as error:  # noqa: BLE001  whatever it is, both are looked at
            text = "test_schema failed with" in str(
                error
            ) and "not defined as mutable but was mutated" in str(error)
            cause = isinstance(error.failure if lib is oplib else error.__cause__, RuntimeError)
            return type(error).__name__, text, cause, given.tolist(), given._version
        return None

    assert_agrees(program)
