"""One saved tensor: what it is when it is looked at, and hooks of its own."""

import weakref

import jax
import pytest

import oplib
from oplib.autograd import Function, SavedTensor
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError


def same(tensor):
    return tensor


@pytest.mark.spec("000.14")
def test_a_saved_leaf_is_the_very_leaf(a):
    y = a * a
    assert y.grad_fn._saved_self is a
    assert y.grad_fn._saved_other is a


@pytest.mark.spec("000.14")
def test_a_saved_input_has_its_history(a):
    b = a * 1
    y = b * b
    assert y.grad_fn._saved_self.grad_fn is b.grad_fn
    assert y.grad_fn._saved_self.tolist() == [2.0]


@pytest.mark.spec("000.14")
def test_a_saved_result_is_equal_and_not_the_same_object(a):
    y = a.exp()
    saved = y.grad_fn._saved_result
    assert saved is not y
    assert saved.tolist() == y.tolist()
    assert saved.grad_fn is y.grad_fn


@pytest.mark.usefixtures("collector_off")
def test_a_saved_result_does_not_hold_its_own_node(a):
    y = a.exp()
    y.grad_fn._raw_saved_result  # noqa: B018
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_what_was_not_needed_is_none_and_an_op_that_saves_nothing_has_no_such_attribute(a):
    assert (a * oplib.tensor([3.0])).grad_fn._saved_self is None
    with pytest.raises(AttributeError, match="SumBackward0: it has saved nothing"):
        a.sum().grad_fn._saved_self  # noqa: B018


def test_all_that_was_saved_can_be_listed(a):
    y = a * a
    assert [one.tolist() for one in y.grad_fn.saved_tensors] == [[2.0], [2.0]]
    assert [type(one) for one in y.grad_fn._raw_saved_tensors] == [SavedTensor, SavedTensor]


def test_a_number_that_was_saved_is_shown_as_a_tensor(a):
    assert [one.tolist() for one in (a * 0.0).grad_fn.saved_tensors] == [0.0]


def test_looking_changes_nothing_for_the_backward(a):
    b = a * 1
    y = b * b
    y.grad_fn._saved_self  # noqa: B018
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert (first.tolist(), second.tolist()) == ([4.0], [2.0])


def test_the_version_is_checked_after_looking_too(a):
    b = a * 1
    y = b * b
    y.grad_fn._saved_self  # noqa: B018
    b.detach().mul_(2)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        y.grad_fn._saved_self  # noqa: B018


@pytest.mark.spec("000.14")
def test_hooks_of_one_slot_get_it_detached_and_with_grad_mode_off(a):
    y = a * a
    seen = []
    y.grad_fn._raw_saved_self.register_hooks(
        lambda t: (seen.append((t is a, t.requires_grad, oplib.is_grad_enabled())), 10 * t)[1], same
    )
    assert seen == [(False, False, False)]
    assert y.grad_fn._saved_self.tolist() == [20.0]
    assert y.grad_fn._saved_other is a
    y.backward()
    assert a.grad.tolist() == [22.0]


@pytest.mark.spec("000.14")
def test_hooks_of_one_slot_keep_the_link(a):
    b = a * 1
    y = b * b
    y.grad_fn._raw_saved_self.register_hooks(same, same)
    assert y.grad_fn._saved_self.grad_fn is b.grad_fn
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    assert oplib.autograd.grad(first, a)[0].tolist() == [2.0]


@pytest.mark.spec("000.14")
def test_only_one_pair_per_slot(a):
    y = a * a
    y.grad_fn._raw_saved_self.register_hooks(same, same)
    with pytest.raises(AutogradError, match="have already been set"):
        y.grad_fn._raw_saved_self.register_hooks(same, same)
    with saved_tensors_hooks(same, same):
        z = a.exp()
    with pytest.raises(AutogradError, match="have already been set"):
        z.grad_fn._raw_saved_result.register_hooks(same, same)


@pytest.mark.spec("000.14")
def test_a_freed_slot_says_so(a):
    y = a * a
    held = y.grad_fn._raw_saved_other
    y.backward()
    for raw in (held, y.grad_fn._raw_saved_self):
        with pytest.raises(SavedTensorError, match="after it has been freed"):
            raw.register_hooks(same, same)
    with pytest.raises(SavedTensorError, match="a second time"):
        y.grad_fn._saved_self  # noqa: B018


@pytest.mark.spec("000.14")
def test_bad_hooks_of_a_slot(a):
    y = a * a
    with pytest.raises(GradientTypeError, match=r"register_hooks: the unpack hook cannot be called. Got int"):
        y.grad_fn._raw_saved_self.register_hooks(same, 3)
    with pytest.raises(AutogradError, match="modifying its input in place"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), same)
    y.backward()
    assert a.grad.tolist() == [4.0]


@pytest.mark.spec("000.14", "001.13")
def test_a_saved_tensor_is_not_made_by_hand():
    with pytest.raises(AutogradError, match="trying to create one from Python is forbidden"):
        SavedTensor()


@pytest.mark.spec("000.14")
def test_the_slots_of_a_function(a):
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    y = Square.apply(a)
    slot, nothing = y.grad_fn._raw_saved_tensors
    assert nothing is None
    slot.register_hooks(lambda t: 10 * t, same)
    y.backward()
    assert a.grad.tolist() == [40.0]
    with pytest.raises(SavedTensorError, match="after it has been freed"):
        slot.register_hooks(same, same)


def test_a_list_of_tensors_has_one_name(forget_ops, a):
    @oplib.custom_op("test_saved::squares")
    def squares(parts: list[jax.Array]) -> jax.Array:
        return parts[0] ** 2 + parts[1] ** 2

    squares.register_autograd("derive")
    y = squares([a, a])
    assert [one is a for one in y.grad_fn._saved_parts] == [True, True]
