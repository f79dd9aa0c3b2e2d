"""Views and tensors that are turned in place, and views whose memory was written. The values are torch's."""

import copy

import pytest

import oplib
from oplib.autograd import forward_ad


def make(*shape):
    return oplib.arange(float(oplib.Size(shape).numel())).reshape(shape).requires_grad_()


def test_a_tensor_that_is_transposed_in_place_keeps_its_history_and_its_views():
    leaf = make(2, 3)
    x = leaf * 1
    row = x[0]
    x.transpose_(0, 1)
    assert (x.shape, x.stride(), x._version) == ((3, 2), (1, 3), 1)
    assert row.tolist() == [0.0, 1.0, 2.0]
    (x * oplib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward(retain_graph=True)
    assert leaf.grad.tolist() == [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    (row * oplib.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert leaf.grad.tolist() == [[2.0, 13.0, 105.0], [2.0, 4.0, 6.0]]


@pytest.mark.parametrize(
    "write", [lambda x, row, factor: row.mul_(factor), lambda x, row, factor: x.mul_(factor[:, None])]
)
def test_a_write_after_a_tensor_was_transposed_in_place_has_the_gradients_of_torch(write):
    def compute(library):
        leaf = library.arange(6.0).reshape(2, 3).requires_grad_()
        factor = library.tensor([2.0, 3.0, 5.0]).requires_grad_()
        x = leaf * 1
        row = x[0]
        x.t_()
        write(x, row, factor)
        ((x * library.arange(1.0, 7.0).reshape(3, 2)).sum() + (row * row).sum()).backward()
        return x.tolist(), row.tolist(), leaf.grad.tolist(), factor.grad.tolist()

    assert compute(oplib) == compute(pytest.importorskip("torch"))


def test_a_leaf_that_is_transposed_in_place_gets_gradients_of_its_new_shape():
    leaf = make(2, 3)
    (leaf * 1).sum().backward()
    leaf.grad = None
    with oplib.no_grad():
        leaf.t_()
    (leaf * 2).sum().backward()
    assert leaf.is_leaf
    assert leaf.grad.tolist() == [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]


def test_views_show_what_is_written_after_their_root_was_turned():
    x = make(1, 2, 3).detach()
    row = x[0, 1]
    x.squeeze_(0)
    x.unsqueeze_(2)
    row.add_(1)
    assert x.tolist() == [[[0.0], [1.0], [2.0]], [[4.0], [5.0], [6.0]]]
    assert (x.stride(), x._version, row._version) == ((3, 1, 1), 3, 3)


def test_a_view_that_is_turned_twice_is_still_a_view_of_its_base():
    x = make(2, 3) * 1
    view = x.t()
    view.t_()
    assert view._base is x
    view.mul_(2)
    assert x.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


def test_a_view_of_written_memory_retains_its_new_gradient():
    leaf = make(4)
    x = leaf * 1
    view = x[1:]
    view.retain_grad()
    x.mul_(3)
    (view * view).sum().backward()
    assert view.grad_fn.name() == "AsStridedBackward0"
    assert (leaf.grad.tolist(), view.grad.tolist()) == ([0.0, 18.0, 36.0, 54.0], [6.0, 12.0, 18.0])


def test_a_view_gets_the_history_of_what_is_written_into_its_base():
    leaf, x = make(3), oplib.ones(3)
    view = x[1:]
    x.mul_(leaf)
    assert view.requires_grad
    (view * oplib.tensor([2.0, 3.0])).sum().backward()
    assert leaf.grad.tolist() == [0.0, 2.0, 3.0]


def test_attributes_of_a_view_of_written_memory_are_set_on_its_new_history():
    leaf = make(4)
    x = leaf * 1
    view, other = x[1:], x[:2]
    x.mul_(3)
    view.requires_grad_()
    view.mark = "mark"
    assert view.mark == "mark"
    assert copy.copy(other.detach()).tolist() == [0.0, 3.0]
    (view.sum() + other.sum()).backward()
    assert leaf.grad.tolist() == [3.0, 6.0, 3.0, 3.0]


@pytest.mark.parametrize("compute", [lambda x: x * 2, lambda x: x[0], lambda x: x.unbind()[1]])
def test_a_gradient_of_a_leaf_that_got_another_shape_since_is_refused(compute):
    for library in (pytest.importorskip("torch"), oplib):
        x = library.ones(2, 3).requires_grad_()
        y = compute(x).sum()
        with library.no_grad():
            x.t_()
        with pytest.raises(RuntimeError, match=r"invalid gradient|size of tensor a"):
            y.backward()
        assert x.grad is None


def test_the_tangent_of_a_tensor_that_is_turned_in_place_is_turned_too():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(
            oplib.tensor([[1.0, 2.0], [3.0, 4.0]]), oplib.tensor([[1.0, 0.0], [7.0, 5.0]])
        )
        x = dual * 1
        row = x[0]
        x.t_()
        x.mul_(2)
        for tensor, primal, tangent in (
            (x, [[2.0, 6.0], [4.0, 8.0]], [[2.0, 14.0], [0.0, 10.0]]),
            (row, [2.0, 4.0], [2.0, 0.0]),
        ):
            parts = forward_ad.unpack_dual(tensor)
            assert (parts.primal.tolist(), parts.tangent.tolist()) == (primal, tangent)
