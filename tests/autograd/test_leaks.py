"""Objects die when the last reference goes: no cycle holds a tensor, its node, or what it saved."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, set_detect_anomaly
from oplib.autograd.graph import (
    get_gradient_edge,
    record_locations,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)

pytestmark = pytest.mark.usefixtures("collector_off")


class Save(Function):
    """Saves its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        _, _ = ctx.saved_tensors
        return grad * 2


def forward_alone(x):
    return (x * x).exp()


def after_backward(x):
    y = (x * x).exp()
    y.sum().backward()
    return y


def retained_graph(x):
    y = (x * x).exp()
    y.sum().backward(retain_graph=True)
    return y


def after_an_error(x):
    y = (x * x).exp()
    z = y.sum()
    y.register_hook(lambda grad: {}[0])
    with pytest.raises(KeyError):
        z.backward()
    return y


def function(x):
    return Save.apply(x * 1)


def function_after_backward(x):
    y = Save.apply(x * 1)
    y.sum().backward()
    return y


def hooks_of_all_kinds(x):
    y = x * x
    y.register_hook(lambda grad: None)
    y.retain_grad()
    y.grad_fn.register_hook(lambda results, grads: None)
    register_multi_grad_hook([y], lambda grads: None)
    register_multi_grad_hook([y], lambda grad: None, mode="any")
    y.sum().backward()
    return y


def recorded_grad(x):
    y = (x * x).exp()
    (first,) = oplib.autograd.grad(y.sum(), x, create_graph=True)
    return first


def second_order(x):
    y = (x * x).exp()
    (first,) = oplib.autograd.grad(y.sum(), x, create_graph=True)
    first.sum().backward()
    x.grad = None
    return y


def packed(x):
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        return Save.apply((x * x).exp())


def kept_on_host(x):
    with save_on_cpu(pin_memory=True, deduplicate=True):
        return (x * x).exp()


def looked_at(x):
    y = (x * x).exp()
    y.grad_fn._saved_result  # noqa: B018
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    return y


def located(x):
    with record_locations():
        return (x * x).exp()


def under_anomaly_detection(x):
    with set_detect_anomaly(True):
        y = (x * x).exp()
        y.sum().backward()
    return y


def edge(x):
    y = (x * x).exp()
    get_gradient_edge(y)
    return y


def in_place(x):
    y = x * 3
    y.exp_()
    y.mul_(x)
    return y


def views_written_through(x):
    y = x * 1
    view = y[:2]
    view.mul_(x[1:])
    (y.sum() + view.sum()).backward()
    return y


def a_view_written_through(x):
    y = x * 1
    view = y[:2]
    view.mul_(x[1:])
    return view


PROGRAMS = {
    one.__name__: one
    for one in (
        forward_alone,
        after_backward,
        retained_graph,
        after_an_error,
        function,
        function_after_backward,
        hooks_of_all_kinds,
        recorded_grad,
        second_order,
        packed,
        kept_on_host,
        looked_at,
        located,
        under_anomaly_detection,
        edge,
        in_place,
        views_written_through,
        a_view_written_through,
    )
}


def reachable(node):
    """Weak references to a node and all nodes behind it."""
    found, pending = {}, [node]
    while pending:
        one = pending.pop()
        if one not in found:
            found[one] = weakref.ref(one)
            pending += [following for following, _ in one.next_functions if following is not None]
    return list(found.values())


@pytest.mark.spec("E.9")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_and_its_graph_die_with_the_last_reference(name):
    x = oplib.ones(3).requires_grad_()
    y = PROGRAMS[name](x)
    watched = [weakref.ref(y), weakref.ref(y.array), *reachable(y.grad_fn)]
    del y
    assert [one() for one in watched if one() is not None] == []
    leaf = weakref.ref(x)
    del x
    assert leaf() is None


@pytest.mark.spec("E.6")
def test_what_a_node_saved_dies_as_soon_as_the_node_has_run():
    x = oplib.ones(3).requires_grad_()
    y = x * 2
    z = y.exp().sum()
    saved = weakref.ref(y.array)
    alive = []
    x.register_hook(lambda grad: alive.append(saved() is not None))
    del y
    z.backward()
    assert alive == [False]


def test_a_step_leaves_no_more_objects_than_the_one_before():
    x = oplib.ones(3).requires_grad_()

    def step():
        with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            y = Save.apply((x * x).exp())
        handle = register_multi_grad_hook([x, y], lambda grads: None)
        (y.sum() + (x * 3).sum()).backward()
        handle.remove()
        x.grad = None

    for _ in range(3):
        step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        step()
    assert len(gc.get_objects()) - before < 10


def test_a_graph_that_was_traced_dies_with_its_trace():
    seen = []

    def step(value):
        x = oplib.Tensor.from_array(value, requires_grad=True)
        y = (x * x).exp()
        y.sum().backward()
        seen.extend([weakref.ref(x), weakref.ref(y), weakref.ref(y.grad_fn)])
        return x.grad.array

    jax.jit(step)(jnp.ones(3))
    assert [one() for one in seen] == [None] * 3
