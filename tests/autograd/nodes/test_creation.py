"""Hooks that get each new node."""

import gc

import pytest

import oplib
from oplib.autograd.graph import get_gradient_edge, node_creation_hook
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError
from oplib.modes import modes
from oplib.utils.checkpoint import checkpoint
from tests.autograd.functions import Double

pytestmark = pytest.mark.spec("D.60")

LEAF = "oplib::autograd::AccumulateGrad"


@pytest.fixture
def seen():
    return []


@pytest.fixture
def hook(seen):
    def note(node):
        seen.append(node)

    return note


def name(nodes):
    return [node.name() for node in nodes]


def test_the_hook_gets_each_node_once_and_the_accumulator_when_it_is_made(x, seen, hook):
    with node_creation_hook(hook):
        y = x * x
        z = (y + x).sum()
    x * 3
    assert name(seen) == [LEAF, "MulBackward0", "AddBackward0", "SumBackward0"]
    assert seen[1] is y.grad_fn
    assert seen[3] is z.grad_fn
    assert modes.state.watchers == 0


def test_an_accumulator_that_lives_is_not_new(x, seen, hook):
    edge = get_gradient_edge(x)
    with node_creation_hook(hook):
        x * 2
    assert name(seen) == ["MulBackward0"]
    del edge
    seen.clear()
    gc.collect()
    with node_creation_hook(hook):
        x * 2
    assert name(seen) == [LEAF, "MulBackward0"]


RECORDED = {
    "Function": (lambda x: Double.apply(x), ["DoubleBackward"]),
    "view": (lambda x: (x * 1)[0], ["MulBackward0", "SelectBackward0"]),
    "views": (lambda x: (x * 1).unbind(), ["MulBackward0", "UnbindBackward0"]),
    "in place": (lambda x: (x * 1).mul_(2), ["MulBackward0", "MulBackward0"]),
    "through a view": (
        lambda x: (x * 1)[1:].mul_(2),
        ["MulBackward0", "SliceBackward0", "MulBackward0", "oplib::autograd::CopySlices"],
    ),
    "vmap": (lambda x: oplib.vmap(lambda row: row * row)(x * 1), ["MulBackward0", "MulBackward0"]),
    "jit": (oplib.jit(lambda x: (x * x).sum()), ["CompiledCallBackward"]),
    "cond": (
        lambda x: oplib.cond(oplib.tensor(True), lambda t: t * 2, lambda t: t * 3, x),
        ["CondBackward"],
    ),
    "checkpoint": (
        lambda x: checkpoint(lambda t: t * t, x, use_reentrant=False),
        ["MulBackward0"],
    ),
    "saved-tensor hooks": (
        lambda x: run_packed(lambda: x * x),
        ["MulBackward0"],
    ),
}


def run_packed(call):
    with oplib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return call()


@pytest.mark.parametrize(("call", "names"), RECORDED.values(), ids=RECORDED)
def test_each_kind_of_call_tells_its_nodes(x, seen, hook, call, names):
    with node_creation_hook(hook):
        kept = call(x)  # noqa: F841  the graph lives
    assert name(seen) == [LEAF, *names]


def test_a_repeated_call_of_a_program_makes_a_node_again(x, seen, hook):
    step = oplib.jit(lambda t: (t * t).sum())
    step(x)
    with node_creation_hook(hook):
        results = [step(x), step(x)]
    assert [node for node in seen if node.name() != LEAF] == [result.grad_fn for result in results]


def test_a_recorded_backward_and_a_repeated_checkpoint_tell_their_nodes(x, seen, hook):
    y = (x * x).sum()
    with node_creation_hook(hook):
        (grad,) = oplib.autograd.grad(y, x, create_graph=True)
    assert seen[-1] is grad.grad_fn
    block = checkpoint(lambda t: (t * t).exp(), x, use_reentrant=False, early_stop=False)
    seen.clear()
    with node_creation_hook(hook):
        block.sum().backward()
    assert "ExpBackward0" in name(seen)


def test_a_node_is_complete_in_the_hook(x):
    def check(node):
        assert all(function is not None for function, _ in node.next_functions)
        if node.name() == "MulBackward0":
            assert node._saved_self.tolist() == x.tolist()
            assert node._input_metadata[0].shape == x.shape
            node.register_hook(lambda before, after: tuple(grad * 3 for grad in before))
            node.metadata["layer"] = "first"

    with node_creation_hook(check):
        y = x * x
    y.sum().backward()
    assert y.grad_fn.metadata["layer"] == "first"
    assert x.grad.tolist() == (x.detach() * 6).tolist()


def test_nested_hooks_run_from_the_outside_in(x):
    seen = []
    edge = get_gradient_edge(x)  # noqa: F841  the accumulator lives
    with node_creation_hook(lambda node: seen.append("outer")):
        with node_creation_hook(lambda node: seen.append("inner")):
            x * 2
        x * 2
    assert seen == ["outer", "inner", "outer"]


def test_a_hook_that_makes_a_node_is_refused(x):
    with (
        node_creation_hook(lambda node: x * 3 and None),
        pytest.raises(AutogradError, match=r"the hook makes a node itself. Got .* Compute on tensor.detach"),
    ):
        x * 2
    assert modes.state.creation_hooks == ()
    with node_creation_hook(lambda node: (x.detach() * 3).sum() and None):
        x * 2


def test_a_hook_takes_a_node(x):
    with (
        pytest.raises(GradientTypeError, match=r"node_creation_hook: the hook .* called with \(node\)"),
        node_creation_hook(lambda: None),
    ):
        x * 2


def test_nothing_is_told_where_nothing_is_recorded(x, seen, hook):
    with node_creation_hook(hook), oplib.no_grad():
        x * 2
    assert seen == []


def write_in_turn(x):
    y = x * 2
    y.exp_()
    z = y * x
    z.tanh_()
    w = z * 1
    w.mul_(x)
    w[:1].mul_(3.0)
    w.pow_(2)
    return w.addcmul_(x, x)


def test_a_hook_may_open_the_saved_values_of_a_call_that_then_writes_one_of_them():
    x = oplib.tensor([1.0, 0.5], requires_grad=True)
    (due,) = oplib.autograd.grad(write_in_turn(x).sum(), x, create_graph=True)
    with node_creation_hook(lambda node: getattr(node, "_raw_saved_tensors", None)):
        total = write_in_turn(x).sum()
    (grad,) = oplib.autograd.grad(total, x, create_graph=True)
    second = [oplib.autograd.grad(one.sum(), x)[0].tolist() for one in (grad, due)]
    assert grad.tolist() == due.tolist()
    assert second[0] == second[1]


def test_a_hook_that_opens_saved_values_does_not_hide_a_write_that_loses_one():
    x = oplib.tensor([1.0, 0.5], requires_grad=True)
    with node_creation_hook(lambda node: getattr(node, "_raw_saved_tensors", None)):
        y = (x * 2).exp_()
        y.mul_(2)
    with pytest.raises(SavedTensorError, match=r"ExpBackward0: .*modified by an inplace"):
        y.sum().backward()
