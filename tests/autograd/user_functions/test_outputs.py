"""Inputs that the forward of a user Function returns, as they are or written."""

import pytest

import oplib
from oplib.errors import AutogradError, SavedTensorError
from tests.autograd.functions import make_function


def test_an_input_returned_as_it_is_is_a_new_tensor_on_the_same_storage(x):
    y = make_function(lambda ctx, a: a, lambda ctx, g: g * 3).apply(x)
    assert y is not x
    assert y._storage.owner is x._storage
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_an_input_returned_without_recording_is_a_new_tensor_too():
    plain = oplib.tensor([1.0])
    y = make_function(lambda ctx, a: a).apply(plain)
    assert y is not plain
    assert not y.requires_grad


def test_an_input_without_gradient_that_is_returned_stays_without(x):
    plain = oplib.tensor([5.0, 6.0])
    y = make_function(lambda ctx, a, b: b, lambda ctx, g: (g * 3, None)).apply(x, plain)
    with pytest.raises(AutogradError, match="Output 0 of Made is a view and is being modified inplace"):
        y.add_(1.0)
    y.sum().backward()
    assert not plain.requires_grad
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_tensor_captured_from_outside_is_detached(x):
    weight = oplib.tensor([5.0, 5.0], requires_grad=True)
    y = make_function(lambda ctx, a: weight, lambda ctx, g: g).apply(x)
    assert y is not weight
    assert weight.is_leaf
    y.sum().backward()
    assert weight.grad is None


def write(ctx, a):
    ctx.mark_dirty(a)
    return a.add_(1.0)


def test_a_dirty_input_is_the_same_object_with_a_new_history(x):
    h = x * 2
    y = make_function(write, lambda ctx, g: g * 3).apply(h)
    assert y is h
    assert h.grad_fn.name() == "MadeBackward"
    assert h.tolist() == [3.0, 5.0]
    assert h._version > 0
    h.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_what_saved_a_dirty_input_before_raises(x):
    h = x * 2
    squared = h * h
    make_function(write, lambda ctx, g: g).apply(h)
    with pytest.raises(SavedTensorError, match="inplace"):
        squared.sum().backward()


@pytest.mark.spec("D.20")
def test_a_leaf_that_requires_grad_cannot_be_dirty(x):
    with pytest.raises(
        AutogradError, match="a leaf Variable that requires grad is being used in an in-place"
    ):
        make_function(write, lambda ctx, g: g).apply(x)


def test_a_dirty_input_must_be_returned(x):
    def forward(ctx, a):
        return write(ctx, a) * 1

    with pytest.raises(AutogradError, match="marked as dirty was not returned"):
        make_function(forward).apply(x * 2)


def test_marking_something_else_dirty_warns(x):
    def forward(ctx, a):
        b = a * 2
        ctx.mark_dirty(b)
        return b

    with pytest.warns(UserWarning, match="not an input of forward"):
        make_function(forward).apply(x)


def write_into_view(ctx, a):
    view = a[1:].mul_(2)
    ctx.mark_dirty(view)
    return view


def write_into_view_of_intermediate(ctx, a):
    view = (a * 2)[1:].mul_(2)
    ctx.mark_dirty(view)
    return view


@pytest.mark.parametrize("forward", [write_into_view, write_into_view_of_intermediate])
@pytest.mark.parametrize("of", [lambda x: x * 1, lambda x: (x * 1)[:], lambda x: x])
def test_a_view_that_forward_made_is_not_marked_dirty(x, forward, of):
    """As torch, which refuses it too. Without a recorded call the mark has no effect there."""
    text = r"mark_dirty\(\) received a tensor that is not an input of forward\. Got f32\[1\], a view made"
    with pytest.raises(AutogradError, match=text) as told:
        make_function(forward).apply(of(x))
    assert len(str(told.value)) <= 400
    with oplib.no_grad(), pytest.warns(UserWarning, match="not an input of forward"):
        assert (
            make_function(forward).apply(x * 1).tolist()
            == (x[1:] * (2 if forward is write_into_view else 4)).tolist()
        )


def test_a_retained_gradient_moves_with_the_dirty_tensor(x):
    h = x * 2
    h.retain_grad()
    make_function(write, lambda ctx, g: g * 3).apply(h)
    h.sum().backward()
    assert h.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("of_captured", [False, True])
def test_a_view_that_a_function_returns_is_not_written(x, of_captured):
    captured = x * 1

    def cut(ctx, a):
        return (captured if of_captured else a)[:1]

    view = make_function(cut, lambda ctx, g: oplib.cat([g, g])).apply(x * 1)
    with pytest.raises(AutogradError, match="was created inside a custom Function"):
        view.mul_(2)
