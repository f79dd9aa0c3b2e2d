"""The leaves of a recorded call: what users do to them before the backward, beside the uncompiled run."""

import sys
import threading
from collections import Counter

import pytest

import oplib
from oplib.autograd.graph import node_creation_hook


class Model:
    """Two leaves, one value with a history, one leaf without gradient, and what a test notes."""

    def __init__(self, wrap):
        self.a = oplib.tensor([1.0, 2.0], requires_grad=True)
        self.b = oplib.tensor([3.0, 4.0], requires_grad=True)
        self.still = oplib.tensor([5.0, 6.0])
        self.inner = self.b * 2
        self.seen = []
        self.forward = wrap(lambda: (self.a * self.inner * self.still * self.a).sum())

    def note(self, what):
        self.seen.append(what.tolist() if isinstance(what, oplib.Tensor) else what)


def hook_the_leaf(model, y):
    model.a.register_hook(lambda grad: (model.note(grad), grad * 10)[1])


def hook_after_the_sum(model, y):
    model.a.register_post_accumulate_grad_hook(lambda leaf: model.note(leaf.grad))


def hook_the_edge(model, y):
    y.grad_fn.register_hook(lambda results, grads: model.note(len(grads)))
    for node, _ in (edge for edge in y.grad_fn.next_functions if edge[0] is not None):
        model.note(node.name())


def freeze(model, y):
    model.a.requires_grad_(False)


def hold_a_gradient(model, y):
    model.a.grad = oplib.tensor([100.0, 100.0])


def clear_the_gradient(model, y):
    y.backward(retain_graph=True)
    model.a.grad = None


def assign_data(model, y):
    model.b.data = oplib.tensor([7.0, 7.0])


def write_the_leaf(model, y):
    with oplib.no_grad():
        model.a.mul_(2)


def write_the_other_leaf(model, y):
    with oplib.no_grad():
        model.b.mul_(2)


def change_the_class(model, y):
    model.b.__class__ = type("Weight", (oplib.Tensor,), {})


def take_a_view(model, y):
    model.seen.append((model.a[0] * 2).tolist())


def drop_the_leaves(model, y):
    leaves = [node.next_functions for node in (y.grad_fn,)]
    model.seen.append(len(leaves))
    del model.b


def call_again(model, y):
    model.forward().backward()


def find_the_accumulator(model, y):
    ahead = [y.grad_fn]
    while getattr(ahead[0], "variable", None) is not model.a:
        ahead += [node for node, _ in ahead.pop(0).next_functions if node is not None]
    ahead[0].register_prehook(lambda grads: model.note(grads[0]))


def register_in_another_thread(model, y):
    thread = threading.Thread(target=hook_the_leaf, args=(model, y))
    thread.start()
    thread.join()


def replace_the_attribute(model, y):
    model.a = oplib.tensor([9.0, 9.0], requires_grad=True)


CHANGES = {
    change.__name__: change
    for change in (
        hook_the_leaf, hook_after_the_sum, hook_the_edge, freeze, hold_a_gradient, clear_the_gradient,
        assign_data, write_the_leaf, write_the_other_leaf, change_the_class, take_a_view, drop_the_leaves,
        call_again, find_the_accumulator, register_in_another_thread, replace_the_attribute,
    )
}  # fmt: skip


def backward(model, y):
    y.backward()


def backward_to_one(model, y):
    y.backward(inputs=[model.a])


def backward_twice(model, y):
    y.backward(retain_graph=True)
    y.backward()


def differentiate(model, y):
    for grad in oplib.autograd.grad(y, [model.a], create_graph=True, allow_unused=True):
        if grad is not None:
            model.note(grad)
            grad.sum().backward()


PASSES = {run.__name__: run for run in (backward, backward_to_one, backward_twice, differentiate)}


def run_all(wrap, change, run):
    model = Model(wrap)
    leaves = [model.a, model.b]
    model.forward()
    y = model.forward()
    result = []
    try:
        change(model, y)
        run(model, y)
    except RuntimeError as error:
        result.append(type(error).__name__)
    result += [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]
    return result, [note for note in model.seen if not isinstance(note, str)]


@pytest.mark.parametrize("run", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_between_forward_and_backward_counts_as_without_a_program(change, run):
    mine, its = run_all(oplib.jit, change, run), run_all(lambda function: function, change, run)
    if run is differentiate and "TracingError" in mine[0]:  # the function is traced again, and has changed
        assert not any(isinstance(part, list) for part in mine[0])
    else:
        assert mine == its


def test_the_edges_lead_to_the_accumulators_of_the_leaves_and_to_histories():
    model = Model(oplib.jit)
    y = model.forward()
    nodes = [node for node, _ in y.grad_fn.next_functions if node is not None]
    assert [getattr(node, "variable", None) is model.a for node in nodes].count(True) == 1
    assert model.inner.grad_fn in nodes
    assert y.grad_fn.next_functions == y.grad_fn.next_functions


def test_a_creation_hook_gets_the_accumulators_before_the_node():
    model, made = Model(oplib.jit), []
    model.forward()
    with node_creation_hook(lambda node: made.append(node.name())):
        model.forward()
    assert made == ["oplib::autograd::AccumulateGrad", "CompiledCallBackward"]


def test_a_recorded_call_runs_the_same_python_for_more_leaves():
    """Calls are counted, because time depends on the machine. Nobody asks for an accumulator."""

    def count(number):
        weights = [oplib.ones(2).requires_grad_() for _ in range(number)]
        forward = oplib.jit(lambda: sum((weight * weight).sum() for weight in weights))
        for _ in range(3):
            forward()
        calls = Counter()
        sys.setprofile(lambda frame, event, _: calls.update([event]) if event == "call" else None)
        try:
            forward()
        finally:
            sys.setprofile(None)
        return calls["call"]

    assert count(30) == count(10)
