"""``oplib.vmap`` against ``torch.vmap``: the same programs, values, gradients and kinds of errors."""

from __future__ import annotations

import numpy as np
import pytest

import oplib
from oplib.errors import TracingError


def rows(lib, grad=False):
    return lib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], requires_grad=grad)


def weights(lib, grad=False):
    return lib.tensor([1.0, 2.0, 3.0], requires_grad=grad)


def map_rows(in_dims=0, out_dims=0, function=lambda a: a * 2, **options):
    return lambda lib: lib.vmap(function, in_dims, out_dims, **options)(rows(lib))


def on(lib_function, *args, **options):
    """A program that maps a function which is made for the library."""
    return lambda lib: lib.vmap(lib_function(lib), **options)(
        *(one(lib) if callable(one) else one for one in args)
    )


def forget(values):
    """Draws random numbers, and returns nothing of them but the pattern in which they repeat."""
    drawn = np.asarray(values.tolist()).reshape(len(values.tolist()), -1)
    return [bool((row == drawn[0]).all()) for row in drawn]


DIMS = {
    "one place": map_rows(1),
    "a place from the end": map_rows(-1),
    "another place for the result": map_rows(0, 1),
    "a result's place from the end": map_rows(0, -1),
    "out_dims as a tuple of one": map_rows(0, (1,)),
    "a bool as out_dim": map_rows(0, True),
    "out of range": map_rows(2),
    "far out of range": map_rows(-3),
    "a result's place out of range": map_rows(0, 5),
    "None for all": map_rows(None),
    "None for each": map_rows((None,)),
    "a list": map_rows([0]),
    "a string": map_rows("x"),
    "too many": map_rows((0, 0)),
    "a float": map_rows((0.5,)),
    "a bool": map_rows((True,)),
    "a string as out_dim": map_rows(0, "x"),
    "a float as out_dim": map_rows(0, 0.5),
    "too few out_dims": map_rows(0, (1,), lambda a: (a, a)),
    "an out_dim for each": map_rows(0, (1, 0), lambda a: (a, a)),
    "a dictionary of results": map_rows(0, {"q": 1}, lambda a: {"q": a}),
    "one out_dim for a dictionary": map_rows(0, 1, lambda a: {"q": a, "r": [a]}),
    "None for a mapped result": map_rows(0, None),
}


@pytest.mark.parametrize("title", DIMS)
def test_the_batch_is_where_it_is_said_to_be(assert_agrees, title):
    assert_agrees(DIMS[title])


TREES = {
    "a tuple with None": on(
        lambda lib: lambda p: p[0] * p[1], lambda lib: (rows(lib), weights(lib)), in_dims=((0, None),)
    ),
    "a dictionary": on(lambda lib: lambda p: p["k"], lambda lib: {"k": rows(lib)}, in_dims=({"k": 1},)),
    "one int for a tuple": on(lambda lib: lambda p: p[0] * p[1], lambda lib: (rows(lib), rows(lib))),
    "a list where a tuple is": on(lambda lib: lambda p: p[0], lambda lib: (rows(lib),), in_dims=([0],)),
    "a number with None": on(lambda lib: lambda a, b: a * b, rows, 3, in_dims=(0, None)),
    "a number that is mapped": on(lambda lib: lambda a, b: a * b, rows, 3),
    "a scalar": on(lambda lib: lambda a: a, lambda lib: lib.tensor(1.0)),
    "batches of two sizes": on(lambda lib: lambda a, b: a, rows, weights),
    "no arguments": on(lambda lib: lambda: weights(lib)),
    "an empty tuple": on(lambda lib: lambda a: a, ()),
    "an empty batch": on(lambda lib: lambda a: a * 2, lambda lib: lib.ones(0, 3)),
    "keywords are passed on": lambda lib: lib.vmap(lambda a, *, b: a * b)(rows(lib), b=weights(lib)),
    "no tensor": on(lambda lib: lambda a: 3, rows),
    "no tensor among several": on(lambda lib: lambda a: (a, 3), rows),
    "None": on(lambda lib: lambda a: None, rows),
    "a list of results": on(lambda lib: lambda a: [a, a * 2], rows),
    "what is not mapped is repeated": on(lambda lib: lambda a: weights(lib), rows),
    "what is not mapped is itself": on(lambda lib: lambda a: weights(lib), rows, out_dims=None),
    "a function of the library": on(lambda lib: lib.sum, rows),
    "something that cannot be called": on(lambda lib: 3, rows),
}


@pytest.mark.parametrize("title", TREES)
def test_arguments_and_results_stand_in_trees(assert_agrees, title):
    assert_agrees(TREES[title])


def gradients(function):
    """The gradients of the sum of a mapped function by rows and by weights that it closes over."""

    def program(lib):
        x, w = rows(lib, grad=True), weights(lib, grad=True)
        y = lib.vmap(function(lib, w))(x)
        first = lib.autograd.grad(y.sum(), (x, w), create_graph=True, allow_unused=True)
        total = sum((one * one).sum() for one in first if one is not None)
        second = lib.autograd.grad(total, (x, w), allow_unused=True) if total.requires_grad else ()
        return y, first, second

    return program


