"""User Functions: both styles, keyword arguments, containers, and what a ctx may be told."""

import dataclasses
import gc
import weakref
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.autograd.function import BackwardCFunction, once_differentiable
from oplib.autograd.function_node import refuse_gradient
from oplib.autograd.graph import Node
from oplib.errors import AutogradError, GradientTypeError, MissingRuleError, SavedTensorError


@pytest.fixture
def x():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2


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


def make(forward, backward=None, **members):
    """Makes a Function of a forward and a backward."""
    body = {"forward": staticmethod(forward), **members}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type("Made", (Function,), body)


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

    make(forward, lambda ctx, g: g * 2).apply(x)
    assert seen == [(True, True, False, (True,))]
    assert oplib.is_grad_enabled()


def test_grad_mode_is_restored_when_forward_raises(x):
    with pytest.raises(ZeroDivisionError):
        make(lambda ctx, a: 1 / 0).apply(x)
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
    function = make(lambda ctx, a, k, b, c: a * k, lambda ctx, g: (g, None, None, g))
    node = function.apply(x, 2.0, oplib.tensor([1.0]), x).grad_fn
    (first, slot), nothing, second = node.next_functions
    assert (first, slot) == second
    assert nothing == (None, 0)


def test_a_function_is_neither_instantiated_nor_called():
    with pytest.raises(AutogradError, match=r"Call Square\.apply"):
        Square()


def test_a_missing_forward_or_backward_says_so(x):
    class Empty(Function):
        pass

    with pytest.raises(MissingRuleError, match="no forward"):
        Empty.apply(x)
    with pytest.raises(MissingRuleError, match="MadeBackward: its Function has no backward"):
        make(lambda ctx, a: a * 2).apply(x).sum().backward()


def test_vjp_is_another_name_for_backward(x):
    function = make(lambda ctx, a: a * 2, vjp=staticmethod(lambda ctx, g: g * 2))
    function.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_and_vjp_together_are_refused(x):
    function = make(lambda ctx, a: a * 2, lambda ctx, g: g, vjp=staticmethod(lambda ctx, g: g))
    with pytest.raises(AutogradError, match="both 'backward' and 'vjp'"):
        function.apply(x).sum().backward()


# Saving --------------------------------------------------------------------------------------


def test_saved_tensors_keep_none_and_their_order(x):
    def forward(ctx, a):
        ctx.save_for_backward(a, None, a * 2)
        return a * 1

    node = make(forward, lambda ctx, g: g).apply(x).grad_fn
    first, nothing, intermediate = node.saved_tensors
    assert first is x
    assert nothing is None
    assert intermediate.tolist() == [2.0, 4.0]
    assert not intermediate.requires_grad


def test_a_saved_output_comes_back_with_its_history_and_makes_no_cycle(x):
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    y = make(forward, backward).apply(x)
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn
    (first,) = grad(y.sum(), x, create_graph=True)
    assert jnp.allclose(grad(first.sum(), x)[0].array, jnp.exp(x.array))
    del first
    gc.disable()
    try:
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


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
        make(forward).apply(x)


def test_save_for_forward_takes_tensors_only():
    def forward(ctx, a):
        ctx.save_for_forward("a")
        return a * 2

    with pytest.raises(GradientTypeError, match="save_for_forward"):
        make(forward).apply(oplib.tensor([1.0]))


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
        make(forward).apply(x)


# What backward gets and returns --------------------------------------------------------------


def test_missing_gradients_are_zeros(x):
    seen = []

    def backward(ctx, g, h):
        seen.append(h.tolist())
        return g

    first, _ = make(lambda ctx, a: (a * 2, a * 3), backward).apply(x)
    first.sum().backward()
    assert seen == [[0.0, 0.0]]


def test_missing_gradients_are_none_if_asked_for(x):
    seen = []

    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    def backward(ctx, g, h):
        seen.append(h)
        return g

    make(forward, backward).apply(x)[0].sum().backward()
    assert seen == [None]


def test_results_that_are_no_tensors_pass_and_get_none(x):
    seen = []

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0]

    y, number, nothing = make(lambda ctx, a: (a * 2, 5, None), backward).apply(x)
    assert (number, nothing) == (5, None)
    y.sum().backward()
    assert seen[1:] == [None, None]


def test_integer_results_are_constants(x):
    y = make(lambda ctx, a: oplib.Tensor.from_array(a.array.astype(jnp.int32))).apply(x)
    assert not y.requires_grad
    assert y.grad_fn is None


def test_a_marked_output_is_a_constant(x):
    def forward(ctx, a):
        b = a * 3
        ctx.mark_non_differentiable(b)
        return a * 2, b

    seen = []

    def backward(ctx, g, h):
        seen.append(h.tolist())
        return g

    y, constant = make(forward, backward).apply(x)
    assert not constant.requires_grad
    y.sum().backward()
    assert seen == [[0.0, 0.0]]


