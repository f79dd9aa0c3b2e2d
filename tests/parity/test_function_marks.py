"""What a Function returns, marks and saves, and its jvp: the same programs on torch and oplib."""

import pytest

from .programs import Programs, leaf, make_function

PROGRAMS = Programs()

pytestmark = pytest.mark.spec("001.2")


def add_up(seen):
    """Returns a backward that notes what it gets and weighs its gradients."""

    def backward(ctx, *grads):
        seen.append(list(grads))
        return sum(g * 10**place for place, g in enumerate(grads) if g is not None)

    return backward


# Returned


@PROGRAMS.add
def one_output_twice(lib):
    def forward(ctx, a):
        b = a * 2
        return b, b

    x, seen = leaf(lib, 1, 2), []
    first, second = make_function(lib, forward, add_up(seen)).apply(x)
    first.sum().backward()
    return first is second, first.output_nr, seen, x.grad


@PROGRAMS.add
def one_input_twice(lib):
    x, seen = leaf(lib, 1, 2), []
    first, second = make_function(lib, lambda ctx, a: (a, a), add_up(seen)).apply(x)
    (first + second).sum().backward()
    return first is second, first is x, first.output_nr, second.output_nr, seen, x.grad


@PROGRAMS.add
def two_inputs_that_are_one(lib):
    x = leaf(lib, 1, 2)
    first, second = make_function(lib, lambda ctx, a, b: (a, b), lambda ctx, g, h: (g * 2, h * 3)).apply(x, x)
    (first + second).sum().backward()
    return first is second, first.output_nr, second.output_nr, x.grad


@PROGRAMS.add
def inputs_swapped(lib):
    x, y = leaf(lib, 1), leaf(lib, 2)
    first, second = make_function(lib, lambda ctx, a, b: (b, a), lambda ctx, g, h: (h * 2, g * 3)).apply(x, y)
    (first * 5 + second * 7).sum().backward()
    return first, second, x.grad, y.grad


@PROGRAMS.add
def a_constant_input_returned(lib):
    x, plain = leaf(lib, 1), lib.ones(1)
    first, second = make_function(lib, lambda ctx, a, b: (a, b), lambda ctx, g, h: (g, h)).apply(x, plain)
    return first.requires_grad, second.requires_grad, second is plain, plain.requires_grad


# Written


def write(ctx, a, *rest):
    ctx.mark_dirty(a)
    return a.add_(rest[0] if rest else 1.0)


@PROGRAMS.add
def written_and_returned_twice(lib):
    def forward(ctx, a):
        return write(ctx, a), a

    x, seen = leaf(lib, 1, 2), []
    h = x * 1
    first, second = make_function(lib, forward, add_up(seen)).apply(h)
    (first + second).sum().backward()
    return first is second, first is h, h.output_nr, seen, x.grad


@PROGRAMS.add
def a_constant_that_is_written(lib):
    x, plain = leaf(lib, 1, 2), lib.ones(2)
    y = make_function(lib, write, lambda ctx, g: (None, g * 7)).apply(plain, x)
    y.sum().backward()
    return y is plain, plain.is_leaf, plain.requires_grad, x.grad


@PROGRAMS.add
def written_without_need(lib):
    plain = lib.ones(2)
    y = make_function(lib, write).apply(plain)
    return y is plain, y.grad_fn, y


@PROGRAMS.add
def written_and_constant(lib):
    def forward(ctx, a):
        ctx.mark_non_differentiable(a)
        return write(ctx, a)

    h = leaf(lib, 1, 2) * 1
    y = make_function(lib, forward).apply(h)
    return y is h, y.requires_grad, y


@PROGRAMS.add
def hooks_of_a_written_tensor(lib):
    x, seen = leaf(lib, 1, 2), []
    h = x * 2
    h.register_hook(lambda g: seen.append(g.tolist()))
    h.retain_grad()
    y = make_function(lib, write, lambda ctx, g: g * 3).apply(h)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    (y * 5).sum().backward()
    return seen, h.grad, x.grad


# Views


def pick(lib, forward, backward=lambda ctx, g, *rest: g):
    return make_function(lib, forward, backward)


@PROGRAMS.add
def an_input_returned_is_a_view(lib):
    x = leaf(lib, 1, 2)
    y = pick(lib, lambda ctx, a: a).apply(x)
    return y._is_view(), y._base is x, y._version


@PROGRAMS.add
def an_input_returned_and_written(lib):
    pick(lib, lambda ctx, a: a).apply(leaf(lib, 1, 2) * 1).add_(1)


@PROGRAMS.add
def an_input_written_after_it_was_returned(lib):
    h = leaf(lib, 1, 2) * 1
    y = pick(lib, lambda ctx, a: a).apply(h)
    h.add_(1)
    return y.grad_fn


