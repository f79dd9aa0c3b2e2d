"""Formulas of registered ops: the same programs on torch and oplib."""

from __future__ import annotations

import math

import pytest

from .programs import Programs
from .worlds import World

pytestmark = pytest.mark.usefixtures("forget_ops")

ANY_KIND = Programs()
NOT_COMPILED = Programs()  # a compiled formula is traced: it has arrays without values, and no Tensors


@pytest.mark.parametrize("kind", ["custom", "low", "compiled"])
@pytest.mark.parametrize("name", ANY_KIND)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name, kind):
    assert_agrees(lambda lib: ANY_KIND[name](World(lib, kind)))


@pytest.mark.parametrize("kind", ["custom", "low"])
@pytest.mark.parametrize("name", NOT_COMPILED)
def test_a_program_with_a_formula_on_tensors_does_what_it_does_on_torch(assert_agrees, name, kind):
    assert_agrees(lambda lib: NOT_COMPILED[name](World(lib, kind)))


ONE = "(Tensor x) -> Tensor"
TWO = "(Tensor x, Tensor y) -> Tensor"
SCALED = "(Tensor x, float k=2.0) -> Tensor"
PAIR = "(Tensor x) -> (Tensor, Tensor)"


def same(x):
    return x * 1


def scale(x, k=2.0):
    return x * k


def gradient_of(world, op, *args, **kwargs):
    """The gradient of the first argument, a new leaf."""
    x = world.tensor(1, 2, grad=True)
    op(x, *args, **kwargs).sum().backward()
    return x.grad


def answer(schema, kernel, formula, *args):
    """A program that has the formula of an op on one tensor answer with something."""

    def run(world):
        op = world.op(schema, kernel, lambda ctx, *grads: formula(world, *grads))
        return gradient_of(world, op, *(arg(world) if callable(arg) else arg for arg in args))

    return run


# 003.6: setup -----------------------------------------------------------------------------------------------


@ANY_KIND.add
@pytest.mark.spec("003.6", "003.18")
def setup_gets_inputs_with_defaults(world):
    seen = []

    def setup(*, ctx, inputs, output):
        seen.append((len(inputs), type(inputs).__name__, inputs[1]))
        ctx.k = inputs[1]

    op = world.op(SCALED, scale, lambda ctx, grad: (grad * ctx.k, None), setup)
    return gradient_of(world, op), gradient_of(world, op, 3.0), seen


@ANY_KIND.add
@pytest.mark.spec("003.6")
def setup_is_called_by_keyword(world):
    op = world.op(SCALED, scale, lambda ctx, grad: (grad, None), lambda c, i, o: None)
    op(world.tensor(1, grad=True))


@ANY_KIND.add
@pytest.mark.spec("003.6", "003.18")
def keyword_only_inputs(world):
    seen = []

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs), keyword_only_inputs))
        ctx.k = keyword_only_inputs["k"]

    schema = "(Tensor x, *, float k=2.0, str mode='a', ScalarType? dtype=None) -> Tensor"
    op = world.op(
        schema, lambda x, *, k=2.0, mode="a", dtype=None: x * k, lambda ctx, grad: grad * ctx.k, setup
    )
    return gradient_of(world, op, k=5.0), seen


@ANY_KIND.add
@pytest.mark.spec("003.6")
def setup_without_keyword_only_inputs(world):
    op = world.op(
        "(Tensor x, *, float k=2.0) -> Tensor",
        lambda x, *, k=2.0: x * k,
        lambda ctx, grad: grad,
        lambda ctx, inputs, output: None,
    )
    op(world.tensor(1, grad=True))


@ANY_KIND.add
@pytest.mark.spec("003.5", "003.9")
def setup_runs_only_where_a_gradient_is_needed(world):
    seen = []
    op = world.op(SCALED, scale, lambda ctx, grad: (grad, None), lambda ctx, inputs, output: seen.append(1))
    op(world.tensor(1))
    with world.lib.no_grad():
        result = op(world.tensor(1, grad=True))
    return seen, result.requires_grad, result.grad_fn


