"""Writes into large tensors, which use their own buffers: nobody sees a buffer that was given away."""

import numpy as np
import pytest

import oplib
from oplib.errors import OplibError

COUNT = 1 << 18


@pytest.fixture
def fresh():
    """A large tensor whose buffer nobody else holds, with its values."""
    x = oplib.arange(float(COUNT))
    for _ in range(3):  # the first calls of an op are not compiled yet
        x.add_(0.0)
    return x, np.arange(COUNT, dtype=np.float32)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x.add_(1.5), lambda a: a + 1.5),
        (lambda x: x.add_(x), lambda a: a + a),
        (lambda x: x.sub_(oplib.full((COUNT,), 2.0), alpha=3), lambda a: a - 6),
        (lambda x: x.add_(x[:1] + 1), lambda a: a + a[:1] + 1),
        (lambda x: x.clamp_(3.0, 9.0), lambda a: a.clip(3, 9)),
        (lambda x: x.add_(oplib.tensor(2)), lambda a: a + 2),
    ],
)
def test_each_write_of_a_kind_gives_its_value_and_counts_one(fresh, write, expected):
    x, values = fresh
    for _ in range(3):  # compiled for a copy, then for the buffer itself
        before = x._version
        assert write(x) is x
        values = expected(values).astype(np.float32)
        assert x._version == before + 1
    np.testing.assert_allclose(x.numpy(), values, rtol=1e-6)


def test_what_was_taken_before_a_write_keeps_its_values(fresh):
    x, values = fresh
    copy, array, view, other = x.clone(), x.array, x[1:3], x + 0
    for _ in range(2):
        x.mul_(0.0)
    assert view.tolist() == [0.0, 0.0]
    for kept in (copy.numpy(), np.asarray(array), other.numpy()):
        np.testing.assert_array_equal(kept, values)


def test_a_write_with_history_is_recorded(fresh):
    x, values = fresh
    factor = oplib.tensor(3.0, requires_grad=True)
    x.mul_(factor)
    x.sum().backward()
    assert factor.grad.item() == pytest.approx(values.sum(), rel=1e-4)


def test_a_write_of_another_shape_or_dtype_is_refused_and_changes_nothing(fresh):
    x, values = fresh
    for write in (lambda: x.add_(oplib.ones(2, 1)), lambda: x.add_(oplib.ones(1, dtype=oplib.complex64))):
        for _ in range(2):
            with pytest.raises(OplibError):
                write()
    np.testing.assert_array_equal(x.numpy(), values)
