"""The engine's contract, E.1 to E.9."""

import gc
import operator
import sys
import weakref
from contextlib import nullcontext
from functools import reduce

import numpy as np
import pytest

import oplib
from oplib.autograd import Variable, compiled_autograd
from oplib.autograd.engine.engine import (
    current_autograd_node,
    current_graph_task_id,
    will_engine_execute_node,
)
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.errors import AutogradError, SavedTensorError
from oplib.modes import modes
from oplib.tensor import upcalls
from tests.autograd.branches import run_two_branches
from tests.autograd.functions import Probe
from tests.threads import run_in_threads

engine = Variable._execution_engine


@pytest.mark.slow
def test_a_deep_graph_is_freed_without_recursion(chain):
    _, top = chain(200_000)
    bottom = weakref.ref(top.grad_fn)
    del top
    assert bottom() is None


def test_grad_walks_a_deep_graph_without_recursion(chain, numbers):
    leaf, top = chain(50_000)
    assert numbers(oplib.autograd.grad(top, leaf)[0]) == 1.0


def test_a_wide_fan_in_is_summed_once_per_edge(node, output, numbers):
    leaf = oplib.tensor(1.0, requires_grad=True)
    edge = gradient_edge(leaf)
    top = node(*[(node(edge), 0) for _ in range(100)])
    output(top).backward()
    assert numbers(leaf.grad) == 100.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("count", [2, 3, 5, 8, 9, 15, 16, 19, 22, 23])
@pytest.mark.usefixtures("with_64_bits")
def test_the_gradients_of_a_slot_are_added_in_the_order_of_their_arrival(count, dtype):
    rng = np.random.default_rng(count)
    factors = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    factors = [oplib.tensor(float(factor), dtype=getattr(oplib, dtype)) for factor in factors]
    due = reduce(operator.add, [factor.numpy(force=True) for factor in reversed(factors)])
    leaf = oplib.ones(3, dtype=getattr(oplib, dtype), requires_grad=True)
    total = sum(leaf * factor for factor in factors)
    total.backward(oplib.ones_like(total))
    assert leaf.grad.tolist() == [due.item()] * 3


@pytest.mark.parametrize(
    ("size", "dtype", "count", "calls"),
    [(3, "float32", 5, 1), (3, "float32", 20, 3), (3, "float16", 5, 4), (20_000, "float32", 5, 4)],
)
def test_small_gradients_of_a_slot_are_added_by_few_calls_and_large_ones_at_once(
    size, dtype, count, calls, monkeypatch
):
    made, add = [], upcalls.add_arrays
    monkeypatch.setattr(upcalls, "add_arrays", lambda *arrays: made.append(len(arrays)) or add(*arrays))
    leaf = oplib.ones(size, dtype=getattr(oplib, dtype), requires_grad=True)
    sum(leaf * float(factor) for factor in range(count)).sum().backward()
    if not oplib.config.compiled_autograd:  # a program adds them
        assert (len(made), sum(made) - len(made)) == (calls, count - 1)
    assert leaf.grad.tolist() == [float(sum(range(count)))] * size


def test_an_absent_gradient_may_be_the_last_of_several(numbers):
    x, y = (oplib.tensor(value, requires_grad=True) for value in (2.0, 3.0))

    class First(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, one, other):
            return one * other

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    shared = x * y
    last = First.apply(y, shared)  # runs after the others
    others = [shared * 2, shared * 3, shared * 4]
    (last + sum(others)).backward()
    assert numbers(x.grad) == 27.0
    assert numbers(y.grad) == 19.0


@pytest.mark.spec("E.1")
def test_run_ids_count_up_and_are_minus_one_outside():
    x = oplib.tensor(1.0, requires_grad=True)
    ids = []
    for _ in range(2):
        Probe.apply(x, lambda: ids.append(current_graph_task_id())).backward()
    assert ids[0] >= 0
    assert ids[1] == ids[0] + 1
    assert current_graph_task_id() == -1


@pytest.mark.spec("E.2")
def test_the_latest_ready_node_runs_first_and_leaves_at_once():
    assert run_two_branches(oplib) == ["t", "s", "r", "y", "q", "p", "x"]


@pytest.mark.spec("E.2")
def test_a_node_waits_for_all_its_gradients():
    x = oplib.tensor(3.0, requires_grad=True)
    shared = x * x
    seen = []
    shared.register_hook(lambda grad: seen.append(grad.item()))
    (shared * 2 + shared * 5).backward()
    assert seen == [7.0]


