"""Gradient clipping in place; numbers are compared with torch in ``tests/parity/test_nn_utils.py``."""

import pytest

import oplib
from oplib.errors import ArgumentError
from oplib.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm


def make_parameters(*gradients: list[float]) -> list[oplib.Tensor]:
    found = [oplib.zeros(len(gradient), requires_grad=True) for gradient in gradients]
    for one, gradient in zip(found, gradients, strict=True):
        one.grad = oplib.tensor(gradient)
    return found


def test_gradients_are_written_where_they_stand_and_nothing_is_recorded():
    parameters = make_parameters([3.0, 0.0], [0.0, 4.0])
    boxes = [one.grad for one in parameters]
    total = clip_grad_norm_(iter(parameters), 1.0)
    clip_grad_value_(parameters, 0.5)
    assert all(one.grad is box for one, box in zip(parameters, boxes, strict=True))
    assert [box._version for box in boxes] == [2, 2]
    assert not total.requires_grad


def test_a_norm_that_is_not_finite_is_an_error_where_asked_for_and_nothing_is_written():
    parameters = make_parameters([float("inf"), 1.0])
    with pytest.raises(ArgumentError, match=r"order 2.0 is non-finite.*Got inf of 1 tensors, the first of"):
        clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad.tolist() == [float("inf"), 1.0]


def test_an_empty_generator_is_warned_of():
    with pytest.warns(UserWarning, match="clip_grad_norm_: `parameters` is an empty generator"):
        assert clip_grad_norm_((one for one in ()), 1.0).item() == 0.0


def test_the_norm_of_nothing_is_0():
    assert get_total_norm([]).item() == 0.0