@NOT_COMPILED.add
@pytest.mark.spec("003.6")
def setup_sees_the_callers_tensors(world):  # and, unlike torch's, records what it computes (D.51)
    seen = []

    def setup(ctx, inputs, output):
        seen.extend([inputs[0] is x, inputs[1][0] is x, inputs[0].requires_grad])

    schema = "(Tensor x, Tensor[] xs) -> Tensor"
    op = world.op(schema, lambda x, xs: x * 1, lambda ctx, grad: (grad, [None]), setup)
    x = world.tensor(1, grad=True)
    return op(x, (x,)).requires_grad, seen


# 003.7: the formula -----------------------------------------------------------------------------------------


@ANY_KIND.add
def a_formula_without_setup(world):
    return gradient_of(world, world.op(SCALED, scale, lambda ctx, grad: (grad * 7, None)))


@ANY_KIND.add
@pytest.mark.spec("003.7", "D.15")
def needs_input_grad(world):
    seen = []

    def formula(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return grad, None, grad

    op = world.op("(Tensor x, float k, Tensor y) -> Tensor", lambda x, k, y: x * k * y, formula)
    gradient_of(world, op, 3.0, world.tensor(1, 2))
    op(world.tensor(1, 2), 3.0, world.tensor(1, 2, grad=True)).sum().backward()
    return seen


@ANY_KIND.add
@pytest.mark.spec("003.9")
def arguments_by_keyword(world):
    op = world.op(TWO, lambda x, y: x * y, lambda ctx, grad: (grad * 3, grad * 5))
    x, y = world.tensor(1, grad=True), world.tensor(1, grad=True)
    op(y=y, x=x).sum().backward()
    return x.grad, y.grad


@ANY_KIND.add
@pytest.mark.spec("003.7")
def without_a_formula(world):
    if world.kind == "low":
        return  # torch goes on through the ops of the kernel, with a warning
    op = world.op(SCALED, scale)
    result = op(world.tensor(1, grad=True))
    assert result.requires_grad
    result.sum().backward()


@NOT_COMPILED.add
def grad_mode_in_the_formula(world):
    seen = []

    def formula(ctx, grad):
        seen.append(world.lib.is_grad_enabled())
        return grad * 2

    op = world.op(ONE, same, formula)
    x = world.tensor(1, grad=True)
    op(x).sum().backward()
    world.lib.autograd.grad(op(x).sum(), x, create_graph=True)
    return seen


@ANY_KIND.add
@pytest.mark.spec("003.7")
def higher_orders(world):
    def formula(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

    op = world.op(
        ONE, lambda x: x * x * x, formula, lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )
    x = world.tensor(2, 3, grad=True)
    grads, total = [], op(x).sum()
    for _ in range(3):
        (grad,) = world.lib.autograd.grad(total, x, create_graph=True)
        grads.append(grad.detach())
        total = grad.sum()
    return grads


@ANY_KIND.add
def higher_orders_through_the_output(world):
    def formula(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * grad

    op = world.op(
        ONE, lambda x: math.e**x, formula, lambda ctx, inputs, output: ctx.save_for_backward(output)
    )
    x = world.tensor(0.5, 1, grad=True)
    (first,) = world.lib.autograd.grad(op(x).sum(), x, create_graph=True)
    (second,) = world.lib.autograd.grad(first.sum(), x)
    return first.detach(), second


@ANY_KIND.add
@pytest.mark.spec("004.5")
def an_error_in_the_formula_keeps_its_type(world):
    def formula(ctx, grad):
        raise KeyError("formula")

    gradient_of(world, world.op(ONE, same, formula))


ANSWERS = {
    "none": answer(ONE, same, lambda w, grad: None),
    "none for both": answer(SCALED, scale, lambda w, grad: (None, None)),
    "too few": answer(TWO, lambda x, y: x * y, lambda w, grad: grad, lambda w: w.tensor(1, 2, grad=True)),
    "extra none": answer(ONE, same, lambda w, grad: (grad, None, None)),
    "extra tensor": answer(ONE, same, lambda w, grad: (grad, grad)),
    "for an int": answer("(Tensor x, int n) -> Tensor", scale, lambda w, grad: (grad, grad), 3),
    "for none": answer(
        "(Tensor x, Tensor? y) -> Tensor", lambda x, y: x * 1, lambda w, grad: (grad, grad), None
    ),
    "a number": answer(ONE, same, lambda w, grad: 3.0),
    "a list": answer(ONE, same, lambda w, grad: [grad]),
    "a tuple in a tuple": answer(ONE, same, lambda w, grad: ((grad,),)),
    "a wrong shape": answer(ONE, same, lambda w, grad: grad.reshape(2, 1)),
    "unwanted": answer(TWO, lambda x, y: x * y, lambda w, grad: (grad, grad), lambda w: w.tensor(1, 2)),
    "for an optional": answer(
        "(Tensor x, Tensor? y=None) -> Tensor", lambda x, y=None: x * 1, lambda w, grad: (grad * 2, None)
    ),
    "for integers": answer(
        TWO, lambda x, i: x * i, lambda w, grad: (grad, None), lambda w: w.lib.tensor([1, 2])
    ),
    "for a list of numbers": answer(
        "(Tensor x, int[] n) -> Tensor", lambda x, n: x * n[0], lambda w, grad: (grad, None), [3, 4]
    ),
    "nones for a list of numbers": answer(
        "(Tensor x, int[] n) -> Tensor", lambda x, n: x * n[0], lambda w, grad: (grad, [None, None]), [3, 4]
    ),
}


@pytest.mark.spec("003.7")
@pytest.mark.parametrize("kind", ["custom", "low", "compiled"])
@pytest.mark.parametrize("title", ANSWERS)
def test_what_a_formula_answers_is_taken_or_refused_as_in_torch(assert_agrees, title, kind):
    assert_agrees(lambda lib: ANSWERS[title](World(lib, kind)))


@NOT_COMPILED.add
def gradients_of_another_shape_are_refused(world):
    return gradient_of(world, world.op(ONE, same, lambda ctx, grad: world.tensor(1, 2, 3)))


@NOT_COMPILED.add
def gradients_are_cast(world):
    grad = gradient_of(world, world.op(ONE, same, lambda ctx, grad: grad.to(world.lib.float16)))
    return grad, str(grad.dtype).rpartition(".")[2]


# ctx --------------------------------------------------------------------------------------------------------


@ANY_KIND.add
def attributes_of_ctx(world):
    def setup(ctx, inputs, output):
        ctx.x, ctx.factors = inputs[0], [1, 2]

    op = world.op(ONE, lambda x: x * x, lambda ctx, grad: grad * ctx.factors[1] * ctx.x, setup)
    return gradient_of(world, op)


@ANY_KIND.add
def a_missing_attribute(world):
    gradient_of(world, world.op(ONE, same, lambda ctx, grad: grad * ctx.nothing))


@ANY_KIND.add
def saving_no_tensor(world):
    setup = lambda ctx, inputs, output: ctx.save_for_backward(3)  # noqa: E731
    gradient_of(world, world.op(ONE, same, lambda ctx, grad: grad, setup))


@NOT_COMPILED.add
def saved_tensors(world):
    seen = []

    def formula(ctx, grad):
        x, nothing, result = ctx.saved_tensors
        seen.extend([x is leaf, nothing, result.tolist(), x.requires_grad, result.requires_grad, x.is_leaf])
        return grad

    setup = lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], None, output)  # noqa: E731
    op = world.op(ONE, same, formula, setup)
    leaf = world.tensor(3, grad=True)
    op(leaf).sum().backward()
    return seen


@ANY_KIND.add
def a_result_marked_non_differentiable(world):
    def formula(ctx, first, second):
        return first * 2 + second

    setup = lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1])  # noqa: E731
    op = world.op(PAIR, lambda x: (x * 2, x * 3), formula, setup)
    x = world.tensor(1, grad=True)
    first, second = op(x)
    first.sum().backward()
    return first.requires_grad, second.requires_grad, x.grad


