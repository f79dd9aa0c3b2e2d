"""resize_, resize_as_ and as_strided_: what they share, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import oplib
from oplib.errors import AllocationError, ArgumentError, ArgumentTypeError, AutogradError


def test_a_smaller_tensor_shares_the_memory_with_results_of_detach() -> None:
    x = oplib.arange(6.0)
    alias = x.detach()
    assert x.resize_(2, 2) is x
    x.add_(10)
    assert alias.tolist() == [10, 11, 12, 13, 4, 5]
    assert x._version == alias._version == 2


def test_a_larger_tensor_keeps_its_items_and_zeros_follow() -> None:
    x = oplib.tensor([1.0, 2.0])
    assert x.resize_(2, 2).tolist() == [[1, 2], [0, 0]]
    assert x._version == 1
    y = x.resize_(5)
    y.mul_(2)
    assert x.tolist() == [2, 4, 0, 0, 0]


@pytest.mark.parametrize(
    "share",
    [lambda x: x.detach(), lambda x: x[:1], lambda x: x.data, lambda x: x.view(-1), lambda x: [x.detach()]],
)
def test_a_tensor_whose_memory_others_share_does_not_grow(share: Any) -> None:
    x = oplib.ones(3)
    other = share(x)
    with pytest.raises(ArgumentError, match="must be resized from 3 to 4 items, and other tensors share"):
        x.resize_(4)
    assert x.shape == (3,)
    del other
    assert x.resize_(4).tolist() == [1, 1, 1, 0]


def test_addbmm_takes_the_shape_of_its_result() -> None:
    batches = oplib.arange(6.0).view(1, 2, 3), oplib.ones(1, 3, 4)
    leaf = oplib.tensor([[2.0]], requires_grad=True)
    x = leaf * 1
    assert x.addbmm_(*batches, beta=3.0) is x
    assert x.tolist() == [[9.0] * 4, [18.0] * 4]
    assert x._version == 1
    x.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[24.0]]


@pytest.mark.parametrize("share", [lambda x: x.detach(), lambda x: x[0], lambda x: x.data])
def test_addbmm_does_not_grow_where_others_share_the_memory(share: Any) -> None:
    batches = oplib.ones(1, 2, 3), oplib.ones(1, 3, 4)
    x = oplib.ones(1, 1)
    other = share(x)
    with pytest.raises(ArgumentError, match="addbmm_: the tensor must be resized from 1 to 8 items"):
        x.addbmm_(*batches)
    assert (x.tolist(), x._version) == ([[1.0]], 0)
    del other
    assert x.addbmm_(*batches).shape == (2, 4)


def test_a_view_does_not_grow_beyond_its_items() -> None:
    x = oplib.arange(6.0).view(2, 3)
    row = x[1]
    assert row.resize_(2).tolist() == [3, 4]
    with pytest.raises(ArgumentError, match="other tensors share its memory"):
        row.resize_(3)


def test_a_tensor_that_has_views_keeps_its_strides() -> None:
    x = oplib.arange(6.0)
    view = x[2:]
    for change in (lambda: x.as_strided_((2,), (3,)), lambda: x.resize_(2)):
        with pytest.raises(ArgumentError, match="views of the tensor share its memory"):
            change()
    assert view.tolist() == [2, 3, 4, 5]
    del view
    assert x.as_strided_((2,), (3,)).tolist() == [0, 3]


def test_writes_after_as_strided_reach_the_memory() -> None:
    x = oplib.zeros(2, 3)
    alias = x.detach()
    x.as_strided_((2,), (4,), 1).add_(oplib.tensor([1.0, 2.0]))
    assert alias.tolist() == [[0, 1, 0], [0, 0, 2]]


def test_as_strided_in_place_is_differentiated() -> None:
    x = oplib.arange(6.0).requires_grad_()
    y = (x * 2).as_strided_((2, 2), (1, 2), 1)
    (y * oplib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 2, 6, 4, 8, 0]


def test_what_cannot_be_resized_is_refused() -> None:
    leaf = oplib.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="cannot resize variables that require grad"):
        leaf.resize_(1)
    with pytest.raises(AutogradError, match="cannot resize variables that require grad"):
        (leaf * 2).resize_(1)
    with pytest.raises(AutogradError):
        leaf.as_strided_((1,), (1,))
    with pytest.raises(ArgumentTypeError, match="resize_"):
        oplib.ones(2).resize_()
    with pytest.raises(ArgumentTypeError, match="as_strided_: only a Tensor can be written in place"):
        oplib.as_strided_(oplib.ones(2).array, (1,), (1,))
    with pytest.raises(AllocationError, match="resize_"):
        oplib.ones(2).resize_(2**62)