def write_views(b, w):
    b[0].mul_(3)
    b[1:] = w[:2] * b[0]
    return b.exp()


GRADIENTS = {
    "a product": lambda lib, w: lambda a: a * w,
    "exponentials": lambda lib, w: lambda a: (a * w * 0.1).exp().sum(),
    "what is computed of weights alone": lambda lib, w: lambda a: a * (w * w).exp(),
    "an unused argument": lambda lib, w: lambda a: w * 2,
    "nested": lambda lib, w: lambda a: lib.vmap(lambda b, c: (b * c).exp())(a * 0.1, w),
    "a matrix": lambda lib, w: lambda a: a.reshape(3, 1).matmul(w.reshape(1, 3)),
    "in place on a result": lambda lib, w: lambda a: (a * w).exp_().mul_(2),
    "views written in place": lambda lib, w: lambda a: write_views(a * w, w),
    "views of the argument": lambda lib, w: lambda a: a[1:].exp() * w[:2] + a[:1].expand(2),
    "several results of one op": lambda lib, w: lambda a: lib.stack([a, w * a]).sum(0),
}


@pytest.mark.parametrize("title", GRADIENTS)
def test_gradients_flow_through_the_map_twice(assert_agrees, title):
    assert_agrees(gradients(GRADIENTS[title]))


def in_place(function, make=lambda lib: lib.zeros(2, 3)):
    def program(lib):
        y = make(lib)
        return lib.vmap(function(lib))(y), y

    return program


def write_mapped(op):
    return lambda lib: lib.vmap(lambda a: op(lib, lib.zeros(3) * 1, a))(rows(lib))


IN_PLACE = {
    "a mapped argument": in_place(lambda lib: lambda a: a.add_(1)),
    "an argument that has a history": in_place(
        lambda lib: lambda a: a.mul_(2), lambda lib: rows(lib, grad=True) * 1
    ),
    "a leaf that requires grad": in_place(lambda lib: lambda a: a.mul_(2), lambda lib: rows(lib, grad=True)),
    "a constant that takes in what requires grad": in_place(
        lambda lib: lambda a: a.add_(weights(lib, grad=True))
    ),
    "a view of an argument": in_place(lambda lib: lambda a: a[1:].add_(1)),
    "an item of an argument": in_place(lambda lib: lambda a: a.__setitem__(0, a[1] + 5) or a * 1),
    "an argument that is a view": in_place(
        lambda lib: lambda a: a.mul_(2), lambda lib: rows(lib).reshape(3, 2).t()
    ),
    "an item of one that is not": write_mapped(lambda lib, u, a: u.__setitem__(0, a[0])),
    "what is not mapped into what is not": lambda lib: lib.vmap(
        lambda a: (lib.zeros(3) * 1).add_(weights(lib))
    )(rows(lib)),
}


@pytest.mark.parametrize("title", IN_PLACE)
def test_what_is_mapped_is_written_in_place(assert_agrees, title):
    assert_agrees(IN_PLACE[title])


@pytest.mark.parametrize("write", [lambda u, a: u.add_(a), lambda u, a: u.copy_(a)], ids=["add_", "copy_"])
def test_a_mapped_value_is_written_into_what_the_function_made_where_torch_refuses(write):
    """torch refuses, and names its mechanism as the reason. Each example has a Tensor of its own."""
    x = rows(oplib)
    mapped = oplib.vmap(lambda a: write(oplib.zeros(3) * 1, a))(x)
    assert mapped.tolist() == [write(oplib.zeros(3) * 1, row).tolist() for row in x]
    outside = oplib.zeros(3) * 1
    with pytest.raises(TracingError, match="inplace arithmetic in vmap"):
        oplib.vmap(lambda a: write(outside, a))(x)


def test_gradients_flow_through_an_argument_that_was_written(assert_agrees):
    def program(lib):
        x = rows(lib, grad=True)
        y = x * 1
        lib.vmap(lambda a: a.mul_(2).exp_())(y)
        return y, lib.autograd.grad(y.sum(), x)

    assert_agrees(program)


def test_an_output_that_was_saved_may_not_be_written(assert_agrees):
    def program(lib):
        y = lib.vmap(lambda a: a.exp())(rows(lib, grad=True))
        y.add_(1)
        y.sum().backward()

    assert_agrees(program)


RANDOM = {
    f"{draw} with {randomness}": lambda lib, draw=draw, randomness=randomness: forget(
        lib.vmap(lambda a: DRAWS[draw](lib, a), randomness=randomness)(rows(lib))
    )
    for draw in ("rand", "randn_like", "generator")
    for randomness in ("error", "same", "different", "other")
}
DRAWS = {
    "rand": lambda lib, a: lib.rand(3),
    "randn_like": lambda lib, a: lib.randn_like(a),
    "generator": lambda lib, a: lib.rand(3, generator=lib.Generator().manual_seed(0)),
}


@pytest.mark.parametrize("title", RANDOM)
def test_randomness_says_what_a_draw_does(assert_agrees, title):
    assert_agrees(RANDOM[title])