@ANY_KIND.add
def gradients_of_unused_results(world):
    def formula(ctx, first, second):
        return first * 2 if second is None else first * 2 + second + 10

    op = world.op(PAIR, lambda x: (x * 2, x * 3), formula)
    x = world.tensor(1, grad=True)
    op(x)[0].sum().backward()
    world.formula(op, formula, lambda ctx, inputs, output: ctx.set_materialize_grads(False))
    op(x)[0].sum().backward()
    return x.grad


@ANY_KIND.add
def results_that_are_no_floats(world):
    def formula(ctx, grad, whole, number):
        return grad if number is None else None

    schema = "(Tensor x) -> (Tensor, Tensor, int)"
    op = world.op(schema, lambda x: (x * 2, x > 1, 3), formula)
    x = world.tensor(1, 2, grad=True)
    result, flags, number = op(x)
    result.sum().backward()
    return result.requires_grad, flags.requires_grad, number, x.grad


# Graph and lifetime -----------------------------------------------------------------------------------------


def save_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


@ANY_KIND.add
@pytest.mark.spec("003.8", "000.4")
def names_and_edges(world):
    op = world.op(
        "(Tensor x, int n, Tensor y) -> Tensor", lambda x, n, y: x * n, lambda ctx, grad: (grad, None, None)
    )
    node = op(world.tensor(1, grad=True), 3, world.tensor(1)).grad_fn
    return node.name().replace(world.namespace, "ns").replace("op0", "op"), len(node.next_functions) >= 2