@PROGRAMS.add
def a_view_returned(lib):
    x = leaf(lib, 1, 2)
    h = x * 1
    y = make_function(lib, lambda ctx, a: a.view(2, 1), lambda ctx, g: g.view(2) * 3).apply(h)
    y.sum().backward()
    return y._is_view(), y._base is h, y.grad_fn, x.grad


@PROGRAMS.add
def a_view_returned_and_written(lib):
    make_function(lib, lambda ctx, a: a.view(2, 1), lambda ctx, g: g.view(2)).apply(leaf(lib, 1, 2) * 1).add_(
        1
    )


@PROGRAMS.add
def one_of_several_views_written(lib):
    first, _ = pick(lib, lambda ctx, a: (a.view(2, 1), a[0])).apply(leaf(lib, 1, 2) * 1)
    first.add_(1)


@PROGRAMS.add
def a_view_that_is_written(lib):
    x = leaf(lib, 1, 2)
    base = x * 1
    part = base[:1]
    y = make_function(lib, write, lambda ctx, g: g * 7).apply(part)
    base.sum().backward()
    return y is part, base, x.grad


@PROGRAMS.add
def a_view_that_is_written_beside_another_result(lib):
    def forward(ctx, a):
        return write(ctx, a), a * 3

    pick(lib, forward).apply((leaf(lib, 1, 2) * 1)[:1])


@PROGRAMS.add
def a_view_of_several_that_is_written(lib):
    part, _ = (leaf(lib, 1, 2) * 1).unbind(0)
    pick(lib, write).apply(part).sum().backward()


# Marked


@PROGRAMS.add
def a_constant_input_marked(lib):
    def forward(ctx, a):
        ctx.mark_non_differentiable(a)
        return a

    x = leaf(lib, 1)
    y = make_function(lib, forward).apply(x)
    return y is x, y.requires_grad, x.requires_grad


@PROGRAMS.add
def marking_what_is_not_returned(lib):
    def forward(ctx, a):
        ctx.mark_non_differentiable(a)
        return a * 2

    return make_function(lib, forward).apply(leaf(lib, 1)).requires_grad


MARKS = {
    "dirty number": lambda ctx, a: ctx.mark_dirty(5),
    "constant number": lambda ctx, a: ctx.mark_non_differentiable(5),
    "materialize number": lambda ctx, a: ctx.set_materialize_grads(5),
    "save number": lambda ctx, a: ctx.save_for_backward(5),
    "save list": lambda ctx, a: ctx.save_for_backward([a]),
    "set saved_tensors": lambda ctx, a: setattr(ctx, "saved_tensors", 5),
    "set next_functions": lambda ctx, a: setattr(ctx, "next_functions", 5),
    "set metadata": lambda ctx, a: setattr(ctx, "metadata", 5),
    "set needs_input_grad": lambda ctx, a: setattr(ctx, "needs_input_grad", 5),
    "set anything": lambda ctx, a: setattr(ctx, "mine", 5),
    "nothing": lambda ctx, a: None,
}


@pytest.mark.parametrize("case", MARKS)
def test_what_a_ctx_may_be_told(assert_agrees, case):
    def check(lib):
        def forward(ctx, a):
            MARKS[case](ctx, a)
            return a * 2

        return make_function(lib, forward).apply(leaf(lib, 1)).requires_grad

    assert_agrees(check)


# Undefined and zero gradients


@PROGRAMS.add
def undefined_gradients(lib):
    seen = []

    def run(materialize):
        def forward(ctx, a):
            ctx.set_materialize_grads(materialize)
            return a * 2

        def backward(ctx, g):
            seen.append(g)
            return g

        x = leaf(lib, 1, 2)
        inner = make_function(lib, forward, backward).apply(x)
        make_function(lib, lambda ctx, a: a * 1, lambda ctx, g: None).apply(inner).sum().backward()
        return x.grad

    return run(True), run(False), seen


@PROGRAMS.add
def an_undefined_gradient_beside_a_defined_one(lib):
    x, y = leaf(lib, 1), leaf(lib, 2)
    function = make_function(lib, lambda ctx, a, b: a * b, lambda ctx, g: (None, g * 3))
    (function.apply(x, y) + x * 5).sum().backward()
    return x.grad, y.grad


@PROGRAMS.add
def undefined_into_an_op(lib):
    x = leaf(lib, 1)
    make_function(lib, lambda ctx, a: a * 1, lambda ctx, g: None).apply(x.exp() * 2).sum().backward()
    return x.grad


