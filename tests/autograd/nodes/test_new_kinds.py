"""A new kind of node and a new kind of hook, which no module of oplib knows, are right or refused by name."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd, grad
from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.nodes import hook_kinds
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.hook_kinds import HookKind
from oplib.autograd.nodes.node import NOBODY, SavedArray, SavedState, TapeNode
from oplib.autograd.recording.origins import number_node
from oplib.autograd.saved_tensors.saved_tensor import second_pass_error
from oplib.errors import AutogradError, SavedTensorError
from oplib.modes import modes
from oplib.utils.checkpoint import checkpoint

VALUES = np.float32([[1.0, 2.0], [3.0, 4.0]])
EXPECTED = 5 * np.cos(VALUES) * VALUES + 2 * np.sin(VALUES)
"""The gradient of ``double(x.sin()) * x``, if the step of ``double`` multiplies by five."""


class FiveTimes(TapeNode):
    """Multiplies by five, though the value was doubled: a derivative that nobody else can find."""

    def apply(self, grads, run):
        return [None if one is None else one * 5 for one in grads]


@pytest.fixture
def x():
    return oplib.tensor(VALUES, requires_grad=True)


def double(x):
    """Doubles a tensor, and records a node of the new kind."""
    y = x.detach() * 2
    if modes.grad_enabled and x.requires_grad:
        node = object.__new__(FiveTimes)
        node.edges = (gradient_edge(x),)
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(y.shape), jnp.float32),)
        number_node(node, modes.state)
        y._requires_grad, y._grad_fn = True, node
    return y


def use(x):
    return double(x.sin()) * x


def run_eagerly(x, function):
    function(x).sum().backward()


def run_compiled(x, function):
    with compiled_autograd.enable():
        function(x).sum().backward()


def run_in_jit(x, function):
    oplib.jit(function)(x).sum().backward()


def run_inside_jit(x, function):
    x.grad = oplib.jit(lambda x: grad(function(x).sum(), x)[0])(x)


def run_in_vmap(x, function):
    oplib.vmap(function)(x).sum().backward()


def run_in_checkpoint(x, function):
    checkpoint(function, x, use_reentrant=False).sum().backward()


def run_in_reentrant_checkpoint(x, function):
    checkpoint(function, x, use_reentrant=True).sum().backward()


RUNS = [
    run_eagerly,
    run_compiled,
    run_in_jit,
    run_inside_jit,
    run_in_vmap,
    run_in_checkpoint,
    run_in_reentrant_checkpoint,
]


@pytest.mark.parametrize("run", RUNS)
def test_a_new_kind_of_node_is_run_by_each_mechanism(run, x):
    run(x, use)
    np.testing.assert_allclose(x.grad.numpy(), EXPECTED, rtol=1e-5)


def in_cond(function, x):
    return oplib.cond(oplib.tensor(True), function, lambda x: x * 1, x)


def in_scan(function, x):
    return oplib.scan(lambda carry, row: (carry + function(row).sum(), None), oplib.tensor(0.0), x)[0]


@pytest.mark.parametrize("call", [in_cond, in_scan])
def test_control_flow_refuses_a_new_kind_of_node_by_name(call, x):
    with pytest.raises(AutogradError, match=r"a node that JAX cannot follow. Got FiveTimes"):
        call(use, x)


def test_a_deep_copy_refuses_a_new_kind_of_node_by_name_and_a_copy_is_a_leaf(x):
    y = double(x)
    with pytest.raises(AutogradError, match="the result of FiveTimes"):
        copy.deepcopy(y)
    assert copy.copy(y).is_leaf


class WithFormula(TapeNode):
    """The derivative of a sine, with the array that it reads: the two methods that give a formula."""

    runs = 0

    def __init__(self, tensor):
        self.tensor = tensor.detach()

    def read_operands(self, operands):
        if self.tensor is None:
            raise second_pass_error(self.name())
        operands.append(self.tensor.array)
        return (WithFormula.class_token,)

    def find_function(self, given):
        return ArrayFunction(lambda array, grad: (grad * jnp.cos(array),), "WithFormula")

    def apply(self, grads, run):
        WithFormula.runs += 1
        return [None if one is None else one * jnp.cos(self.tensor.array) for one in grads]

    def release(self):
        self.tensor = None


class WithEdges(WithFormula):
    """The same, with the edge of its array, so that the formula can be differentiated."""

    def __init__(self, tensor):
        super().__init__(tensor)
        self.edge = gradient_edge(tensor)

    def read_saved(self):
        state = super().read_saved()
        values = [value._replace(edge=self.edge) for value in state.values]
        return state._replace(values=values, is_linked=True)


class WithPython(TapeNode):
    """The derivative of a sine as code that is not known before it runs, on the array that it has saved."""

    def __init__(self, tensor):
        self.array, self.edge = tensor.array, gradient_edge(tensor)

    def read_saved(self):
        return SavedState(None, [SavedArray(self.array, NOBODY, 0, self.edge)])

    def with_arrays(self, arrays):
        twin = copy.copy(self)
        (twin.array,) = arrays
        return twin

    def apply(self, grads, run):
        cosine = jnp.cos(self.array)
        return [None if one is None else one * cosine for one in grads]


KINDS = [WithFormula, WithEdges, WithPython]


def sine(kind):
    """Returns a function ``x.sin() * x`` whose sine is recorded as a node of a kind."""

    def function(x):
        y = x.detach().sin()
        if modes.grad_enabled and x.requires_grad:
            node = kind(x)
            node.edges = (gradient_edge(x),)
            node.input_metadata = (jax.ShapeDtypeStruct(tuple(y.shape), jnp.float32),)
            number_node(node, modes.state)
            y._requires_grad, y._grad_fn = True, node
        return y * x

    return function


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", RUNS)
def test_a_node_with_saved_arrays_is_run_by_each_mechanism(run, kind, x):
    run(x, sine(kind))
    np.testing.assert_allclose(x.grad.numpy(), np.cos(VALUES) * VALUES + np.sin(VALUES), rtol=1e-5)


@pytest.mark.parametrize("run", [run_compiled, run_in_vmap])
@pytest.mark.parametrize("kind", [WithFormula, WithEdges])
def test_a_formula_is_part_of_a_program_and_the_node_does_not_run(run, kind, x, monkeypatch):
    monkeypatch.setattr(WithFormula, "runs", 0)
    run(x, sine(kind))
    assert WithFormula.runs == 0


@pytest.mark.parametrize("kind", [WithEdges, WithPython])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_edges_of_saved_arrays_give_second_gradients_outside_of_maps(depth, kind, x):
    function = sine(kind)
    for _ in range(depth):
        function = oplib.vmap(function)
    y = function(x)
    assert y.grad_fn.next_functions[0][0].name() == kind.__name__
    (first,) = grad((y * y).sum(), x, create_graph=True)
    (second,) = grad((first * first).sum(), x)
    penalty = lambda x: (jax.grad(lambda x: ((jnp.sin(x) * x) ** 2).sum())(x) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(second.numpy(), jax.grad(penalty)(VALUES), rtol=2e-4)


def test_a_formula_whose_arrays_have_no_edges_is_refused_by_name_where_it_is_differentiated(x):
    y = oplib.vmap(sine(WithFormula))(x)
    with pytest.raises(
        AutogradError, match=r"WithFormula: it was recorded inside vmap, and its backward reads"
    ):
        grad(y.sum(), x, create_graph=True)


def test_a_node_that_is_freed_inside_a_map_is_named_there(x):
    def function(x):
        y = sine(WithFormula)(x)
        grad(y.sum(), x)
        return y

    with pytest.raises(SavedTensorError, match=r"a second time\. WithFormula: "):
        oplib.vmap(function)(x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [in_cond, in_scan])
def test_control_flow_refuses_a_node_that_says_nothing_about_jax(call, kind, x):
    with pytest.raises(AutogradError, match=f"a node that JAX cannot follow. Got {kind.__name__}"):
        call(sine(kind), x)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deep_copy_names_the_op_that_leads_to_a_node_with_saved_arrays(kind, x):
    with pytest.raises(AutogradError, match="the result of MulBackward0"):
        copy.deepcopy(sine(kind)(x))


def run_subtractions(node, grads, run):
    """Subtracts from each gradient what the node has of the new kind."""
    return [None if one is None else one - node.subtracted for one in grads]


@pytest.fixture
def subtractions():
    """A new kind of hook: a number that is subtracted from the gradients before a node."""
    kind = HookKind(lambda node: vars(node).get("subtracted"), _run_if_there)
    hook_kinds.before.append(kind)
    yield
    hook_kinds.before.remove(kind)


def _run_if_there(node, grads, run):
    return run_subtractions(node, grads, run) if "subtracted" in vars(node) else grads


def use_hook(x):
    """Subtracts one from the gradient of a sine."""
    y = x.sin()
    if y.grad_fn is not None:
        y.grad_fn.subtracted, y.grad_fn.has_hooks = 1.0, True
    return y * x


@pytest.mark.parametrize("run", RUNS)
def test_a_new_kind_of_hook_is_run_by_each_mechanism(run, x, subtractions):
    run(x, use_hook)
    expected = (VALUES - 1) * np.cos(VALUES) + np.sin(VALUES)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def test_a_compiled_pass_has_a_new_kind_of_hook_in_its_key(subtractions):
    captures = compiled_autograd.counters["compiled_autograd"]["captures"]
    x = oplib.tensor(VALUES[:, :1], requires_grad=True)  # a shape that no other test uses
    with compiled_autograd.enable():
        (x.sin() * x).sum().backward()
        for _ in range(2):
            x.grad = None
            use_hook(x).sum().backward()
    expected = (VALUES - 1) * np.cos(VALUES) + np.sin(VALUES)
    np.testing.assert_allclose(x.grad.numpy(), expected[:, :1], rtol=1e-5)
    assert compiled_autograd.counters["compiled_autograd"]["captures"] == captures + 2


@pytest.mark.parametrize("call", [in_cond, in_scan])
def test_control_flow_refuses_a_new_kind_of_hook_by_name(call, x, subtractions):
    with pytest.raises(AutogradError, match=r"registers a hook. Got one on SinBackward0"):
        call(use_hook, x)


def test_a_deep_copy_refuses_the_result_of_a_node_with_a_new_kind_of_hook_by_name(x, subtractions):
    with pytest.raises(AutogradError, match="the result of MulBackward0"):
        copy.deepcopy(use_hook(x))
