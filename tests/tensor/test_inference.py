"""Inference mode: what it makes, and what cannot be done with it outside."""

import copy
import pickle

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.tensor.inference import InferenceTensor
from tests.autograd.functions import Product
from tests.complete_calls import count_complete_calls

pytestmark = pytest.mark.spec("001.2")


@pytest.fixture
def x():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


@pytest.fixture
def made():
    with oplib.inference_mode():
        return oplib.tensor([3.0, 4.0])


# What is one ---------------------------------------------------------------------------------


def test_factories_and_results_of_the_mode_are_inference_tensors(x):
    with oplib.inference_mode():
        found = [oplib.ones(2), oplib.zeros_like(x), x * 2, oplib.rand(2), oplib.tensor(1.0), x.new_ones(2)]
        assert all(one.is_inference() for one in found)
    assert not any(oplib.ones(2).is_inference() for _ in found)
    assert not (found[0] * 2).is_inference()


def test_ordinary_tensors_stay_ordinary_inside(x):
    with oplib.inference_mode():
        assert not x.is_inference()
        assert not x.detach().is_inference()
        assert x.to(oplib.float32) is x


def test_an_inference_tensor_is_a_tensor(made):
    assert isinstance(made, oplib.Tensor)
    assert oplib.is_tensor(made)
    assert repr(made) == "tensor([3., 4.])"


def test_detach_keeps_it_and_clone_does_not(made):
    assert made.detach().is_inference()
    assert made.detach()._storage is made._storage
    assert not made.clone().is_inference()


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda t: pickle.loads(pickle.dumps(t)),
        lambda t: jax.tree.map(lambda leaf: leaf, t),
    ],
)
def test_a_copy_made_outside_is_an_ordinary_tensor(made, again):
    made.name = "kept"
    copied = again(made)
    assert not copied.is_inference()
    assert type(copied) is oplib.Tensor
    assert copied.tolist() == [3.0, 4.0]
    assert getattr(copied, "name", "kept") == "kept"
    copied.add_(1.0)
    assert made.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_copy_of_a_view_is_no_view(made, again):
    view = made[1:]
    assert view.is_inference()
    copied = again(view)
    assert (copied.is_inference(), copied._is_view()) == (False, False)
    copied.add_(1.0)
    assert (copied.tolist(), made.tolist()) == ([5.0], [3.0, 4.0])


def test_a_trace_keeps_inference_tensors_out_of_the_tape():
    def step(array):
        with oplib.inference_mode():
            y = oplib.Tensor.from_array(array) * 2
        assert y.is_inference()
        return y.array

    assert jax.jit(step)(jnp.ones(2)).tolist() == [2.0, 2.0]


# Recording -----------------------------------------------------------------------------------


def test_nothing_is_recorded_inside_even_where_grad_mode_is_on(x):
    with oplib.inference_mode(), oplib.enable_grad():
        y = x * 2
        assert oplib.is_grad_enabled()
        assert (y.requires_grad, y.is_inference()) == (False, True)
        assert not Product.apply(x, x).requires_grad


def test_leaving_the_mode_inside_records_again(x):
    with oplib.inference_mode(), oplib.inference_mode(False):
        y = x * 2
    assert (y.requires_grad, y.is_inference()) == (True, False)


def test_a_leaf_made_inside_may_require_grad():
    with oplib.inference_mode():
        leaf = oplib.ones(2, requires_grad=True)
        later = oplib.ones(2).requires_grad_()
    assert leaf.requires_grad
    assert leaf.is_inference()
    (later + 1).sum().backward()
    assert later.grad.tolist() == [1.0, 1.0]


def test_a_backward_pass_may_run_inside(x):
    loss = (x * x).sum()
    with oplib.inference_mode():
        loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_calls_take_the_complete_path_inside_and_the_fast_path_after_it(x):
    with oplib.inference_mode(), oplib.inference_mode(False), oplib.inference_mode():
        assert modes.watchers == 2
    assert modes.watchers == 0
    with pytest.raises(ZeroDivisionError), oplib.inference_mode():
        _ = 1 / 0
    assert modes.watchers == 0


# What is refused outside ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda x, made: x * made,
        lambda x, made: made / x,
        lambda x, made: Product.apply(x, made),
        lambda x, made: x * made.detach(),
    ],
)
def test_it_cannot_be_saved_for_backward(x, made, use):
    with pytest.raises(
        AutogradError, match=r"Inference tensors cannot be saved for backward.*f32\[2\].*clone"
    ):
        use(x, made)


def test_an_index_made_inside_cannot_be_saved(x):
    with oplib.inference_mode():
        index = oplib.tensor([0])
    with pytest.raises(AutogradError, match="cannot be saved for backward"):
        x[index]


def test_it_is_used_freely_where_nothing_of_it_is_saved(x, made):
    y = x + made
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with oplib.no_grad():
        assert (x * made).tolist() == [3.0, 8.0]
    assert (x * made.clone()).requires_grad


