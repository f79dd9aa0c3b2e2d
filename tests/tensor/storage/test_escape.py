"""A traced value is not stored in a Tensor that outlives its trace."""

import threading

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import TracingError

CAPTURED = oplib.ones(3)


def run_in_new_thread(function):
    """Runs in a thread that has not been in a trace, and returns the result or the error."""
    outcomes = []

    def run():
        try:
            outcomes.append(function())
        except TracingError as error:
            outcomes.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcomes[0]


def write_into(make):
    return lambda array: make().add_(oplib.Tensor.from_array(array)).sum().array


@pytest.mark.parametrize("transform", [jax.grad, lambda f: lambda x: jax.jvp(f, (x,), (x,))])
def test_a_refused_write_says_that_an_op_before_any_traced_value_counts_as_outside(transform):
    def run():
        return transform(write_into(lambda: CAPTURED * 1))(jnp.arange(3.0))

    assert "or made by an op before the code met a traced value or a factory" in str(run_in_new_thread(run))


def test_the_cure_of_the_refusal_works():
    def run():
        return jax.grad(write_into(lambda: oplib.zeros_like(CAPTURED).add_(CAPTURED)))(jnp.arange(3.0))

    assert run_in_new_thread(run).tolist() == [1.0, 1.0, 1.0]


WRITES = {
    "an item": lambda x, y: x.__setitem__(2, 1.0),
    "a traced item": lambda x, y: x.__setitem__(2, y),
    "a slice": lambda x, y: x.__setitem__(slice(1, 3), CAPTURED[:2]),
    "all": lambda x, y: x.__setitem__(..., 1.0),
    "of a view": lambda x, y: x.view(2, 2).diagonal().__setitem__(0, 1.0),
    "of an expanded tensor": lambda x, y: x.expand(3, 4).detach()[0].__setitem__(0, 1.0),
    "of what shares memory": lambda x, y: x.detach().__setitem__(0, 1.0),
    "of data": lambda x, y: x.data[1:2].__setitem__(0, 1.0),
    "a resize": lambda x, y: x.resize_(8),
}


@pytest.mark.parametrize("transform", [jax.jit, jax.make_jaxpr], ids=lambda f: f.__name__)
@pytest.mark.parametrize("write", WRITES)
def test_the_first_write_of_a_trace_is_refused_before_it_is_made(write, transform):
    x = oplib.arange(4.0)

    def run():
        return transform(lambda y: (WRITES[write](x, y), y)[1])(1.0)

    assert "a traced value would be stored in a tensor made outside" in str(run_in_new_thread(run))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert x._version == 0


def test_an_item_of_a_tensor_of_the_trace_is_written():
    def f(y):
        x = oplib.zeros(4)
        x[1] = 5.0
        x[2:3] = y
        return x.array

    assert run_in_new_thread(lambda: jax.jit(f)(2.0)).tolist() == [0.0, 5.0, 2.0, 0.0]
