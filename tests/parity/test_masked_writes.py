"""Masked writes of one item under a trace, where the number of items is not known, beside torch."""

import jax
import pytest
import torch

import oplib
from oplib.errors import TracingError

pytestmark = pytest.mark.spec("D.58")

WRITES = {
    "a number": ((3,), lambda lib, m: m, lambda lib, v: 2.0),
    "a 0-d Tensor": ((3,), lambda lib, m: m, lambda lib, v: v),
    "a Tensor of one item": ((3,), lambda lib, m: m, lambda lib, v: v.reshape(1)),
    "a Tensor with leading dims": ((3, 2), lambda lib, m: m, lambda lib, v: v.reshape(1, 1)),
    "behind a slice": ((2, 3), lambda lib, m: (slice(None), m), lambda lib, v: v),
    "behind an Ellipsis": ((2, 2, 3), lambda lib, m: (..., m), lambda lib, v: 2.0),
    "before an Ellipsis": ((3, 2, 2), lambda lib, m: (m, ..., 0), lambda lib, v: v),
    "beside a position": ((2, 3, 2), lambda lib, m: (1, m, 0), lambda lib, v: v),
    "beside a new dim": ((2, 3), lambda lib, m: (None, slice(1, 2), m), lambda lib, v: v),
    "a mask without dims": ((), lambda lib, m: m[0], lambda lib, v: 2.0),
    "a Tensor, by a mask without dims": ((), lambda lib, m: m[0], lambda lib, v: v.reshape(1)),
    "a part of the dims, by a mask without dims": ((2, 2), lambda lib, m: (m[0], 1), lambda lib, v: v),
}


def write(lib, case, x, v):
    shape, index, value = WRITES[case]
    out = lib.ones(shape) * v * 3
    out[index(lib, x > 0)] = value(lib, v)
    return out


@pytest.mark.parametrize("case", WRITES)
@pytest.mark.slow
@pytest.mark.parametrize("first", [1.0, -1.0])
def test_a_write_of_one_item_is_where_in_each_world_as_in_torch(case, first):
    values = [first, -2.0, 3.0]
    wanted = write(torch, case, torch.tensor(values), torch.tensor(0.5)).tolist()
    x, v = oplib.tensor(values), oplib.tensor(0.5)
    both = oplib.stack([x, -x])
    assert write(oplib, case, x, v).tolist() == wanted
    assert oplib.jit(lambda x, v: write(oplib, case, x, v))(x, v).tolist() == wanted
    assert jax.jit(lambda x, v: write(oplib, case, x, v))(x, v).tolist() == wanted
    assert oplib.vmap(lambda x: write(oplib, case, x, v))(both)[0].tolist() == wanted
    assert jax.vmap(lambda x: write(oplib, case, x, v))(both)[0].tolist() == wanted


@pytest.mark.parametrize("case", WRITES)
def test_such_a_write_has_torchs_gradients(case):
    def find(lib, wrap=lambda function: function):
        v = lib.tensor(0.5, requires_grad=True)
        wrap(lambda x, v: write(lib, case, x, v).sum())(lib.tensor([1.0, -2.0, 3.0]), v).backward()
        return v.grad.item()

    assert find(oplib, oplib.jit) == find(oplib) == find(torch)


def test_such_a_write_keeps_the_dtype():
    def run(x):
        out = oplib.zeros(3, dtype=oplib.int32)
        out[x > 0] = oplib.tensor(2.5)
        return out

    assert oplib.jit(run)(oplib.tensor([1.0, -1.0, 1.0])).tolist() == [2, 0, 2]


@pytest.mark.parametrize("mask", [lambda m: m, lambda m: (m, oplib.tensor([0, 1]))])
def test_a_write_of_more_items_or_with_other_tensors_is_still_refused(mask):
    def run(x):
        out = oplib.zeros(2, 2)
        out[mask(x > 0)] = oplib.ones(2)

    with pytest.raises(TracingError, match="the number of items under a traced mask is not known"):
        oplib.jit(run)(oplib.tensor([1.0, 1.0]))


def test_a_mask_of_other_sizes_is_refused():
    def run(x):
        oplib.zeros(2, 4)[:, x > 0] = 1.0

    with pytest.raises(IndexError, match="the shape of the mask at index 1 does not match"):
        oplib.jit(run)(oplib.ones(3))
