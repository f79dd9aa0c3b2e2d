"""Views: which may be written, and what their history says after a write. The rules are torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import grad
from oplib.errors import AutogradError

VALUES = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


class Row(oplib.autograd.Function):
    """A view that a user's Function makes."""

    @staticmethod
    def forward(ctx, x):
        return x[0]

    @staticmethod
    def backward(ctx, grad):
        return oplib.stack([grad, grad * 0])


def both_rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x[0], x[1]


def view_in(context, x):
    with context():
        return x[0]


def view_by_op(x):
    op = oplib.custom_op("viewed::both_rows", both_rows, tags=(oplib.Tag.view,), autograd="derive")
    return op(x)[0]


RESTRICTED = {
    "one of several": (lambda x: x.unbind(0)[0], "returns multiple views"),
    "one of several of a registered op": (view_by_op, "returns multiple views"),
    "a view of one of several": (lambda x: x.split(1)[0][0], "returns multiple views"),
    "of a Function": (Row.apply, "inside a custom Function"),
    "without grad": (lambda x: view_in(oplib.no_grad, x), "no_grad"),
    "a view of one without grad": (lambda x: view_in(oplib.no_grad, x).view(3), "no_grad"),
}


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", RESTRICTED)
def test_a_write_into_a_view_that_cannot_be_rebased_is_refused(name):
    make, message = RESTRICTED[name]
    x = oplib.tensor(VALUES, requires_grad=True) * 1
    view = make(x)
    with pytest.raises(AutogradError, match=message):
        view.mul_(2)
    assert x.tolist() == VALUES.tolist()


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", RESTRICTED)
def test_such_a_view_of_a_tensor_without_grad_is_written_freely(name):
    x = oplib.tensor(VALUES)
    RESTRICTED[name][0](x).mul_(2)
    assert x.tolist() == [[2.0, 4.0, 6.0], [4.0, 5.0, 6.0]]


def test_a_write_rebases_the_view_and_all_others_of_its_memory():
    leaf = oplib.tensor(VALUES, requires_grad=True)
    x = leaf * 1
    row, column = x[0], x.t()[1]
    row.mul_(leaf[1, 0])

    def compute(values):
        values = values.at[0].multiply(values[1, 0])
        return values[0].sum() * 2 + (values[:, 1] ** 2).sum()

    (got,) = grad(row.sum() * 2 + (column**2).sum(), leaf)
    np.testing.assert_allclose(got.numpy(), jax.grad(compute)(jnp.array(VALUES)), rtol=1e-6)


def test_the_second_derivative_goes_through_a_rebased_view():
    leaf = oplib.tensor(VALUES, requires_grad=True)
    x = leaf * 1
    x[:, 1].mul_(leaf[:, 0])
    (first,) = grad((x**2).sum(), leaf, create_graph=True)
    (second,) = grad(first.sum(), leaf)

    def compute(values):
        return (values.at[:, 1].multiply(values[:, 0]) ** 2).sum()

    expected = jax.grad(lambda values: jax.grad(compute)(values).sum())(jnp.array(VALUES))
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-6)


def test_the_gradient_of_a_stale_view_is_batched_like_that_of_any_op():
    leaf = oplib.tensor(VALUES, requires_grad=True)
    x = leaf * 1
    column = x[:, 1]
    x.mul_(3)
    rows = oplib.tensor([[1.0, 0.0], [0.0, 1.0]])
    (got,) = grad(column, leaf, rows, is_grads_batched=True)
    expected = [[[0.0, 3.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]]
    assert column.grad_fn.name() == "AsStridedBackward0"
    assert got.tolist() == expected


def test_a_view_without_a_node_of_a_subclass_is_an_ordinary_tensor():
    class Named(oplib.Tensor):
        pass

    named = oplib.ones(2, 3)
    named.__class__ = Named
    with oplib.no_grad():
        row = named[0]
    assert type(row) is oplib.Tensor