@pytest.mark.spec("E.5")
def test_the_current_node_is_known_inside_and_none_outside():
    x = oplib.tensor(1.0, requires_grad=True)
    seen = []
    y = Probe.apply(x, lambda: seen.append(current_autograd_node()))
    y.backward()
    assert seen == [y.grad_fn]
    assert current_autograd_node() is None


@pytest.mark.spec("E.5", "D.3")
def test_every_node_of_an_unrestricted_run_will_execute():
    x, other = oplib.tensor(1.0, requires_grad=True), oplib.tensor(1.0, requires_grad=True)
    inside, outside = x * 2, other * 2
    answers = []

    def ask():
        nodes = (inside.grad_fn, gradient_edge(x)[0], outside.grad_fn)
        answers.extend(will_engine_execute_node(node) for node in nodes)

    Probe.apply(inside, ask).backward()
    assert answers == [True, True, False]


@pytest.mark.spec("E.5")
def test_only_nodes_on_a_path_to_an_input_will_execute():
    x, y = oplib.tensor(1.0, requires_grad=True), oplib.tensor(1.0, requires_grad=True)
    a, b = x * 2, y * 2
    top = Probe.apply(
        a * b, lambda: answers.extend(map(will_engine_execute_node, (top.grad_fn, a.grad_fn, b.grad_fn)))
    )
    answers = []
    oplib.autograd.grad(top, a)
    assert answers == [True, True, False]


@pytest.mark.spec("E.5")
def test_asking_for_a_captured_leaf_raises():
    x = oplib.tensor(1.0, requires_grad=True)
    y = Probe.apply(x, lambda: will_engine_execute_node(gradient_edge(x)[0]))
    with pytest.raises(AutogradError, match=r"autograd\.grad\(\)"):
        oplib.autograd.grad(y, x)


@pytest.mark.spec("E.5")
def test_asking_outside_a_run_or_for_no_node_raises():
    x = oplib.tensor(1.0, requires_grad=True)
    with pytest.raises(AutogradError, match="during the backward pass"):
        will_engine_execute_node((x * 2).grad_fn)
    with pytest.raises(AutogradError, match=r"expects a grad_fn\. Got int"):
        will_engine_execute_node(3)


@pytest.mark.spec("E.6")
def test_saved_values_are_freed_as_nodes_run():
    x = oplib.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(SavedTensorError, match=r"second time.*retain_graph=True"):
        y.backward()


def test_a_graph_that_saves_nothing_can_be_used_again(numbers):
    x = oplib.tensor(2.0, requires_grad=True)
    y = x + x
    y.backward()
    y.backward()
    assert numbers(x.grad) == 4.0


@pytest.mark.spec("E.6")
def test_retain_graph_keeps_saved_values(numbers):
    x = oplib.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert numbers(x.grad) == 8.0


@pytest.mark.spec("E.3", "004.5")
@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_inside_is_create_graph_and_restored_afterwards(create_graph):
    x = oplib.tensor(1.0, requires_grad=True)
    seen = []
    y = Probe.apply(x, lambda: seen.append(oplib.is_grad_enabled()))
    y.register_hook(lambda _: seen.append(oplib.is_grad_enabled()))
    with oplib.set_grad_enabled(not create_graph):
        oplib.autograd.grad(y, x, create_graph=create_graph)
        assert oplib.is_grad_enabled() is not create_graph
    assert seen == [create_graph, create_graph]


def test_a_hook_that_switches_grad_mode_switches_it_for_itself_only():
    x = oplib.tensor(1.0, requires_grad=True)
    seen = []
    y = Probe.apply(x, lambda: seen.append(oplib.is_grad_enabled()))

    def hook(_):
        oplib.set_grad_enabled(True)

    y.register_hook(hook)
    y.backward()
    assert seen == [False]


@pytest.mark.spec("E.8", "E.1")
def test_a_backward_inside_a_backward_runs_at_once_with_an_id_of_its_own():
    x = oplib.tensor(2.0, requires_grad=True)
    log = []

    def inner():
        z = oplib.tensor(3.0, requires_grad=True)
        with oplib.enable_grad():
            Probe.apply(z * z, lambda: log.append(current_graph_task_id())).backward()
        log.append(z.grad.item())
        log.append(current_graph_task_id())

    Probe.apply(x, lambda: log.append(current_graph_task_id()) or inner()).backward()
    outer, nested, value, back = log
    assert nested > outer
    assert value == 6.0
    assert back == outer


