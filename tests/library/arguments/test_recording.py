"""Arguments that an op writes: which are refused, and what is written into the others."""

import jax
import pytest

import oplib
from oplib.errors import ArgumentError, AutogradError
from oplib.library import custom_op


@pytest.fixture(scope="module")
def double():
    @custom_op("written::double", mutates_args=("x",))
    def double(x: jax.Array, more: list[jax.Array] | None = None) -> jax.Array:
        return x * 2

    return double


def test_a_write_reaches_the_tensor_and_counts(double):
    x = oplib.tensor([1.0, 2.0])
    view = x[1:]
    assert double(x) is None
    assert (x.tolist(), view.tolist(), x._version) == ([2.0, 4.0], [4.0], 1)
    double(view)
    assert (x.tolist(), x._version) == ([2.0, 8.0], 2)


def test_what_must_not_be_written_is_refused_and_stays(double):
    leaf = oplib.tensor([1.0], requires_grad=True)
    for x, message in [
        (leaf, "a leaf Variable that requires grad is being used in an in-place operation"),
        (leaf * 1, "a tensor with history is being used in an in-place operation"),
        (oplib.ones(1).expand(3), "more than one element of the written-to tensor"),
    ]:
        before = x.tolist()
        with pytest.raises(AutogradError, match=message):
            double(x)
        assert x.tolist() == before
    with oplib.no_grad():
        double(leaf)
    assert leaf.tolist() == [2.0]
    with pytest.raises(ArgumentError, match="argument 'x' is written, but arrays cannot be"):
        double(jax.numpy.ones(1))


def test_inference_tensors_are_written_in_inference_mode_alone(double):
    with oplib.inference_mode():
        x = oplib.ones(1)
        double(x)
        assert (x.tolist(), x.is_inference()) == ([2.0], True)
    with pytest.raises(AutogradError, match=r"[Ii]nference"):
        double(x)


def test_a_node_saves_no_tensor_of_inference_mode():
    x = oplib.ones(2, requires_grad=True)
    with oplib.inference_mode():
        constant = oplib.ones(2)
    with pytest.raises(AutogradError, match=r"[Ii]nference"):
        x * constant
    assert (x + constant).requires_grad
    with oplib.inference_mode():
        assert (x * constant).is_inference()
