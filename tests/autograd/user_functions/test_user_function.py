"""User Functions: both styles, and what they save."""

import weakref

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.autograd.function import BackwardCFunction
from oplib.autograd.graph import Node
from oplib.autograd.user_functions.function_node import refuse_gradients
from oplib.errors import AutogradError, GradientTypeError, MissingRuleError, SavedTensorError
from tests.autograd.functions import Square, make_function


class Scale(Function):
    @staticmethod
    def forward(x, factor=3.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.seen = (inputs, output, output.requires_grad, oplib.is_grad_enabled())

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


# The two styles ------------------------------------------------------------------------------


def test_forward_with_ctx_and_its_backward(x):
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_backward_of_operations_is_differentiable_again(x):
    (first,) = grad(Square.apply(x).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [2.0, 2.0]


def test_setup_context_sees_inputs_and_output_before_they_are_attached(x):
    y = Scale.apply(x)
    inputs, output, requires_grad, grad_mode = y.grad_fn.seen
    assert inputs[0] is x
    assert inputs[1] == 3.0
    assert output is y
    assert not requires_grad
    assert not grad_mode
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_forward_runs_with_grad_mode_off_on_the_tensors_given(x):
    seen = []

    def forward(ctx, a):
        seen.append((a is x, a.requires_grad, oplib.is_grad_enabled(), ctx.needs_input_grad))
        return a * 2

    make_function(forward, lambda ctx, g: g * 2).apply(x)
    assert seen == [(True, True, False, (True,))]
    assert oplib.is_grad_enabled()


def test_grad_mode_is_restored_when_forward_raises(x):
    with pytest.raises(ZeroDivisionError):
        make_function(lambda ctx, a: 1 / 0).apply(x)
    assert oplib.is_grad_enabled()


def test_nothing_is_recorded_without_need(x):
    assert Square.apply(oplib.tensor([1.0])).grad_fn is None
    with oplib.no_grad():
        assert Square.apply(x).grad_fn is None


@pytest.mark.spec("000.2", "000.3")
def test_the_node_is_the_ctx_and_is_named_after_the_function(x):
    y = Square.apply(x)
    assert y.grad_fn.name() == "SquareBackward"
    assert type(y.grad_fn).__name__ == "SquareBackward"
    assert isinstance(y.grad_fn, BackwardCFunction)
    assert isinstance(y.grad_fn, Node)
    assert not issubclass(Square, Node)
    assert y.grad_fn.saved_tensors[0] is x


@pytest.mark.spec("000.4")
def test_next_functions_has_one_pair_for_each_tensor(x):
    function = make_function(lambda ctx, a, k, b, c: a * k, lambda ctx, g: (g, None, None, g))
    node = function.apply(x, 2.0, oplib.tensor([1.0]), x).grad_fn
    (first, slot), nothing, second = node.next_functions
    assert (first, slot) == second
    assert nothing == (None, 0)


def test_an_instance_applies_the_function_and_is_not_called(x):
    with pytest.warns(DeprecationWarning, match=r"Call Square\.apply") as warned:
        instance = Square()
    assert warned[0].filename == __file__
    instance.apply(x).sum().backward()
    assert x.grad.tolist() == [2 * value for value in x.tolist()]
    with pytest.raises(AutogradError, match=r"Make the methods static, and call Square\.apply"):
        instance(x)


def test_a_missing_forward_or_backward_says_so(x):
    class Empty(Function):
        pass

    with pytest.raises(MissingRuleError, match="no forward"):
        Empty.apply(x)
    with pytest.raises(MissingRuleError, match="MadeBackward: its Function has no backward"):
        make_function(lambda ctx, a: a * 2).apply(x).sum().backward()


def test_vjp_is_another_name_for_backward(x):
    function = make_function(lambda ctx, a: a * 2, vjp=lambda ctx, g: g * 2)
    function.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_and_vjp_together_are_refused(x):
    function = make_function(lambda ctx, a: a * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(AutogradError, match="both 'backward' and 'vjp'"):
        function.apply(x).sum().backward()


# Saving --------------------------------------------------------------------------------------


def test_saved_tensors_keep_none_and_their_order(x):
    def forward(ctx, a):
        ctx.save_for_backward(a, None, a * 2)
        return a * 1

    node = make_function(forward, lambda ctx, g: g).apply(x).grad_fn
    first, nothing, intermediate = node.saved_tensors
    assert first is x
    assert nothing is None
    assert intermediate.tolist() == [2.0, 4.0]
    assert not intermediate.requires_grad


@pytest.mark.usefixtures("collector_off")
def test_a_saved_output_comes_back_with_its_history_and_makes_no_cycle(x):
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    y = make_function(forward, backward).apply(x)
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn
    (first,) = grad(y.sum(), x, create_graph=True)
    assert jnp.allclose(grad(first.sum(), x)[0].array, jnp.exp(x.array))
    del first
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_a_saved_input_that_is_written_later_raises():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    z = x * 1
    y = Square.apply(z)
    with oplib.no_grad():
        z.add_(1.0)
    with pytest.raises(
        SavedTensorError, match=r"SquareBackward.*modified by an inplace operation.*version 1.*version 0"
    ):
        y.sum().backward()


def test_saved_tensors_are_freed_by_the_first_pass(x):
    y = Square.apply(x)
    y.sum().backward()
    with pytest.raises(SavedTensorError, match="second time"):
        _ = y.grad_fn.saved_tensors
    with pytest.raises(SavedTensorError, match="second time"):
        y.sum().backward()


def test_only_tensors_can_be_saved(x):
    def forward(ctx, a):
        ctx.save_for_backward(5)
        return a * 2

    with pytest.raises(GradientTypeError, match="argument 0 is of type int"):
        make_function(forward).apply(x)


def test_save_for_forward_takes_tensors_only():
    def forward(ctx, a):
        ctx.save_for_forward("a")
        return a * 2

    with pytest.raises(GradientTypeError, match="save_for_forward"):
        make_function(forward).apply(oplib.tensor([1.0]))


def test_attributes_of_ctx_reach_backward_and_stay_after_it(x):
    y = Scale.apply(x, 5.0)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert y.grad_fn.factor == 5.0


def test_an_attribute_that_a_node_has_is_refused(x):
    def forward(ctx, a):
        ctx.edges = [1, 2]
        return a * 2

    with pytest.raises(AutogradError, match=r"ctx\.edges was set in forward.*Choose another name"):
        make_function(forward).apply(x)


def test_defaults_of_setup_context_style_are_positions(x):
    assert len(Scale.apply(x).grad_fn.needs_input_grad) == 2


def test_a_function_without_tensor_results_records_nothing(x):
    assert make_function(lambda ctx, a: None).apply(x) is None


# Under JAX's transformations -----------------------------------------------------------------


@pytest.mark.spec("D.13")
def test_a_function_is_traced_with_the_step_around_it():
    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        Square.apply(leaf).sum().backward()
        return leaf.grad.array

    assert jax.jit(step)(jnp.array([1.0, 3.0])).tolist() == [2.0, 6.0]


def test_the_node_that_bars_a_second_derivative_keeps_no_array() -> None:
    barred = refuse_gradients([oplib.ones(3)], "no")[0]
    (kept,) = barred.grad_fn.input_metadata
    assert not isinstance(kept, jax.Array)
    assert (kept.shape, kept.dtype) == ((3,), oplib.float32)
