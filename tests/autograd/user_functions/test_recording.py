"""What a forward may return: arrays become Tensors with a history."""

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function

pytestmark = pytest.mark.spec("D.40")


@pytest.mark.parametrize("make", [lambda x: x.array * 2, lambda x: np.asarray(x.detach().array) * 2])
def test_an_array_that_forward_returns_is_a_recorded_tensor(make):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return make(x)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    y = Doubled.apply(x)
    assert isinstance(y, oplib.Tensor)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2.0, 4.0], [7.0, 7.0])
    assert isinstance(Doubled.apply(x.detach()), oplib.Tensor)


def test_arrays_in_containers_are_recorded_too():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            return {"a": x.array * 2, "n": jnp.arange(2)}, x * 3, "text"

        @staticmethod
        def backward(ctx, tree, g, text):
            return tree["a"] * 5 + g

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    tree, y, text = Split.apply(x)
    assert (text, tree["n"].requires_grad, tree["a"].requires_grad) == ("text", False, True)
    (tree["a"].sum() + y.sum()).backward()
    assert x.grad.tolist() == [6.0, 6.0]
