"""Gathers on a mesh with explicit axes: the operands determine value, gradient and sharding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib import Tensor
from oplib.errors import ArgumentError
from oplib.nn import functional as F

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("J.14")]

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
INDEX = np.array([[0, 3, 1, 1], [2, 3, 0, 0], [3, 3, 3, 3], [1, 2, 0, 1]] * 2, np.int32)


def look_up(x, i):
    return F.embedding(i, x)


# The op, its indices, the specs of tensor and indices, and the one of the result.
GATHERS = {
    "embedding": (look_up, INDEX, (None, "b"), ("a",), ("a", None, "b")),
    "embedding with padding": (
        lambda x, i: F.embedding(i, x, padding_idx=3),
        INDEX,
        (None, "b"),
        ("a",),
        ("a", None, "b"),
    ),
    "embedding over two axes": (look_up, INDEX, (), (("a", "b"),), (("a", "b"), None, None)),
    "x[i]": (lambda x, i: x[i], INDEX, (), ("a", "b"), ("a", "b", None)),
    "x[:, i]": (lambda x, i: x[:, i], INDEX, ("b",), ("a",), ("b", "a", None)),
    "x[i, i]": (lambda x, i: x[i, i], INDEX, (), ("a",), ("a", None)),
    "x[i, None, i]": (lambda x, i: x[i, None, i], INDEX, (), ("a",), ("a", None, None)),
    "x[i, column]": (lambda x, i: x[i, i[:, :1]], INDEX, (), ("a",), ("a", None)),
    "index_select": (lambda x, i: x.index_select(1, i), INDEX[:, 0], ("a",), ("b",), ("a", "b")),
    "take": (lambda x, i: x.take(i), INDEX, (), ("a", "b"), ("a", "b")),
    "gather": (lambda x, i: x.gather(1, i), INDEX, ("a",), ("a", "b"), ("a", "b")),
    "gather from spread rows": (lambda x, i: x.gather(1, i), INDEX, ("a",), (), ("a", None)),
    "gather at spread indices": (lambda x, i: x.gather(1, i), INDEX, (), ("a",), ("a", None)),
    "gather of fewer rows": (lambda x, i: x.gather(1, i), INDEX[:4], ("b",), ("a",), ("a", None)),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), INDEX, ("a",), ("a",), ("a", None)),
    "take_along_dim of one row": (lambda x, i: x[:1].take_along_dim(i, 1), INDEX, (), ("a",), ("a", None)),
    "take_along_dim at one column": (
        lambda x, i: x.take_along_dim(i, 0),
        INDEX[:, :1],
        (None, "b"),
        (),
        (None, "b"),
    ),
}


def place(value, spec, kind=AxisType.Explicit):
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(kind,) * 2)
    return Tensor.from_array(jax.device_put(value, NamedSharding(mesh, P(*spec))))


def differentiate(gather, x, index):
    """Returns the selected items, and the gradient of the sum of their squares."""
    x.requires_grad_()
    items = gather(x, index)
    (items * items).sum().backward()
    return items.detach(), x.grad


@pytest.mark.parametrize("name", GATHERS)
def test_selected_items_are_spread_as_their_operands(name):
    gather, index, spec, of_index, due = GATHERS[name]
    x = place(X, spec)
    items, gradient = differentiate(gather, x, place(index, of_index))
    right, right_gradient = differentiate(gather, oplib.tensor(X), oplib.tensor(index))
    np.testing.assert_array_equal(items.numpy(), right.numpy())
    np.testing.assert_allclose(gradient.numpy(), right_gradient.numpy(), rtol=1e-6)
    assert jax.typeof(items.array).sharding.spec == P(*due)
    assert gradient.sharding.is_equivalent_to(x.sharding, 2)


def test_a_gradient_in_half_precision_is_that_of_one_device():
    x = jnp.asarray(X, jnp.bfloat16)
    items, gradient = differentiate(look_up, place(x, (None, "b")), place(INDEX, ("a",)))
    right, right_gradient = differentiate(look_up, Tensor.from_array(x), oplib.tensor(INDEX))
    np.testing.assert_array_equal(items.float().numpy(), right.float().numpy())
    np.testing.assert_array_equal(gradient.float().numpy(), right_gradient.float().numpy())


PARTS = "have only parts of it"
AMBIGUOUS = {
    "embedding": (
        ("a",),
        (),
        f"embedding: .* 'weight': dim 0 is indexed, and the devices of 'a' {PARTS}",
    ),
    "x[i]": ((("a", "b"),), (), f"index: .* for 'input': dim 0 is indexed, .* of 'a' and 'b' {PARTS}"),
    "take": ((None, "b"), (), "take: .* for 'input': dim 1 is indexed"),
    "gather": ((None, "b"), (), "gather: .* for 'input': dim 1 is indexed"),
    "gather at spread indices": (("a",), ("b",), "gather: .* do not go together"),
    "x[:, i]": (("a",), ("a",), "index: .* do not go together"),
    "take_along_dim": ((None, "b"), ("a",), "take_along_dim: .* for 'input': dim 1 is indexed"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_sharding_is_refused_by_name(name):
    (gather, index, *_), (spec, of_index, told) = GATHERS[name], AMBIGUOUS[name]
    x, at = place(X, spec), place(index, of_index)
    got = r".*; the types are float32\[8.*\], int32\[8.*\]\. Got .*\. Call oplib\.with_sharding_constraint"
    with pytest.raises(ArgumentError, match=told + got):
        gather(x, at)
    x = oplib.with_sharding_constraint(x, place(X, ()).sharding)
    right = gather(oplib.tensor(X), oplib.tensor(index))
    np.testing.assert_array_equal(gather(x, at).numpy(), right.numpy())


def test_xla_finds_the_sharding_on_a_mesh_with_automatic_axes():
    x, index = place(X, ("a", "b"), AxisType.Auto), place(INDEX, ("b",), AxisType.Auto)
    np.testing.assert_array_equal(look_up(x, index).numpy(), X[INDEX])


def weigh(x):
    return (x.detach() ** 2).sum(0)


PICKS = {
    "max": lambda x, _: x.max(1)[0],
    "median": lambda x, _: x.median(1)[0],
    "sort": lambda x, _: x.sort(1)[0],
    "topk": lambda x, _: x.topk(2, 1)[0],
    "cross_entropy": lambda x, i: F.cross_entropy(x, i[:, 0], weight=weigh(x), reduction="none"),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x, i[:, 0], weight=weigh(x), reduction="none"),
}


@pytest.mark.parametrize("name", PICKS)
def test_ops_that_pick_an_item_of_each_row_keep_the_rows_where_they_lie(name):
    x = place(X, ("a",))
    items, gradient = differentiate(PICKS[name], x, place(INDEX, ("a",)))
    right, right_gradient = differentiate(PICKS[name], oplib.tensor(X), oplib.tensor(INDEX))
    np.testing.assert_allclose(items.numpy(), right.numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), right_gradient.numpy(), rtol=1e-6, atol=1e-7)
    assert jax.typeof(items.array).sharding.spec[0] == "a"
    assert gradient.sharding.is_equivalent_to(x.sharding, 2)