@PROGRAMS.add
def undefined_by_grad(lib):
    x = leaf(lib, 1)
    y = make_function(lib, lambda ctx, a: a * 1, lambda ctx, g: None).apply(x)
    return lib.autograd.grad(y.sum(), x, allow_unused=True)


@PROGRAMS.add
def undefined_by_grad_is_unused(lib):
    x = leaf(lib, 1)
    lib.autograd.grad(make_function(lib, lambda ctx, a: a * 1, lambda ctx, g: None).apply(x).sum(), x)


# Saved


@PROGRAMS.add
def saved_tensors_after_a_pass(lib):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    y = make_function(lib, forward, lambda ctx, g: g).apply(leaf(lib, 1))
    loss = y.sum()
    loss.backward(retain_graph=True)
    kept = len(y.grad_fn.saved_tensors)
    loss.backward()
    return kept, y.grad_fn.saved_tensors


@PROGRAMS.add
def reading_an_output_saved_twice(lib):
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y, y, a)
        return y

    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    x = leaf(lib, 1, 2)
    y = make_function(lib, forward, backward).apply(x)
    first, second, a = y.grad_fn.saved_tensors
    (once,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (twice,) = lib.autograd.grad(once.sum(), x)
    return first.grad_fn is y.grad_fn, second.requires_grad, a is x, once, twice


@PROGRAMS.add
def defaults_of_forward(lib):
    seen = []

    def setup(ctx, inputs, output):
        seen.append([i if not hasattr(i, "grad_fn") else "tensor" for i in inputs])

    function = make_function(
        lib, lambda x, k=2.0, m=None: x * k, lambda ctx, g: (g, None, None), setup_context=setup
    )
    x = leaf(lib, 1)
    function.apply(x).sum().backward()
    function.apply(x, 3.0).sum().backward()
    function.apply(x, m=1).sum().backward()
    return seen, x.grad


@PROGRAMS.add
def defaults_are_not_filled_for_ctx(lib):
    seen = []

    def forward(ctx, x, k=2.0):
        seen.append(len(ctx.needs_input_grad))
        return x * k

    function = make_function(lib, forward, lambda ctx, g: g)
    function.apply(leaf(lib, 1)).sum().backward()
    return seen


@PROGRAMS.add
def an_argument_is_missing(lib):
    make_function(lib, lambda x, y: x * y, setup_context=lambda ctx, inputs, output: None).apply(leaf(lib, 1))


# Forward mode


def push(lib, function, *rest, value=(1.0, 2.0), tangent=(3.0, 4.0)):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.tensor(list(value)), lib.tensor(list(tangent)))
        result = function.apply(dual, *rest)
        several = result if isinstance(result, tuple) else (result,)
        return [forward_ad.unpack_dual(one).tangent if hasattr(one, "grad_fn") else one for one in several]


def two(ctx, a):
    return a * 2, a * 3


def constant(ctx, a):
    b = a * 3
    ctx.mark_non_differentiable(b)
    return a * 2, b


FORWARD = {
    "plain": (lambda ctx, a: a * 2, lambda ctx, t: t * 2),
    "none": (lambda ctx, a: a * 2, None),
    "two": (two, lambda ctx, t: (t * 2, t * 3)),
    "one of two": (two, lambda ctx, t: t),
    "two of one": (lambda ctx, a: a * 2, lambda ctx, t: (t, t)),
    "number": (lambda ctx, a: a * 2, lambda ctx, t: 3),
    "list": (two, lambda ctx, t: [t, t]),
    "number among results": (lambda ctx, a: (a * 2, 5), lambda ctx, t: (t * 2, None)),
    "constant": (constant, lambda ctx, t: (t, t)),
    "constant none": (constant, lambda ctx, t: (t, None)),
    "written": (write, lambda ctx, t: t.mul_(1.0)),
    "written anew": (write, lambda ctx, t: t * 1.0),
}


@pytest.mark.parametrize("case", FORWARD)
def test_what_jvp_may_return(assert_agrees, case):
    forward, jvp = FORWARD[case]
    assert_agrees(lambda lib: push(lib, make_function(lib, forward, jvp=jvp)))


@pytest.mark.parametrize("materialize", [True, False])
def test_what_jvp_gets(assert_agrees, materialize):
    def check(lib):
        seen = []

        def forward(ctx, a, b, i, k):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_forward(a, b)
            ctx.save_for_backward(a)
            return a * b

        def jvp(ctx, *tangents):
            seen.append(
                (list(tangents), list(ctx.saved_tensors), lib.is_grad_enabled(), ctx.needs_input_grad)
            )
            return tangents[0]

        push(lib, make_function(lib, forward, jvp=jvp), lib.ones(2), lib.tensor([1, 2], dtype=lib.int32), 3.0)
        return seen

    assert_agrees(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
