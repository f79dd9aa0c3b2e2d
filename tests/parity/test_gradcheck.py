"""gradcheck finds right and wrong what torch's does."""

from __future__ import annotations

import inspect
import itertools

import pytest

import oplib

torch = pytest.importorskip("torch")


def leaf(lib, values, dtype="float64"):
    if lib is oplib and dtype == "float64":
        return lib.tensor(values, requires_grad=True)  # converted by the check
    return lib.tensor(values, dtype=getattr(lib, dtype), requires_grad=True)


def make_function(lib, backward, *, materialize=True):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(materialize)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return backward(ctx.saved_tensors[0], g)

    return Square.apply


def unsteady():
    count = itertools.count()
    return lambda x, g: g * 2 * x * (1 + 1e-8 * next(count))


BACKWARDS = {
    "right": lambda: lambda x, g: g * 2 * x,
    "wrong": lambda: lambda x, g: g * 3 * x,
    "not multiplied": lambda: lambda x, g: g * 2 * x + 1e-7,
    "unsteady": unsteady,
    "detached": lambda: lambda x, g: g * 2 * x.detach(),
    "nan": lambda: lambda x, g: g * float("nan"),
    "half wrong": lambda: lambda x, g: g * 2 * x * (x > 0),
}


@pytest.mark.parametrize(
    ("name", "fast_mode"),
    [*((name, False) for name in BACKWARDS), ("right", True), ("wrong", True), ("half wrong", True)],
)
@pytest.mark.parametrize("check", ["gradcheck", "gradgradcheck"])
def test_right_and_wrong_formulas_are_told_apart_alike(assert_agrees, name, check, fast_mode):
    def program(lib):
        function = make_function(lib, BACKWARDS[name]())
        run = getattr(lib.autograd, check)
        return run(function, leaf(lib, [0.5, -1.5]), raise_exception=False, fast_mode=fast_mode)

    assert_agrees(program)


@pytest.mark.parametrize("options", [{}, {"check_undefined_grad": False}])
def test_undefined_gradients_are_checked_alike(assert_agrees, options):
    def program(lib):
        def backward(x, g):
            if g is None:
                raise RuntimeError("a gradient is needed")
            return g * 2 * x

        function = make_function(lib, backward, materialize=False)
        return lib.autograd.gradcheck(function, leaf(lib, [0.5, -1.5]), raise_exception=False, **options)

    assert_agrees(program)


def test_a_function_that_hides_its_dependence_fails_alike(assert_agrees):
    assert_agrees(
        lambda lib: lib.autograd.gradcheck(lambda x: x.detach() * 2, leaf(lib, [0.5]), raise_exception=False)
    )


PROGRAMS = {
    "no input requires grad": lambda lib: lib.autograd.gradcheck(lambda x: x, lib.ones(2)),
    "nothing to check": lambda lib: lib.autograd.gradcheck(
        lambda x: x, leaf(lib, [1.0]), check_backward_ad=False
    ),
    "batched without backward": lambda lib: lib.autograd.gradcheck(
        lambda x: x, leaf(lib, [1.0]), check_backward_ad=False, check_forward_ad=True, check_batched_grad=True
    ),
    "wrong": lambda lib: lib.autograd.gradcheck(
        make_function(lib, BACKWARDS["wrong"]()), leaf(lib, [0.5, -1.5])
    ),
    "undefined without reverse": lambda lib: lib.autograd.gradgradcheck(
        lambda x: x * x, leaf(lib, [1.0]), check_rev_over_rev=False, check_fwd_over_rev=True
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_are_of_torchs_kinds(assert_agrees, name):
    assert_agrees(PROGRAMS[name])


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_the_options_are_torchs_with_torchs_defaults(name):
    theirs = inspect.signature(getattr(torch.autograd, name)).parameters
    ours = inspect.signature(getattr(oplib.autograd, name)).parameters
    assert list(ours) == list(theirs)
    assert {key: one.default for key, one in ours.items()} == {
        key: one.default for key, one in theirs.items()
    }
    assert [one.kind for one in ours.values()] == [one.kind for one in theirs.values()]
