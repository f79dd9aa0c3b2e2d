"""Functions and their tensors die by reference count alone, and what was saved goes when it should."""

import weakref

import pytest

import oplib
from oplib.autograd import Function, NestedIOFunction
from oplib.autograd.forward_ad import dual_level, make_dual

pytestmark = pytest.mark.usefixtures("collector_off")


class SavesAll(Function):
    """Saves input, output and an intermediate, in all ways there are."""

    @staticmethod
    def forward(ctx, a):
        between = (a * 2).detach()
        y, constant = between * a, a * 0
        ctx.save_for_backward(a, between, y)
        ctx.save_for_forward(a, y)
        ctx.mark_non_differentiable(constant)
        return y, constant

    @staticmethod
    def backward(ctx, g, _):
        a, _, y = ctx.saved_tensors
        return g * y / a * 2

    @staticmethod
    def jvp(ctx, t):
        a, y = ctx.saved_tensors
        return t * y / a, None


class Writes(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        a.add_(1.0)
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * a


class Nested(NestedIOFunction):
    def forward_extended(self, pair):
        outputs = [pair[0] * 2, pair[1] * 3]
        self.save_for_backward(pair, outputs)
        return outputs

    def backward_extended(self, grads):
        _, outputs = self.saved_tensors
        return [grad * output for grad, output in zip(grads, outputs, strict=True)]


def watch(*things):
    return [weakref.ref(thing) for thing in things]


def are_gone(references):
    return [reference() is None for reference in references]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_graph_goes_with_its_last_output(x, create_graph):
    y, constant = SavesAll.apply(x)
    (first,) = oplib.autograd.grad(y.sum(), x, create_graph=create_graph, retain_graph=True)
    references = watch(y, y.grad_fn, constant, y._storage.array)
    del y, constant, first
    assert all(are_gone(references))


def test_a_graph_that_never_ran_goes_with_its_outputs(x):
    y, constant = SavesAll.apply(x)
    references = watch(y, y.grad_fn, constant)
    del y, constant
    assert all(are_gone(references))


def test_a_written_tensor_does_not_hold_itself(x):
    h = x * 2
    y = Writes.apply(h)
    assert y is h
    references = watch(h, h.grad_fn)
    del h, y
    assert all(are_gone(references))


def test_nested_saved_tensors_do_not_hold_their_node(x):
    first, second = Nested.apply([x, x])
    references = watch(first, second, first.grad_fn)
    del first, second
    assert all(are_gone(references))


def test_a_returned_input_does_not_hold_its_node(x):
    function = type("Same", (Function,), {"forward": staticmethod(lambda ctx, a: a)})
    y = function.apply(x)
    references = watch(y, y.grad_fn)
    del y
    assert all(are_gone(references))


def test_a_call_in_forward_mode_leaves_nothing_when_its_level_is_closed(x):
    with dual_level():
        y, _ = SavesAll.apply(make_dual(x, oplib.ones(2)))
        references = watch(y, y.grad_fn)
        del y, _
    assert all(are_gone(references))


def test_a_call_that_is_not_recorded_leaves_its_ctx_to_go():
    seen = []

    class Notes(Function):
        @staticmethod
        def forward(ctx, a):
            seen.append(weakref.ref(ctx))
            ctx.save_for_backward(a)
            return a * 2

    y = Notes.apply(oplib.ones(2))
    assert y.tolist() == [2.0, 2.0]
    assert seen[0]() is None


def test_a_forward_that_raises_leaves_its_ctx_to_go(x):
    seen = []

    class Fails(Function):
        @staticmethod
        def forward(ctx, a):
            seen.append(weakref.ref(ctx))
            ctx.save_for_backward(a)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        Fails.apply(x)
    caught.value.__traceback__ = None
    del caught
    assert seen[0]() is None


def test_what_was_saved_goes_with_the_pass_and_attributes_with_the_node(x):
    class Keeps(Function):
        @staticmethod
        def forward(ctx, a):
            between = a * 2
            seen.append(weakref.ref(between._storage.array))
            ctx.save_for_backward(between)
            ctx.note = set()
            return between * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    seen = []
    y = Keeps.apply(x)
    loss = y.sum()
    loss.backward(retain_graph=True)
    assert seen[0]() is not None
    loss.backward()
    assert seen[0]() is None
    assert y.grad_fn.note == set()
