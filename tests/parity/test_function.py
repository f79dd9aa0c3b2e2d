"""User Functions: the same programs on torch and oplib."""

import pytest

from .programs import Programs, leaf, make_function

PROGRAMS = Programs()


def seen_by(lib, forward, x, **options):
    """Runs forward and backward of the first result's sum; returns what backward got."""
    seen = []

    def backward(ctx, *grads):
        seen.append((list(grads), ctx.needs_input_grad))
        return grads[0]

    result = make_function(lib, forward, backward, **options).apply(x)
    first = result[0] if isinstance(result, tuple) else result
    first.sum().backward()
    return seen, x.grad


def square(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def square_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * 2 * x


@PROGRAMS.add
@pytest.mark.spec("000.3", "000.4")
def ctx_style(lib):
    x = leaf(lib, 1, 2)
    y = make_function(lib, square, square_backward).apply(x)
    y.sum().backward()
    return x.grad, y.grad_fn, y.grad_fn.next_functions, y.grad_fn.needs_input_grad


@PROGRAMS.add
def double_backward(lib):
    x = leaf(lib, 1, 2)
    (first,) = lib.autograd.grad(
        make_function(lib, square, square_backward).apply(x).sum(), x, create_graph=True
    )
    return first, lib.autograd.grad(first.sum(), x)


@PROGRAMS.add
def setup_context_style(lib):
    seen = []

    def setup(ctx, inputs, output):
        seen.append(
            (len(inputs), inputs[1], output.requires_grad, inputs[0].requires_grad, lib.is_grad_enabled())
        )
        ctx.save_for_backward(inputs[0], output)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        seen.append((x.requires_grad, y.requires_grad, y.grad_fn, ctx.needs_input_grad))
        return grad * 3, None

    x = leaf(lib, 1, 2)
    make_function(lib, lambda x, k=3.0: x * k, backward, setup_context=setup).apply(x).sum().backward()
    return seen, x.grad


@PROGRAMS.add
def forward_sees_the_input_itself(lib):
    x = leaf(lib, 1, 2)
    seen = []

    def forward(ctx, a):
        seen.append((a is x, a.requires_grad, lib.is_grad_enabled(), ctx.needs_input_grad))
        return a * 2

    make_function(lib, forward).apply(x)
    with lib.no_grad():
        make_function(lib, forward).apply(x)
    return seen


@PROGRAMS.add
def no_gradient_needed(lib):
    plain = make_function(lib, square, square_backward).apply(lib.ones(2))
    with lib.no_grad():
        silent = make_function(lib, square, square_backward).apply(leaf(lib, 1))
    return plain.grad_fn, silent.grad_fn


@PROGRAMS.add
def saved_values_after_the_pass(lib):
    y = make_function(lib, square, square_backward).apply(leaf(lib, 1, 2))
    y.sum().backward()
    return y.grad_fn.saved_tensors


@PROGRAMS.add
def saved_none_and_intermediate(lib):
    def forward(ctx, a):
        ctx.save_for_backward(a, None, a * 2)
        return a * 1

    x = leaf(lib, 1, 2)
    first, nothing, between = make_function(lib, forward).apply(x).grad_fn.saved_tensors
    return first is x, nothing, between, between.requires_grad


@PROGRAMS.add
def saved_number(lib):
    def forward(ctx, a):
        ctx.save_for_backward(5)
        return a * 1

    make_function(lib, forward).apply(leaf(lib, 1))


@PROGRAMS.add
def saved_input_overwritten(lib):
    h = leaf(lib, 1, 2) * 1
    y = make_function(lib, square, square_backward).apply(h)
    h.add_(1.0)
    y.sum().backward()


@PROGRAMS.add
def pass_twice_without_saving(lib):
    x = leaf(lib, 1, 2)
    loss = make_function(lib, lambda ctx, a: a * 2, lambda ctx, g: g * 2).apply(x).sum()
    loss.backward()
    loss.backward()
    return x.grad


@PROGRAMS.add
def missing_gradients(lib):
    return seen_by(lib, lambda ctx, a: (a * 2, a * 3), leaf(lib, 1, 2))


@PROGRAMS.add
def missing_gradients_not_materialized(lib):
    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    return seen_by(lib, forward, leaf(lib, 1, 2))


@PROGRAMS.add
def results_of_other_types(lib):
    return seen_by(lib, lambda ctx, a: (a * 2, 5, None), leaf(lib, 1, 2))


@PROGRAMS.add
def non_differentiable_result(lib):
    def forward(ctx, a):
        b = a * 3
        ctx.mark_non_differentiable(b)
        return a * 2, b

    x = leaf(lib, 1, 2)
    flags = [one.requires_grad for one in make_function(lib, forward).apply(x)]
    return flags, seen_by(lib, forward, x)


@PROGRAMS.add
def input_returned(lib):
    x = leaf(lib, 1, 2)
    y = make_function(lib, lambda ctx, a: a, lambda ctx, g: g * 3).apply(x)
    y.sum().backward()
    return y is x, y.is_leaf, x.is_leaf, x.grad


@PROGRAMS.add
def input_returned_without_recording(lib):
    x = lib.ones(2)
    y = make_function(lib, lambda ctx, a: a).apply(x)
    return y is x, y.requires_grad


def write(ctx, a):
    ctx.mark_dirty(a)
    return a.add_(1.0)


@PROGRAMS.add
def dirty(lib):
    x = leaf(lib, 1, 2)
    h = x * 2
    y = make_function(lib, write, lambda ctx, g: g * 3).apply(h)
    y.sum().backward()
    return y is h, h.grad_fn, h, h._version, x.grad


@PROGRAMS.add
@pytest.mark.spec("D.20")
def dirty_leaf(lib):
    make_function(lib, write, lambda ctx, g: g).apply(leaf(lib, 1))


@PROGRAMS.add
def dirty_and_not_returned(lib):
    def forward(ctx, a):
        return write(ctx, a) * 1

    make_function(lib, forward, lambda ctx, g: g).apply(leaf(lib, 1) * 1)


@PROGRAMS.add
def dirty_input_saved_before(lib):
    h = leaf(lib, 1, 2) * 2
    squared = h * h
    make_function(lib, write, lambda ctx, g: g).apply(h)
    squared.sum().backward()


@PROGRAMS.add
def no_backward(lib):
    make_function(lib, lambda ctx, a: a * 2).apply(leaf(lib, 1)).sum().backward()


@PROGRAMS.add
def no_forward(lib):
    type("F", (lib.autograd.Function,), {}).apply(leaf(lib, 1))


@PROGRAMS.add
def backward_and_vjp(lib):
    def rule(ctx, g):
        return g

    make_function(lib, lambda ctx, a: a * 2, rule, vjp=rule).apply(leaf(lib, 1)).sum().backward()


@PROGRAMS.add
def vjp_alone(lib):
    x = leaf(lib, 1)
    make_function(lib, lambda ctx, a: a * 2, vjp=lambda ctx, g: g * 2).apply(x).sum().backward()
    return x.grad


@PROGRAMS.add
@pytest.mark.spec("000.4")
def next_functions_of_tensors_only(lib):
    x = leaf(lib, 1)
    y = make_function(lib, lambda ctx, a, k, b, c: a * k + c).apply(x, 2.0, lib.ones(1), x)
    return y.grad_fn.next_functions


@PROGRAMS.add
def once_differentiable(lib):
    once = lib.autograd.function.once_differentiable(lambda ctx, g: g * 2)
    x, seed = leaf(lib, 1, 2), lib.ones(2).requires_grad_()
    y = make_function(lib, lambda ctx, a: a * 2, once).apply(x)
    (first,) = lib.autograd.grad(y, x, seed, create_graph=True)
    assert first.requires_grad
    first.sum().backward()


@PROGRAMS.add
def once_differentiable_and_grad_of_a_saved_input(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x = leaf(lib, 3)
    seconds = []
    for function in (lambda y: y + x**3, lambda y: (y + x**3) ** 2, lambda y: y * x):
        (first,) = lib.autograd.grad(function(Square.apply(x)).sum(), x, create_graph=True)
        seconds += lib.autograd.grad(first.sum(), x)
    return seconds


RETURNS = {
    "right": lambda lib, g: g,
    "short shape": lambda lib, g: lib.ones(1),
    "wrong shape": lambda lib, g: lib.ones(7),
    "broadcast shape": lambda lib, g: lib.ones(4, 2),
    "number": lambda lib, g: 3,
    "list": lambda lib, g: [g],
    "two": lambda lib, g: (g, g),
    "nones at the end": lambda lib, g: (g, None, None),
    "tensor at the end": lambda lib, g: (g, None, g),
    "none": lambda lib, g: None,
    "empty": lambda lib, g: (),
    "complex": lambda lib, g: lib.ones(2, dtype=lib.complex64),
    "half": lambda lib, g: lib.ones(2, dtype=lib.float16),
    "integer": lambda lib, g: lib.ones(2, dtype=lib.int32),
}


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("arguments", [1, 2])
@pytest.mark.parametrize("case", RETURNS)
def test_what_backward_may_return(assert_agrees, case, arguments):
    def check(lib):
        x = leaf(lib, 1, 2)
        function = make_function(lib, lambda ctx, a, *rest: a * 2, lambda ctx, g: RETURNS[case](lib, g))
        function.apply(x, *[3.0] * (arguments - 1)).sum().backward()
        return x.grad

    assert_agrees(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