@ANY_KIND.add
def a_second_backward(world):
    total = world.op(ONE, same, lambda ctx, grad: grad * ctx.saved_tensors[0], save_input)(
        world.tensor(1, grad=True)
    ).sum()
    total.backward()
    total.backward()


@ANY_KIND.add
def a_second_backward_of_a_retained_graph(world):
    x = world.tensor(3, grad=True)
    total = world.op(ONE, same, lambda ctx, grad: grad * ctx.saved_tensors[0], save_input)(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    return x.grad


@ANY_KIND.add
def a_second_backward_where_nothing_is_saved(world):
    x = world.tensor(3, grad=True)
    result = world.op(ONE, same, lambda ctx, grad: grad * 2)(x)
    result.backward(world.tensor(1))
    result.backward(world.tensor(1))
    return x.grad


@ANY_KIND.add
def a_saved_tensor_written_later(world):
    op = world.op(ONE, same, lambda ctx, grad: grad * ctx.saved_tensors[0], save_input)
    x = world.tensor(3, grad=True) * 1
    total = op(x).sum()
    x.add_(1)
    total.backward()


@ANY_KIND.add
def hooks(world):
    x = world.tensor(1, grad=True)
    result, seen = world.op(ONE, same, lambda ctx, grad: grad * 2)(x), []
    result.register_hook(lambda grad: grad * 10)
    result.grad_fn.register_hook(lambda ins, outs: seen.append((ins[0].tolist(), outs[0].tolist())))
    result.retain_grad()
    result.sum().backward()
    return seen, x.grad, result.grad


@ANY_KIND.add
@pytest.mark.spec("003.9")
def inference_mode(world):
    op = world.op(ONE, same, lambda ctx, grad: grad)
    with world.lib.inference_mode():
        return op(world.tensor(1, grad=True)).requires_grad


@ANY_KIND.add
@pytest.mark.spec("D.16")
def a_formula_of_a_destroyed_library(world):
    op = world.op(ONE, same, lambda ctx, grad: grad * 4)
    result = op(x := world.tensor(1, grad=True))
    world.destroy()
    result.sum().backward()
    return x.grad


@ANY_KIND.add
def the_formula_of_the_backward(world):
    op = world.op(ONE, same, lambda ctx, grad: grad * 2)
    result = op(x := world.tensor(1, grad=True))
    if world.kind != "low":  # where torch binds at forward
        world.formula(op, lambda ctx, grad: grad * 5)
    result.sum().backward()
    return x.grad
