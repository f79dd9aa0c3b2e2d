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