CHUNKS = {
    "one at a time": lambda lib: lib.vmap(lambda a: a * 2, chunk_size=1)(rows(lib)),
    "along another dim": lambda lib: lib.vmap(lambda a: a * 2, out_dims=1, chunk_size=1)(rows(lib)),
    "an uneven rest": lambda lib: lib.vmap(lambda a: a * 2, in_dims=1, chunk_size=2)(rows(lib)),
    "larger than the batch": lambda lib: lib.vmap(lambda a: a * 2, chunk_size=10)(rows(lib)),
    "zero": map_rows(chunk_size=0),
    "negative": map_rows(chunk_size=-1),
    "the same numbers": lambda lib: forget(
        lib.vmap(lambda a: lib.rand(3), chunk_size=1, randomness="same")(rows(lib))
    ),
    "other numbers": lambda lib: forget(
        lib.vmap(lambda a: lib.rand(3), chunk_size=1, randomness="different")(rows(lib))
    ),
}


@pytest.mark.parametrize("title", CHUNKS)
def test_examples_can_be_mapped_in_chunks(assert_agrees, title):
    assert_agrees(CHUNKS[title])


READS = {
    "item": lambda a: a.sum().item(),
    "a branch": lambda a: a if a.sum() > 0 else -a,
    "numpy": lambda a: a.numpy(),
    "tolist": lambda a: a.tolist(),
    "backward": lambda a: a.sum().backward(),
}


@pytest.mark.parametrize("title", READS)
def test_values_of_one_example_cannot_be_read_nor_accumulated(assert_agrees, title):
    assert_agrees(lambda lib: lib.vmap(READS[title])(rows(lib, grad=True)))


def make_function(lib, **members):
    def forward(x, y):
        return x * y

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y * 7, grad * x * 5

    made = {"forward": forward, "setup_context": setup_context, "backward": backward, **members}
    return type(
        "Product",
        (lib.autograd.Function,),
        {name: staticmethod(one) if callable(one) else one for name, one in made.items() if one is not None},
    )


def function_program(**members):
    def program(lib):
        told = []

        def rule(info, in_dims, x, y):
            told.append((info.batch_size, info.randomness, in_dims, list(x.shape), list(y.shape)))
            return product.apply(x, y), 0

        own = {name: rule if one == "rule" else one for name, one in members.items()}
        product = make_function(lib, **own)
        x, w = rows(lib, grad=True), weights(lib, grad=True)
        y = lib.vmap(lambda a: product.apply(a, w))(x)
        first = lib.autograd.grad(y.sum(), (x, w), create_graph=True)
        return y, first, lib.autograd.grad(first[0].sum() + first[1].sum(), (x, w)), told

    return program


FUNCTIONS = {
    "a rule that is generated": function_program(generate_vmap_rule=True),
    "a rule of its own": function_program(vmap="rule"),
    "both": function_program(vmap="rule", generate_vmap_rule=True),
    "neither": function_program(),
    "no setup_context": function_program(
        forward=lambda ctx, x, y: x * y, setup_context=None, generate_vmap_rule=True
    ),
    "a rule that gives no pair": function_program(vmap=lambda info, in_dims, x, y: x * y),
    "a rule whose dims do not fit": function_program(vmap=lambda info, in_dims, x, y: (x * y, (0, 0))),
    "a rule that puts the batch elsewhere": function_program(
        vmap=lambda info, in_dims, x, y: ((x * y).t(), 1)
    ),
}


@pytest.mark.parametrize("title", FUNCTIONS)
def test_a_function_is_mapped_by_its_rule(assert_agrees, title):
    assert_agrees(FUNCTIONS[title])


def test_a_function_that_is_not_given_a_batch_is_not_mapped(assert_agrees):
    def program(lib):
        def refuse(info, in_dims, x, y):
            raise ValueError("the rule ran")

        product = make_function(lib, vmap=refuse)
        w = weights(lib)
        return lib.vmap(lambda a: a * product.apply(w, w))(rows(lib))

    assert_agrees(program)


def test_a_function_that_reads_values_is_mapped_by_its_rule(assert_agrees):
    def program(lib):
        def forward(x):
            return lib.tensor([[one**3 for one in row] for row in x.tolist()])

        cube = make_function(
            lib,
            forward=forward,
            backward=lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
            vmap=lambda info, in_dims, x: (cube.apply(x), in_dims[0]),
        )
        x = rows(lib, grad=True)
        y = lib.vmap(cube.apply)(x)
        return y, lib.autograd.grad(y.sum(), x)

    assert_agrees(program)


@pytest.mark.spec("001.9")
def test_batched_gradients_can_be_differentiated(assert_agrees):
    def program(lib):
        x, w = weights(lib, grad=True), weights(lib, grad=True)
        y = (x * w).exp() * x
        batch = lib.eye(3)
        found = lib.autograd.grad(y, (x, w), batch, is_grads_batched=True, create_graph=True)
        return found, lib.autograd.grad((found[0] * found[1]).sum(), (x, w))

    assert_agrees(program)
