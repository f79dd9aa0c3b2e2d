"""A Function whose backward may be traced: a compiled pass gives the gradients that its Python code gives."""

import math

import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.compiled_autograd import enable

pytestmark = pytest.mark.spec("D.25")


class Constant(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 3 + y

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, grad


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(None, x, None, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        _, x, _, y = ctx.saved_tensors
        return grad * y, grad * x if ctx.needs_input_grad[1] else None


class Exponential(Function):
    @staticmethod
    def forward(ctx, x, y):
        result = x.exp() * y
        ctx.save_for_backward(result, y)
        return result

    @staticmethod
    def backward(ctx, grad):
        result, y = ctx.saved_tensors
        return grad * result, grad * result / y


class Scaled(Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x, y):
        ctx.factors = (Scaled.factor, (y.shape[0], None))
        return x * Scaled.factor * len(y) + y

    @staticmethod
    def backward(ctx, grad):
        factor, (count, _) = ctx.factors
        return grad * factor * count, grad


class Several(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return x * y, index, y.sin()

    @staticmethod
    def backward(ctx, product, index, sine):
        x, y = ctx.saved_tensors
        return product * y, product * x + sine * y.cos()


class SeveralOrNone(Several):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return Several.forward(ctx, x, y)

    @staticmethod
    def backward(ctx, product, index, sine):
        x, y = ctx.saved_tensors
        assert index is None
        return None if product is None else product * y, product * x if sine is None else sine * y.cos()


CALLS = {
    "nothing saved": Constant.apply,
    "none among what is saved": Product.apply,
    "an input without gradient": lambda x, y: Product.apply(x, y.detach()),
    "both inputs are one": lambda x, y: Product.apply(x * y, x * y),
    "a saved result": Exponential.apply,
    "numbers": Scaled.apply,
    "one result of several": lambda x, y: Several.apply(x, y)[2],
    "several results": lambda x, y: Several.apply(x, y)[0] + Several.apply(y, x)[2],
    "none for the first result": lambda x, y: SeveralOrNone.apply(x, y)[2],
    "none for the last result": lambda x, y: SeveralOrNone.apply(x, y)[0],
    "one after the other": lambda x, y: Product.apply(Exponential.apply(x, y), y),
}


def find_gradients(call, factor):
    """Returns the gradients at several numbers and of several shapes."""
    Scaled.factor, found = factor, []
    for numbers in ([0.5, 1.5], [0.25, 2.0], [1.0, 2.0, 3.0]):
        x = oplib.tensor(numbers, requires_grad=True)
        y = oplib.tensor(numbers[::-1], requires_grad=True)
        (call(x, y) * x.detach()).sum().backward()
        found.append([None if one.grad is None else one.grad.tolist() for one in (x, y)])
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_traced_backward_gives_the_gradients_of_its_python_code(name, monkeypatch):
    expected = [find_gradients(CALLS[name], factor) for factor in (2.0, -0.0, 0.0)]
    for function in (Constant, Product, Exponential, Scaled, Several, SeveralOrNone):
        monkeypatch.setattr(function, "is_traceable", True)
    with enable():
        found = [find_gradients(CALLS[name], factor) for factor in (2.0, -0.0, 0.0)]
    assert str(found) == str(expected)  # a zero has a sign


class Signed(Function):
    is_traceable = True
    factor = 0j

    @staticmethod
    def forward(ctx, x):
        ctx.factor = Signed.factor
        return x * 0

    @staticmethod
    def backward(ctx, grad):
        return grad * math.copysign(1, ctx.factor.imag)


def test_complex_zeros_of_two_signs_are_two_constants(monkeypatch):
    found = []
    with enable():
        for sign in (0.0, -0.0):
            monkeypatch.setattr(Signed, "factor", complex(0.0, sign))
            x = oplib.ones(1, requires_grad=True)
            Signed.apply(x).sum().backward()
            found.append(x.grad.item())
    assert found == [1, -1]
