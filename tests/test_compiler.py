"""``oplib.compiler.is_compiling`` is True wherever oplib traces the user's code."""

import jax
import pytest

import oplib


@pytest.mark.spec("J.22")
@pytest.mark.parametrize(
    ("run", "is_traced"),
    [
        (lambda note: note(oplib.ones(2)), False),
        (lambda note: oplib.jit(note)(oplib.ones(2)), True),
        (lambda note: oplib.vmap(note)(oplib.ones(2)), True),
        (lambda note: oplib.cond(oplib.tensor(True), note, note, oplib.ones(2)), True),
        (lambda note: oplib.scan(lambda c, x: (note(c), None), oplib.ones(()), oplib.ones(2)), True),
        (lambda note: oplib.while_loop(lambda c: c < 8, note, oplib.ones(())), True),
        (lambda note: jax.jit(note)(jax.numpy.ones(2)), True),
    ],
)
def test_traced_code_finds_that_it_is_compiled(run, is_traced):
    seen = []
    run(lambda x: [seen.append(oplib.compiler.is_compiling()), x * 2][1])
    assert set(seen) == {is_traced}


class _Noting(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * (2 if oplib.compiler.is_compiling() else 3)


@pytest.mark.spec("J.22")
def test_a_backward_finds_that_it_is_compiled():
    x = oplib.ones(1, requires_grad=True)
    _Noting.apply(x).backward()
    assert x.grad.item() == 3
    assert oplib.autograd.grad(oplib.jit(_Noting.apply)(x), x)[0].item() == 2
