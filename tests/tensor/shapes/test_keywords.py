"""Arguments that are given one by one, in a sequence, or by keyword."""

import jax
import jax.export
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import ArgumentTypeError
from oplib.tensor.shapes.keywords import read_bounds, take_named
from oplib.tensor.shapes.symbolic import has_symbols


def test_a_size_by_keyword_beside_one_by_position_is_refused_with_both():
    with pytest.raises(ArgumentTypeError) as caught:
        oplib.zeros(2, 3, size=(4,))
    assert str(caught.value) == (
        "zeros: argument 'size' is given once, by position or by keyword. Got (2, 3) and size=(4,). "
        "Leave one out."
    )


def test_dims_by_keyword_are_a_sequence():
    with pytest.raises(ArgumentTypeError) as caught:
        oplib.ones(2).flip(dims=0)
    assert str(caught.value) == (
        "flip: argument 'dims', by keyword, is a tuple or a list. Got dims=0. Write dims=(...)."
    )


def test_what_the_keyword_was_given_is_handed_on_as_it_is():
    given = [1, 2]
    assert take_named("flip", "dims", given, ()) is given


def test_a_bound_that_is_left_out_is_zero():
    assert read_bounds("randint", (5,), low=None, high=None, size=(2,)) == (0, 5, (2,))
    assert read_bounds("randint", (), low=1, high=5, size=(2,)) == (1, 5, (2,))


def test_bounds_that_are_given_twice_are_refused_with_what_was_given():
    with pytest.raises(ArgumentTypeError) as caught:
        oplib.randint(5, (2,), high=3)
    assert str(caught.value) == (
        "randint: the arguments are high, size or low, high, size, each given once. Got 5, (2,), high=3. "
        "Give size last, or by keyword."
    )


def test_arange_without_a_bound_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"^arange: argument 'end' is missing\. Got no bound\."):
        oplib.arange()


# Lengths and values ----------------------------------------------------------------------------------


def test_a_shape_has_symbols_if_one_of_its_lengths_is_one():
    (length,) = jax.export.symbolic_shape("n")
    assert has_symbols((2, length))
    assert not has_symbols((2, 3))
    assert not has_symbols(())


def test_a_shape_of_export_is_filled_without_a_check_of_its_lengths():
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "float32")
    exported = jax.export.export(jax.jit(lambda x: oplib.full((x.shape[0], 2), 7.0).array))(symbolic)
    assert exported.call(jnp.ones(3)).tolist() == [[7.0, 7.0]] * 3


def test_an_array_that_a_trace_fills_is_no_other_array_afterwards():
    jax.jit(lambda x: x + oplib.full((3,), 7.25).array)(jnp.ones(3))
    assert oplib.full((3,), 7.25).tolist() == [7.25] * 3
