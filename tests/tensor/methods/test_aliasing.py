"""Tensors that share memory: ``set_``, ``detach_``, ``data``, and whether a tensor is contiguous."""

import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError, AutogradError


@pytest.mark.parametrize(
    ("arguments", "values", "strides"),
    [
        ((), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0], (1,)),
        ((2, (2, 2)), [[2.0, 3.0], [4.0, 5.0]], (2, 1)),
        ((1, (2, 3, 1)), [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]], (3, 1, 1)),
        ((1, (2, 2), (1, 4)), [[1.0, 5.0], [2.0, 6.0]], (1, 4)),
    ],
)
def test_a_tensor_takes_the_memory_of_another_and_counts_a_write(arguments, values, strides):
    x, source = oplib.zeros(2), oplib.arange(12.0)
    assert x.set_(source, *arguments) is x
    assert (x.tolist(), x.stride(), x._version) == (values, strides, 1)
    x.mul_(0)
    assert source.sum().item() == 66.0 - oplib.tensor(values).sum().item()


def test_a_tensor_without_a_source_is_emptied():
    assert oplib.ones(3).set_().shape == (0,)


def test_memory_of_another_kind_is_refused():
    with pytest.raises(ArgumentError, match="set_: could not set a tensor of another type"):
        oplib.ones(2).set_(oplib.ones(2, dtype=oplib.int32))
    with pytest.raises(ArgumentTypeError, match="set_: could not set a tensor of another type"):
        oplib.ones(2).set_([1.0])
    with pytest.raises(ArgumentError, match="data: expected a Tensor"):
        oplib.ones(2).data = [1.0]
    leaf = oplib.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="data: a tensor that requires grad keeps its dtype"):
        leaf.data = oplib.ones(2, dtype=oplib.int32)
    for one, other in [(leaf, oplib.ones(2)), (oplib.ones(2), leaf)]:
        with pytest.raises(AutogradError, match="set_: a leaf Variable that requires grad"):
            one.set_(other)
    with oplib.no_grad():
        leaf.set_(oplib.zeros(2))
    assert (leaf.tolist(), leaf.requires_grad) == ([0.0, 0.0], True)


def test_a_leaf_with_data_of_another_shape_gets_gradients_of_it():
    leaf = oplib.ones(2, requires_grad=True)
    (leaf * 2).sum().backward()
    leaf.grad = None
    leaf.data = oplib.ones(3)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_detached_tensor_is_a_leaf_without_history():
    leaf = oplib.ones(2, requires_grad=True)
    first, second = (leaf * 2).unbind(0)
    x = leaf * 3
    assert x.detach_() is x
    assert (x.requires_grad, x.grad_fn, x.is_leaf) == (False, None, True)
    assert x.requires_grad_().output_nr == 0
    assert (first.output_nr, second.output_nr) == (0, 1)
    with pytest.raises(AutogradError, match="Can't detach views in-place"):
        (leaf * 2)[0].detach_()


def test_a_tensor_is_set_to_one_that_shows_the_same_items():
    x = oplib.arange(6.0).reshape(2, 3)
    assert x.is_set_to(x.view(2, 3))
    for other in (x.view(3, 2), x[:1], x.t(), x.clone()):
        assert not x.is_set_to(other)


@pytest.mark.parametrize(
    ("make", "is_contiguous"),
    [
        (lambda x: x, True),
        (lambda x: x[1:], True),
        (lambda x: x[:, 1:], False),
        (lambda x: x.permute(1, 0, 2), False),
        (lambda x: x[:1].permute(1, 0, 2), True),
        (lambda x: x.permute(1, 0, 2)[:0], True),
        (lambda x: x[:, :1].expand(2, 3, 4), False),
    ],
)
def test_contiguous_copies_what_lies_apart(make, is_contiguous):
    view = make(oplib.arange(24.0).reshape(2, 3, 4))
    assert view.is_contiguous() == is_contiguous
    assert view.is_contiguous(memory_format=oplib.preserve_format) == is_contiguous
    assert not view.is_contiguous(memory_format=oplib.channels_last)
    assert (view.contiguous() is view) == is_contiguous
    assert view.contiguous().is_contiguous()
    assert view.contiguous().tolist() == view.tolist()
    if not is_contiguous:
        with pytest.raises(ArgumentError, match="contiguous"):
            view.contiguous(memory_format=oplib.preserve_format)


def test_what_has_no_items_is_contiguous_but_in_no_other_order():
    x = oplib.zeros(2, 3, 4, 5)
    last = x.permute(0, 3, 1, 2)
    for empty in (x[:0], x[:, :0], last[:, :0], last[..., :0], x.permute(3, 2, 1, 0)[:, :0]):
        assert empty.is_contiguous()
        assert not empty.is_contiguous(memory_format=oplib.channels_last)
    assert last[:0].is_contiguous(memory_format=oplib.channels_last)
