"""``data`` of tensors and views, and writes that share memory. The expected values are torch's."""

import pytest

import oplib
from oplib.errors import AutogradError
from oplib.tensor.views.view_storage import refuse_shared_memory


def versions(*tensors):
    return [tensor._version for tensor in tensors]


def test_a_view_with_other_data_keeps_its_version_and_its_history():
    leaf = oplib.arange(6.0).reshape(2, 3).requires_grad_()
    x = leaf * 1
    view = x[0]
    view.data = oplib.tensor([10.0, 20.0, 30.0])
    part = view[1:]
    assert part.tolist() == [20.0, 30.0]
    twice = view * 1
    with oplib.no_grad():
        part.add_(1)
    assert (view.tolist(), part.storage_offset()) == ([10.0, 21.0, 31.0], 1)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert versions(view, x) == [1, 1]
    ((part * 2).sum() + twice.sum()).backward()
    assert leaf.grad.tolist() == [[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]]


def test_a_write_of_a_part_of_a_view_with_other_data_has_the_gradients_of_torch():
    def compute(library):
        leaf = library.arange(6.0).reshape(2, 3).requires_grad_()
        factor = library.tensor([2.0, 3.0]).requires_grad_()
        x = leaf * 1
        view = x[0]
        view.data = library.tensor([10.0, 20.0, 30.0])
        view[1:].mul_(factor)
        (view.sum() + (x * x).sum()).backward()
        return x.tolist(), view.tolist(), leaf.grad.tolist(), factor.grad.tolist()

    assert compute(oplib) == compute(pytest.importorskip("torch"))


def test_a_tensor_with_other_data_counts_with_its_former_views():
    x = oplib.zeros(3)
    view = x[1:]
    for count, data in enumerate([oplib.ones(4), oplib.ones(2)], start=1):
        x.data = data
        x.add_(1)
        assert versions(x, view) == [count, count]
    view.add_(5)
    assert versions(x, view) == [3, 3]
    assert (x.tolist(), view.tolist()) == ([2.0, 2.0], [5.0, 5.0])
    view.data = x
    view.add_(1)
    assert versions(x, view) == [4, 4]
    assert x.tolist() == [3.0, 3.0]


def test_data_of_data_counts_alone():
    x = oplib.ones(2).add_(1)
    data = x.data
    data.mul_(3)
    item = data.data[0]
    item.fill_(7)
    assert x.tolist() == [7.0, 6.0]
    assert versions(x, data, item) == [1, 1, 1]


def test_a_row_with_other_data_leaves_its_matrix_alone():
    matrix = oplib.zeros(2, 2)
    row = matrix[0]
    row.data = oplib.ones(2)
    row.add_(1)
    assert versions(row, matrix) == [1, 1]
    assert (row.tolist(), matrix.tolist()) == ([2.0, 2.0], [[0.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("make", "shares"),
    [
        (lambda x: (x[:2], x[2:]), False),
        (lambda x: (x[:3], x[2:]), True),
        (lambda x: (x[::2], x[1::2]), False),
        (lambda x: (x[::3], x[::2]), True),
        (lambda x: (x, x[5:]), True),
        (lambda x: (x[:0], x), False),
        (lambda x: (x[5:], x[:2], x[1:3]), True),
        (lambda x: (x.view(2, 3)[:, 0], x.view(2, 3).T[1]), False),
        (lambda x: (x.view(2, 3)[:, 0], x.view(2, 3)[1]), True),
        (lambda x: (x, x.clone()), False),
    ],
)
def test_one_call_gives_no_item_two_values(make, shares):
    parts = make(oplib.zeros(6))
    if shares:
        with pytest.raises(AutogradError, match="fill: unsupported operation: two written arguments share"):
            refuse_shared_memory(parts, "fill")
    else:
        refuse_shared_memory(parts, "fill")