def test_needs_input_grad_tells_each_argument(x):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None

    make(lambda ctx, a, b, k: a * 2, backward).apply(x, oplib.tensor([1.0]), 3).sum().backward()
    assert seen == [(True, False, False)]


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_of_gradients_names_both(x, count):
    function = make(lambda ctx, a, b: a * b, lambda ctx, g: (g,) * count)
    with pytest.raises(AutogradError, match=rf"incorrect number of gradients. Got {count}, expected 2"):
        function.apply(x, x).sum().backward()


@pytest.mark.spec("E.4")
def test_further_nones_are_allowed(x):
    make(lambda ctx, a: a * 2, lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_gradient_for_something_that_is_no_tensor_raises(x):
    function = make(lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    with pytest.raises(AutogradError, match="different than None at position 1"):
        function.apply(x, 2.0).sum().backward()


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("result", [3, [1.0], jnp.ones(2)])
def test_a_result_that_is_no_tensor_raises(x, result):
    function = make(lambda ctx, a: a * 2, lambda ctx, g: result)
    with pytest.raises(AutogradError, match=r"expected Variable or None \(a Tensor or None\)"):
        function.apply(x).sum().backward()


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_is_summed_to_the_shape_of_its_input(x, create_graph):
    function = make(lambda ctx, a: a * 2, lambda ctx, g: oplib.ones(4, 2))
    assert grad(function.apply(x).sum(), x, create_graph=create_graph)[0].tolist() == [4.0, 4.0]


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_is_cast_to_the_dtype_of_its_input(create_graph):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    function = make(lambda ctx, a: a * 2, lambda ctx, g: oplib.Tensor.from_array(jnp.ones(2, jnp.float16)))
    assert grad(function.apply(x).sum(), x, create_graph=create_graph)[0].array.dtype == jnp.float32


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("shape", [(7,), (1,)])
def test_a_gradient_of_another_shape_raises_and_names_the_function(x, shape):
    function = make(lambda ctx, a: a * 2, lambda ctx, g: oplib.ones(*shape))
    with pytest.raises(
        AutogradError, match=rf"MadeBackward returned an invalid gradient at index 0.*{shape[0]}\].*f32\[2\]"
    ):
        function.apply(x).sum().backward()


def test_a_complex_gradient_of_something_real_raises(x):
    function = make(lambda ctx, a: a * 2, lambda ctx, g: oplib.Tensor.from_array(jnp.ones(2, jnp.complex64)))
    with pytest.raises(AutogradError, match="lose the imaginary part"):
        function.apply(x).sum().backward()


def test_once_differentiable_raises_where_it_would_be_differentiated(x):
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not oplib.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return g * x * 2

    assert grad(Once.apply(x).sum(), x)[0].tolist() == [2.0, 4.0]
    (first,) = grad(Once.apply(x).sum(), x, create_graph=True)
    assert first.tolist() == [2.0, 4.0]
    with pytest.raises(AutogradError, match=r"OnceBackward.*@once_differentiable"):
        first.sum().backward()


# Inputs that come back -----------------------------------------------------------------------


def test_an_input_returned_as_it_is_is_a_new_tensor_on_the_same_storage(x):
    y = make(lambda ctx, a: a, lambda ctx, g: g * 3).apply(x)
    assert y is not x
    assert y._storage.owner is x._storage
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_an_input_returned_without_recording_is_a_new_tensor_too():
    plain = oplib.tensor([1.0])
    y = make(lambda ctx, a: a).apply(plain)
    assert y is not plain
    assert not y.requires_grad


def test_a_tensor_captured_from_outside_is_detached(x):
    weight = oplib.tensor([5.0, 5.0], requires_grad=True)
    y = make(lambda ctx, a: weight, lambda ctx, g: g).apply(x)
    assert y is not weight
    assert weight.is_leaf
    y.sum().backward()
    assert weight.grad is None


def write(ctx, a):
    ctx.mark_dirty(a)
    return a.add_(1.0)


def test_a_dirty_input_is_the_same_object_with_a_new_history(x):
    h = x * 2
    y = make(write, lambda ctx, g: g * 3).apply(h)
    assert y is h
    assert h.grad_fn.name() == "MadeBackward"
    assert h.tolist() == [3.0, 5.0]
    assert h._version > 0
    h.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_what_saved_a_dirty_input_before_raises(x):
    h = x * 2
    squared = h * h
    make(write, lambda ctx, g: g).apply(h)
    with pytest.raises(SavedTensorError, match="inplace"):
        squared.sum().backward()


@pytest.mark.spec("D.20")
def test_a_leaf_that_requires_grad_cannot_be_dirty(x):
    with pytest.raises(
        AutogradError, match=r"a leaf that requires grad has been used in an in-place operation"
    ):
        make(write, lambda ctx, g: g).apply(x)


def test_a_dirty_input_must_be_returned(x):
    def forward(ctx, a):
        return write(ctx, a) * 1

    with pytest.raises(AutogradError, match="marked as dirty was not returned"):
        make(forward).apply(x * 2)


def test_marking_something_else_dirty_warns(x):
    def forward(ctx, a):
        b = a * 2
        ctx.mark_dirty(b)
        return b

    with pytest.warns(UserWarning, match="not an input of forward"):
        make(forward).apply(x)


def test_a_retained_gradient_moves_with_the_dirty_tensor(x):
    h = x * 2
    h.retain_grad()
    make(write, lambda ctx, g: g * 3).apply(h)
    h.sum().backward()
    assert h.grad.tolist() == [1.0, 1.0]


# Keywords and containers ---------------------------------------------------------------------


def test_keywords_go_to_their_positions(x):
    def forward(ctx, a, factor=2.0, other=None):
        ctx.count = len(ctx.needs_input_grad)
        return a * factor if other is None else a * factor + other

    def backward(ctx, g):
        return (g * 2, None, g)[: ctx.count]

    function = make(forward, backward)
    function.apply(x, other=x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert function.apply(a=x, factor=4.0).grad_fn.count == 2


def test_defaults_of_setup_context_style_are_positions(x):
    assert len(Scale.apply(x).grad_fn.needs_input_grad) == 2


def test_an_unknown_keyword_is_a_type_error(x):
    with pytest.raises(TypeError, match="colour"):
        Square.apply(x, colour=3)


def test_keyword_only_tensors_get_gradients_after_the_positional_ones(x):
    w = oplib.tensor([3.0, 4.0], requires_grad=True)

    def forward(ctx, a, scale=1.0, *, weight, bias=None):
        ctx.save_for_backward(a, weight)
        return a * weight

    def backward(ctx, g):
        a, weight = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, True, False)
        return g * weight, None, g * a, None

    make(forward, backward).apply(x, weight=w).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert w.grad.tolist() == [1.0, 2.0]


def test_setup_context_gets_keyword_only_inputs_apart(x):
    seen = []

    def forward(a, *, k=2.0):
        return a * k

    def setup(ctx, inputs, output, keyword_only_inputs):
        seen.append((len(inputs), keyword_only_inputs))

    make(forward, lambda ctx, g: (g, None), setup_context=staticmethod(setup)).apply(x)
    assert seen == [(1, {"k": 2.0})]


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


class Both(NamedTuple):
    sum: Any
    product: Any


def test_tensors_in_dictionaries_dataclasses_and_nested_lists(x):
    w = oplib.tensor([3.0, 4.0], requires_grad=True)

    def forward(ctx, tree):
        return {"out": [tree["x"] * 2, Pair(tree["pair"].left * 5, "text")]}

    def backward(ctx, g):
        assert ctx.needs_input_grad == ({"x": True, "pair": Pair(True, False)},)
        assert g["out"][1].right is None
        return {"x": g["out"][0] * 2, "pair": Pair(g["out"][1].left * 5, None)}

    result = make(forward, backward).apply({"x": x, "pair": Pair(w, 7)})
    first, pair = result["out"]
    assert pair.right == "text"
    (first * 1 + pair.left * 10).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert w.grad.tolist() == [50.0, 50.0]


def test_a_namedtuple_result_is_several_outputs_and_stays_one(x):
    function = make(lambda ctx, a: Both(a + a, a * a), lambda ctx, g, h: g * 2 + h)
    result = function.apply(x)
    assert type(result) is Both
    result.sum.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_none_stands_for_the_gradients_of_a_whole_container(x):
    make(lambda ctx, a, rest: a * rest[0], lambda ctx, g: (g, None)).apply(x, [x, x]).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_gradient_of_another_structure_raises(x):
    function = make(lambda ctx, pair: pair[0] * pair[1], lambda ctx, g: [g])
    with pytest.raises(AutogradError, match="argument 0 must have the same structure"):
        function.apply([x, x]).sum().backward()


def test_a_container_without_tensors_is_a_constant(x):
    function = make(lambda ctx, a, sizes: a * sizes[0], lambda ctx, g: (g, None))
    y = function.apply(x, [2.0, 3.0])
    assert y.grad_fn.needs_input_grad == (True, False)


def test_a_tuple_of_one_stays_a_tuple_and_a_list_a_list(x):
    assert isinstance(make(lambda ctx, a: (a * 2,)).apply(x), tuple)
    assert isinstance(make(lambda ctx, a: [a * 2]).apply(x), list)


def test_a_function_without_tensor_results_records_nothing(x):
    assert make(lambda ctx, a: None).apply(x) is None


# Under JAX's transformations -----------------------------------------------------------------


@pytest.mark.spec("D.13")
def test_a_function_is_traced_with_the_step_around_it():
    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        Square.apply(leaf).sum().backward()
        return leaf.grad.array

    assert jax.jit(step)(jnp.array([1.0, 3.0])).tolist() == [2.0, 6.0]


def test_the_node_that_bars_a_second_derivative_keeps_no_array() -> None:
    barred = refuse_gradient(oplib.ones(3), "no")
    (kept,) = barred.grad_fn.input_metadata
    assert not isinstance(kept, jax.Array)
    assert (kept.shape, kept.dtype) == ((3,), oplib.float32)