@pytest.mark.spec("004.15", "001.10")
def test_checkpointing_is_valid_only_under_a_plain_backward():
    x = oplib.tensor(1.0, requires_grad=True)
    seen = {}

    def run(name, call):
        call(Probe.apply(x, lambda: seen.update({name: engine.is_checkpoint_valid()})))

    run("backward", lambda y: y.backward())
    run("inputs", lambda y: y.backward(inputs=[x]))
    run("grad", lambda y: oplib.autograd.grad(y, x))
    run("nested in grad", lambda y: oplib.autograd.grad(Probe.apply(x, y.backward), x))
    assert seen == {"backward": True, "inputs": False, "grad": False, "nested in grad": False}
    assert engine.is_checkpoint_valid()


@pytest.mark.spec("004.8")
def test_threads_that_share_leaves_lose_no_gradient():
    x = oplib.tensor(0.0, requires_grad=True)
    ids = []

    def work(_):
        for _ in range(50):
            y = x + x
            y.register_hook(lambda _: ids.append(current_graph_task_id()))
            y.backward()

    run_in_threads(work)
    assert x.grad.item() == 400.0
    assert len(set(ids)) == 200


@pytest.mark.spec("E.9")
def test_a_run_holds_nothing_afterwards():
    x = oplib.tensor(2.0, requires_grad=True)
    y = x * x
    seen = []
    y.register_hook(lambda grad: seen.append(weakref.ref(grad)))
    y.backward()
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize("compiled", [False, True])
def test_a_leaf_waits_for_the_hook_of_a_leaf_that_came_before(compiled):
    """In torch the gradient of the first factor comes first, its hook too."""
    t, u = oplib.tensor([1.0, 2.0], requires_grad=True), oplib.tensor([3.0, 4.0], requires_grad=True)

    def hook(grad):
        u.grad = oplib.full((2,), 7.0)
        u.register_hook(seen.append)

    seen = []
    t.register_hook(hook)
    with compiled_autograd.enable() if compiled else nullcontext():
        (t * u).sum().backward()
    assert u.grad.tolist() == [8.0, 9.0]
    assert [grad.tolist() for grad in seen] == [[1.0, 2.0]]


class Packed:
    """A saved tensor that computes a gradient when the pass frees it."""

    def __init__(self, tensor, seen):
        self.tensor, self.seen = tensor, seen

    def __del__(self):
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        self.seen.append((oplib.is_grad_enabled(), x.grad.tolist()))


class TestCodeThatPythonRunsAtAnyMomentOfAPass:
    def test_finds_the_mode_around_the_pass(self, chain):
        _, top = chain(3)
        state, seen = modes.state, []  # a read of `modes.state` would be an event of its own
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg: seen.append(state.grad_enabled))
        try:
            top.backward()
        finally:
            sys.setprofile(before)
        assert len(seen) > 10
        assert all(seen)

    def test_finds_the_mode_of_the_pass_in_hooks_and_functions_alone(self):
        seen = {}
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        with oplib.autograd.graph.saved_tensors_hooks(
            lambda tensor: tensor, lambda tensor: (seen.update(unpack=oplib.is_grad_enabled()), tensor)[1]
        ):
            y = x.sin()
        y.register_hook(lambda grad: seen.update(tensor=oplib.is_grad_enabled()))
        y.grad_fn.register_hook(lambda *grads: seen.update(node=oplib.is_grad_enabled()))
        x.register_post_accumulate_grad_hook(lambda leaf: seen.update(leaf=oplib.is_grad_enabled()))
        z = Probe.apply(y, lambda: seen.update(function=oplib.is_grad_enabled()))
        z.sum().backward()
        assert seen == dict.fromkeys(["unpack", "tensor", "node", "leaf", "function"], False)
        assert oplib.is_grad_enabled()

    def test_computes_gradients_when_the_pass_frees_what_it_holds(self, collector_off):
        seen = []
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        with oplib.autograd.graph.saved_tensors_hooks(
            lambda t: Packed(t, seen), lambda packed: packed.tensor
        ):
            y = (x.sin() * x).exp()
        y.sum().backward()
        assert seen == [(True, [2.0, 4.0])] * 4
        other = x.detach().requires_grad_()
        (other.sin() * other).exp().sum().backward()
        assert x.grad.tolist() == other.grad.tolist()
