"""Conversion of parameters to one vector, and back."""

import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.nn.utils import parameters_to_vector, vector_to_parameters


def test_a_vector_of_parameters_leads_back_to_them():
    a, b = oplib.ones(2, requires_grad=True), oplib.zeros(1, 1, requires_grad=True)
    (parameters_to_vector([a, b]) * oplib.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert a.grad.tolist() == [1.0, 2.0]
    assert b.grad.tolist() == [[3.0]]


def test_parameters_stay_leaves_when_a_vector_is_written_into_them():
    a, b = oplib.ones(2, requires_grad=True), oplib.zeros(1, 1, requires_grad=True)
    vector_to_parameters(oplib.tensor([5.0, 6.0, 7.0, 8.0]), [a, b])
    assert (a.tolist(), b.tolist()) == ([5.0, 6.0], [[7.0]])
    assert a.is_leaf
    assert a.requires_grad


def test_a_vector_that_is_none_or_too_short_is_refused_before_anything_is_written():
    a = oplib.ones(2, requires_grad=True)
    with pytest.raises(ArgumentTypeError, match=r"vector_to_parameters: argument 'vec' is a Tensor. Got 3"):
        vector_to_parameters(3, [a])
    with pytest.raises(ArgumentError, match=r"the parameters have 4 items together. Got f32\[3\]. Give a"):
        vector_to_parameters(oplib.zeros(3), [a, a])
    assert a.tolist() == [1.0, 1.0]