def test_saving_it_without_recording_is_allowed(made):
    assert Product.apply(made, made).tolist() == [9.0, 16.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1.0),
        lambda t: t.__setitem__(0, 1.0),
        lambda t: t.zero_(),
        lambda t: t.copy_(oplib.ones(2)),
        lambda t: t.detach().mul_(2.0),
    ],
)
def test_it_is_not_written_in_place_outside(made, write):
    with pytest.raises(AutogradError, match=r"Inplace update to inference tensor outside InferenceMode"):
        write(made)
    assert made.tolist() == [3.0, 4.0]


def test_it_is_written_in_place_inside_without_counting(made):
    with oplib.inference_mode():
        made.add_(1.0)
    assert made.tolist() == [4.0, 5.0]


def test_ordinary_tensors_are_written_inside_and_count(x):
    plain, history = oplib.ones(2), x * 2
    with oplib.inference_mode():
        plain.add_(1.0)
        x.add_(1.0)
        history.mul_(2.0)
    assert (plain.tolist(), plain._version) == ([2.0, 2.0], 1)
    assert (x.tolist(), x.is_leaf, x._version) == ([2.0, 3.0], True, 1)
    assert history.grad_fn.name() == "MulBackward0"
    assert not plain.is_inference()


def test_an_ordinary_tensor_takes_values_of_it_in_place(made):
    plain = oplib.ones(2)
    plain.add_(made)
    assert plain.tolist() == [4.0, 5.0]


def test_it_has_no_version(made):
    with pytest.raises(AutogradError, match="Inference tensors do not track version counter"):
        _ = made._version


def test_it_does_not_come_to_require_grad_outside(made):
    for switch_on in (made.requires_grad_, lambda: setattr(made, "requires_grad", True)):
        with pytest.raises(AutogradError, match="Setting requires_grad=True on inference tensor outside"):
            switch_on()
    assert not made.requires_grad
    assert made.requires_grad_(False) is made


def test_a_gradient_of_it_is_not_accumulated_into(x, made):
    x.grad = made
    with pytest.raises(AutogradError, match="Inplace update to inference tensor"):
        (x * 2).sum().backward()
    assert x.grad is made
    assert made.tolist() == [3.0, 4.0]


# Its own fast path ---------------------------------------------------------------------------


@pytest.mark.fast_path
def test_a_call_inside_has_a_fast_path_of_its_own(x, made):
    with oplib.inference_mode():
        _ = x * 2.0, x + made, made * made, made.max(0)
        assert count_complete_calls(lambda: (x * 2.0, x + made, made * made)) == 0
        assert count_complete_calls(lambda: (made.max(0), oplib.mul(x, other=made))) == 0
        for result in (x * 2.0, x + made, made * made, *made.max(0)):
            assert result.is_inference()
            assert not result.requires_grad
        with oplib.enable_grad():
            assert not (x * x).requires_grad


def test_two_levels_of_the_mode_do_the_same_the_complete_way(x):
    with oplib.inference_mode(), oplib.inference_mode():
        assert count_complete_calls(lambda: x * 2.0) == 1
        assert (x * 2.0).is_inference()


def test_a_call_that_the_fast_path_inside_refuses_raises_the_error_of_the_schema(x):
    with oplib.inference_mode():
        _ = x * 2.0
        with pytest.raises(TypeError, match="mul"):
            oplib.mul(x)
        with pytest.raises(RuntimeError, match="the sizes of the operands must match"):
            _ = x * oplib.ones(3)


@pytest.mark.fast_path
def test_after_the_mode_calls_are_recorded_by_the_ordinary_fast_path(x):
    with oplib.inference_mode():
        _ = x * 2.0
    assert (x * 2.0).requires_grad
    assert count_complete_calls(lambda: x * 2.0) == 0


def double(carry, row):
    return carry + row, carry * row


TRANSFORMED = {
    "vmap": lambda: oplib.vmap(lambda row: (row * 2, row * 2 + row, row.t()))(oplib.ones(3, 2)),
    "vmap of a view": lambda: [oplib.vmap(lambda row: row[:1])(oplib.ones(3, 2) * 2)],
    "scan": lambda: oplib.scan(double, oplib.zeros(2), oplib.ones(3, 2)),
    "while_loop": lambda: [oplib.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, oplib.ones(2))],
    "cond": lambda: [oplib.cond(oplib.tensor(True), lambda x: x * 2, lambda x: x + 1, oplib.ones(2))],
    "jit": lambda: [oplib.jit(lambda x: x * 2)(oplib.ones(2))],
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_results_of_transformations_are_inference_tensors(name):
    for _ in range(2):
        with oplib.inference_mode():
            results = oplib.pytree.tree_leaves(TRANSFORMED[name]())
            values = [result.tolist() for result in results]
        assert [(type(result), result.is_inference()) for result in results] == [
            (InferenceTensor, True)
        ] * len(results)
        for result in results:
            with pytest.raises(AutogradError, match="Inplace update to inference tensor"):
                result.add_(1)
        assert [result.tolist() for result in results] == values
        outside = oplib.pytree.tree_leaves(TRANSFORMED[name]())
        assert [result.tolist() for result in outside] == values
        assert not any(result.is_inference() for result in outside)
