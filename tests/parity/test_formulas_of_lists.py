"""Formulas of ops with lists of tensors: the same programs on torch and oplib."""

from __future__ import annotations

import pytest

from .programs import Programs
from .worlds import World

pytestmark = pytest.mark.usefixtures("forget_ops")

PROGRAMS = Programs()
LIST_IN = "(Tensor[] xs, Tensor y) -> Tensor"
LIST_OUT = "(Tensor x) -> Tensor[]"


@pytest.mark.parametrize("kind", ["custom", "low", "compiled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_lists_does_what_it_does_on_torch(assert_agrees, name, kind):
    assert_agrees(lambda lib: PROGRAMS[name](World(lib, kind)))


def add_up(xs, y):
    return (xs[0] + xs[1]) * y


# 003.10 to 003.16: lists ------------------------------------------------------------------------------------


@PROGRAMS.add
@pytest.mark.spec("003.10", "003.13")
def lists_of_tensors(world):
    seen = []

    def setup(ctx, inputs, output):
        seen.append((type(inputs[0]).__name__, len(inputs[0]), inputs[1]))

    def formula(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return [grad * 2, None], None, grad

    schema = "(Tensor[] xs, int n, Tensor y) -> Tensor"
    op = world.op(schema, lambda xs, n, y: (xs[0] + xs[1]) * n + y, formula, setup)
    x = world.tensor(1, grad=True)
    op((x, world.tensor(2)), 3, x).sum().backward()
    return seen, x.grad


@PROGRAMS.add
@pytest.mark.spec("003.15")
def an_empty_list(world):
    seen = []

    def formula(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return [], grad

    op = world.op(LIST_IN, lambda xs, y: y * 1, formula)
    op([], x := world.tensor(1, grad=True)).sum().backward()
    return seen, x.grad


LIST_ANSWERS = {
    "lists": lambda grad: ([grad, grad * 2], grad * 3),
    "nones in a list": lambda grad: ([None, None], grad),
    "a tuple": lambda grad: ((grad, grad), grad),
    "none": lambda grad: (None, grad),
    "a short list": lambda grad: ([grad], grad),
    "only the list": lambda grad: [grad, grad],
    "a tensor": lambda grad: (grad, grad),
    "a number in a list": lambda grad: ([grad, 3], grad),
    "one too many": lambda grad: ([grad, grad], grad, None),
    "a list for a tensor": lambda grad: ([grad, grad], [grad]),
}


@pytest.mark.spec("003.13", "003.16")
@pytest.mark.parametrize("kind", ["custom", "low", "compiled"])
@pytest.mark.parametrize("title", LIST_ANSWERS)
def test_answers_of_a_formula_with_lists(assert_agrees, title, kind):
    def run(lib):
        world = World(lib, kind)
        op = world.op(LIST_IN, add_up, lambda ctx, grad: LIST_ANSWERS[title](grad))
        x, y = world.tensor(1, grad=True), world.tensor(1, grad=True)
        op([x, y], y).sum().backward()
        return x.grad, y.grad

    assert_agrees(run)


@PROGRAMS.add
@pytest.mark.spec("003.13")
def lists_of_numbers_beside_lists_of_tensors(world):
    seen = []

    def formula(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return [grad], None

    op = world.op("(Tensor[] xs, int[] n) -> Tensor", lambda xs, n: xs[0] * n[0], formula)
    op([x := world.tensor(1, grad=True)], [3, 4]).sum().backward()
    return seen, x.grad


@PROGRAMS.add
def nones_for_a_list_of_numbers_beside_tensors(world):
    op = world.op(
        "(Tensor[] xs, int[] n) -> Tensor",
        lambda xs, n: xs[0] * n[0],
        lambda ctx, grad: ([grad], [None, None]),
    )
    op([world.tensor(1, grad=True)], [3, 4]).sum().backward()


@PROGRAMS.add
@pytest.mark.spec("D.8")
def defaults_left_out_of_the_gradients(world):
    op = world.op(
        "(Tensor[] xs, int n=1) -> Tensor",
        lambda xs, n=1: (xs[0] + xs[1]) * n,
        lambda ctx, grad: [grad, grad],
    )
    op([x := world.tensor(1, grad=True), x]).sum().backward()
    return x.grad


@PROGRAMS.add
@pytest.mark.spec("003.13", "003.14")
def a_list_of_results(world):
    seen = []

    def formula(ctx, *grads):
        seen.append(
            [type(grad).__name__ if isinstance(grad, list) or grad is None else "array" for grad in grads]
        )
        return grads[0][0] + grads[0][1] * 2 + grads[1] * 3

    schema = "(Tensor x) -> (Tensor[], Tensor, int)"
    op = world.op(schema, lambda x: ([x * 1, x * 2], x * 3, 4), formula)
    x = world.tensor(1, grad=True)
    (_, second), _, number = op(x)
    second.sum().backward()
    return seen, x.grad, number


@PROGRAMS.add
@pytest.mark.spec("003.14")
def only_a_list_of_results(world):
    seen = []

    def formula(ctx, grads):
        seen.append([grad is None for grad in grads])
        return grads[0]

    op = world.op(LIST_OUT, lambda x: (x * 1, x * 2), formula)
    x = world.tensor(1, grad=True)
    results = op(x)
    results[0].sum().backward()
    world.formula(op, formula, lambda ctx, inputs, output: ctx.set_materialize_grads(False))
    op(x)[0].sum().backward()
    return seen, x.grad, type(results).__name__, [result.requires_grad for result in results]


@PROGRAMS.add
@pytest.mark.spec("003.14")
def an_empty_list_of_results(world):
    seen = []

    def formula(ctx, grads, grad):
        seen.append(grads)
        return grad * 3

    op = world.op("(Tensor x) -> (Tensor[], Tensor)", lambda x: ([], x * 3), formula)
    results, result = op(x := world.tensor(1, grad=True))
    result.sum().backward()
    return seen, x.grad, results


@PROGRAMS.add
@pytest.mark.spec("003.15")
def a_full_list_of_optional_tensors(world):
    op = world.op("(Tensor?[] xs) -> Tensor", lambda xs: xs[0] + xs[1], lambda ctx, grad: [grad, grad * 2])
    op([x := world.tensor(1, grad=True), x]).sum().backward()
    return x.grad


@pytest.mark.spec("003.12")
def test_a_name_of_ctx_is_reserved(assert_agrees):
    def run(lib):
        def setup(ctx, inputs, output):
            ctx._pt_metadata = 1

        world = World(lib)
        op = world.op("(Tensor[] xs) -> Tensor", lambda xs: xs[0] * 1, lambda ctx, grad: [grad], setup)
        op([world.tensor(1, grad=True)])

    assert_agrees(run)


# 003.19: what can have a formula ----------------------------------------------------------------------------


@pytest.mark.spec("003.19")
@pytest.mark.parametrize("kind", ["custom", "low"])
def test_an_op_that_writes_has_none(assert_agrees, kind):
    writes = {} if kind == "low" else {"writes": ("x",)}
    assert_agrees(
        lambda lib: World(lib, kind).op(
            "(Tensor(a!) x) -> ()", lambda x: None, lambda ctx, grad: grad, **writes
        )
    )


@pytest.mark.spec("003.19")
def test_a_tensor_by_keyword_has_none(assert_agrees):
    assert_agrees(
        lambda lib: World(lib, "low").op(
            "(*, Tensor x) -> Tensor", lambda *, x: x * 1, lambda ctx, grad: grad
        )
    )


def test_an_unknown_op_has_none(assert_agrees):
    assert_agrees(
        lambda lib: lib.library.register_autograd(f"{World(lib).namespace}::none", lambda ctx, grad: grad)
    )


@pytest.mark.spec("003.19")
def test_a_result_that_is_an_input_is_refused_under_a_formula(assert_agrees):
    assert_agrees(
        lambda lib: World(lib).op("(Tensor x) -> Tensor", lambda x: x, lambda ctx, grad: grad)(
            World(lib).tensor(1, grad=True)
        )
    )
