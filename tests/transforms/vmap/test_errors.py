"""A mistake in a map raises an error that names it, and changes nothing."""

import jax
import pytest

import oplib
from oplib.errors import ArgumentValueError, DimensionError, TracingError
from oplib.modes import modes

from .rows import ROWS, WEIGHTS


@pytest.fixture
def x():
    return oplib.tensor(ROWS, requires_grad=True)


@pytest.fixture
def w():
    return oplib.tensor(WEIGHTS, requires_grad=True)


ERRORS = {
    r"vmap: called random operation .*each of the 2 examples.*Give vmap randomness='different' or 'same'": (
        TracingError,
        lambda a: oplib.rand(3),
        {},
    ),
    r"got_in_dim": (ArgumentValueError, lambda a: a, {"in_dims": (0.5,)}),
    r"input is f32\[2,3\], a Tensor of dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2": (
        ArgumentValueError,
        lambda a: a,
        {"in_dims": 7},
    ),
    r"vmap\(stay, \.\.\.\): `stay` must only return Tensors\. Got type int": (ArgumentValueError, "stay", {}),
    r"can not return a mapped Tensor when out_dim is None\. Got f32\[2,3\]": (
        ArgumentValueError,
        lambda a: a,
        {"out_dims": None},
    ),
    r"expected to be in range of \[-2, 1\], but got 4": (DimensionError, lambda a: a, {"out_dims": 4}),
    r"a traced tensor has no values yet\. Got f32\[\]": (TracingError, lambda a: a.sum().item(), {}),
}


def stay(a):
    return 3


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_tells_what_is_wrong_and_leaves_nothing(text, x):
    kind, function, options = ERRORS[text]
    function = stay if function == "stay" else function
    text = r"Got in_dim=0\.5 for an input.*The input is" if text == "got_in_dim" else text
    with pytest.raises(kind, match=text):
        oplib.vmap(function, **options)(x)
    assert modes.state.map_levels == ()
    assert oplib.vmap(lambda a: a * 2)(x).tolist() == (2 * ROWS).tolist()


def test_what_is_not_mapped_stays_as_it_was_where_a_mapped_value_is_refused(x, w):
    made_outside, result_of_an_op = oplib.zeros(3), oplib.zeros(3) * 1
    for target in (made_outside, result_of_an_op):
        with pytest.raises(
            TracingError, match=r"add_: inplace arithmetic in vmap: .* Got f32\[3\] for f32\[3\]"
        ):
            oplib.vmap(lambda a, target=target: target.add_(a))(x)
        assert (target.tolist(), target._version) == ([0.0] * 3, 0)


def test_an_argument_that_fails_halfway_is_not_written():
    def function(a):
        a.add_(1)
        raise KeyError("halfway")

    y = oplib.zeros(2, 3)
    with pytest.raises(KeyError, match="halfway"):
        oplib.vmap(function)(y)
    assert (y.tolist(), y._version) == ([[0.0] * 3] * 2, 0)


@pytest.mark.parametrize("size", [0, -1, "a", 1.5])
def test_a_chunk_size_is_a_positive_integer(size):
    with pytest.raises(ArgumentValueError, match="chunk_size should be None or greater than 0"):
        oplib.vmap(oplib.sin, chunk_size=size)


def test_a_map_is_refused_while_jax_checks_for_leaks():
    with jax.checking_leaks(), pytest.raises(TracingError, match="Call vmap outside of the block"):
        oplib.vmap(lambda x: x * 2)(oplib.ones(2))
