"""Each check of gradcheck passes what is right and catches what is wrong, and leaves all as it was."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, gradcheck, gradgradcheck
from oplib.errors import ArgumentValueError, CheckOptionError, GradcheckError


@pytest.fixture
def x():
    return oplib.tensor([0.5, -1.5], requires_grad=True)


def make_function(backward, forward=lambda x: x * x, *, materialize=True, name="Made"):
    """A Function of one input that saves it, with a formula ``backward(x, grad)``."""

    def run_forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(materialize)
        return forward(x)

    def run_backward(ctx, *grads):
        return backward(ctx.saved_tensors[0], *grads)

    members = {"forward": staticmethod(run_forward), "backward": staticmethod(run_backward)}
    return type(name, (Function,), members).apply


square = make_function(lambda x, g: g * 2 * x)
wrong_square = make_function(lambda x, g: g * 3 * x, name="Wrong")


# Right derivatives pass ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_right_formula_passes(x, fast_mode):
    assert gradcheck(square, x, fast_mode=fast_mode, check_batched_grad=True) is True


@pytest.mark.parametrize("fast_mode", [False, True])
def test_several_inputs_and_outputs_pass_with_values_that_are_no_tensors(x, fast_mode):
    w = oplib.tensor([1.0, 2.0], requires_grad=True)

    def function(x, scale, w):
        return x * w * scale, w * w, None, "text"

    assert gradcheck(function, [x, 0.5, w], fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_complex_inputs_and_outputs_pass(fast_mode):
    z = oplib.tensor([1 + 2j, -0.5j], requires_grad=True)
    assert gradcheck(lambda z: (z * z, z.abs()), z, fast_mode=fast_mode)


def test_a_real_input_with_a_complex_output_passes(x):
    assert gradcheck(lambda x: (x * x) * (1 + 2j), x)


def test_an_input_that_plays_no_part_passes(x):
    assert gradcheck(lambda x, y: x * 2, (x, oplib.tensor(1.0, requires_grad=True)))


def test_an_input_that_is_returned_passes(x):
    assert gradcheck(lambda x: x, x)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_inputs_without_entries_pass(fast_mode):
    empty = oplib.zeros(0, 2, requires_grad=True)
    assert gradcheck(lambda e: (e * 2, e.sum()), empty, fast_mode=fast_mode)


def test_an_input_that_is_no_leaf_is_checked(x):
    assert gradcheck(square, x * 2)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(wrong_square, x * 2)


def test_low_precision_inputs_are_checked_in_double_precision():
    seen = set()

    def function(a, b):
        seen.update((str(a.dtype), str(b.dtype)))
        return a * b

    a = oplib.tensor([0.5], dtype=oplib.bfloat16, requires_grad=True)
    assert gradcheck(function, (a, oplib.tensor([2.0], dtype=oplib.float16)))
    assert seen == {"float64"}


def test_functions_with_side_effects_are_called_once_for_each_point(x):
    calls = itertools.count()

    def function(x):
        next(calls)
        return x * 2

    gradcheck(function, x, check_undefined_grad=False)
    assert next(calls) == 1 + 2 * 2  # once at the point, and twice for each of two entries


# Wrong derivatives are caught and named -------------------------------------------------------------------


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_wrong_formula_is_caught(x, fast_mode):
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(wrong_square, x, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_the_message_names_output_input_entry_and_both_values(x, fast_mode):
    w = oplib.tensor([[1.0], [2.0]], requires_grad=True)
    text = (
        r"output 1 with respect to input 1. By input entry \[1, 0\], output entry \[1, 0\]: numerical 4, "
        r"analytical 6\. 2 of 4 entries differ .* of which WrongBackward is the last"
    )
    with pytest.raises(GradcheckError, match=text):
        gradcheck(lambda x, w: (x * 2, wrong_square(w)), (x, w), fast_mode=fast_mode)


def test_the_message_names_the_part_of_a_complex_entry():
    z = oplib.tensor([2j], requires_grad=True)
    forgot_conj = make_function(lambda z, g: g * 2 * z, name="NoConj")
    with pytest.raises(
        GradcheckError,
        match=r"imaginary part of \[0\], .*real part of \[0\]|real part of \[0\], .*imaginary part of \[0\]",
    ):
        gradcheck(forgot_conj, z)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradients_at_the_wrong_entries_are_caught(fast_mode):
    w = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    transposed = make_function(lambda w, g: (g * 2 * w).t().clone())
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(transposed, w, fast_mode=fast_mode)


def test_a_gradient_of_nan_is_caught(x):
    with pytest.raises(GradcheckError, match="analytical nan"):
        gradcheck(make_function(lambda x, g: g * float("nan")), x)


def test_large_matrices_are_not_printed():
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong_square, oplib.ones(7, requires_grad=True))
    assert "numerical:" not in str(caught.value)


def test_an_error_within_the_tolerances_passes_and_one_beyond_is_caught(x):
    slightly_wrong = make_function(lambda x, g: g * 2.001 * x)
    assert gradcheck(slightly_wrong, x, rtol=2e-3)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(slightly_wrong, x, rtol=1e-4)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_backward_that_does_not_repeat_itself_is_caught_unless_tolerated(x, fast_mode):
    counter = itertools.count()
    unsteady = make_function(lambda x, g: g * 2 * x * (1 + 1e-7 * (next(counter) % 2)))
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(unsteady, x, fast_mode=fast_mode)
    assert gradcheck(unsteady, x, fast_mode=fast_mode, nondet_tol=1e-5)


def test_a_term_without_the_incoming_gradient_is_caught(x):
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(make_function(lambda x, g: g * 2 * x + 1e-7), x)


def test_a_formula_that_cannot_take_an_undefined_gradient_is_caught(x):
    strict = make_function(lambda x, g: g * 2 * x, materialize=False)
    with pytest.raises(GradcheckError, match=r"undefined output grads\. Without a gradient of any output"):
        gradcheck(strict, x)
    assert gradcheck(strict, x, check_undefined_grad=False)


def test_a_formula_that_makes_gradients_from_nothing_is_caught(x):
    def from_nothing(x, g):
        return x if g is None else g * 2 * x

    with pytest.raises(GradcheckError, match="Expected all input grads to be undefined or zero"):
        gradcheck(make_function(from_nothing, materialize=False), x)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_function_that_hides_its_dependence_is_caught(x, fast_mode):
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: (x * 2).detach(), x, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_function_that_does_not_depend_on_its_inputs_passes(x, fast_mode):
    assert gradcheck(lambda x: (oplib.ones(2), x > 0), x, fast_mode=fast_mode)


def test_a_function_that_changes_its_shape_nearby_is_caught(x):
    def unsteady(x):
        return x if x.tolist()[0] <= 0.5 else x.sum()

    with pytest.raises(GradcheckError, match="output 0 of the function changes its shape or dtype"):
        gradcheck(unsteady, x)


# Batched gradients ----------------------------------------------------------------------------------------


def test_a_formula_that_reads_values_cannot_be_batched(x):
    reading = make_function(lambda x, g: g * 2 * x if float(g.sum()) < 1e9 else None)
    assert gradcheck(reading, x)
    with pytest.raises(GradcheckError, match="the gradients of output 0 cannot be computed in a batch"):
        gradcheck(reading, x, check_batched_grad=True)


def test_a_formula_that_draws_random_numbers_cannot_be_batched(x):
    drawing = make_function(lambda x, g: g * 2 * x + 0 * g * oplib.rand(2, dtype=oplib.float64))
    assert gradcheck(drawing, x)
    with pytest.raises(GradcheckError, match="Generator"):
        gradcheck(drawing, x, check_batched_grad=True)


def test_a_formula_that_is_another_one_in_a_batch_is_caught(x):
    def differs(x, g):
        return g * 2 * x * (2 if isinstance(g.array, jax.core.Tracer) else 1)

    with pytest.raises(
        GradcheckError, match="gradient of output 0 with respect to input 0 differs under vmap"
    ):
        gradcheck(make_function(differs), x, check_batched_grad=True)


# The call -------------------------------------------------------------------------------------------------


def test_a_failed_check_can_return_false(x):
    assert gradcheck(wrong_square, x, raise_exception=False) is False
    assert gradgradcheck(wrong_square, x, raise_exception=False) is True  # the derivative of what it says


def test_without_an_input_that_requires_grad_there_is_nothing_to_check():
    with pytest.raises(ArgumentValueError, match="at least one input tensor to require gradient"):
        gradcheck(square, oplib.ones(2))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"check_backward_ad": False}, "at least one of check_forward_ad or check_backward_ad"),
        (
            {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
            "check_batched_grad=True requires check_backward_ad",
        ),
        ({"check_batched_forward_grad": True}, "check_batched_forward_grad=True requires check_forward_ad"),
    ],
)
def test_options_that_exclude_each_other_raise(x, options, text):
    with pytest.raises(CheckOptionError, match=text):
        gradcheck(square, x, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"check_rev_over_rev": False}, "at least one of check_fwd_over_rev"),
        (
            {"check_rev_over_rev": False, "check_fwd_over_rev": True},
            "check_undefined_grad=True requires check_rev_over_rev",
        ),
        (
            {
                "check_rev_over_rev": False,
                "check_fwd_over_rev": True,
                "check_undefined_grad": False,
                "check_batched_grad": True,
            },
            "check_batched_grad=True requires check_rev_over_rev",
        ),
    ],
)
def test_options_of_the_second_check_that_exclude_each_other_raise(x, options, text):
    with pytest.raises(CheckOptionError, match=text):
        gradgradcheck(square, x, **options)


def test_an_error_of_the_function_is_not_the_failure_of_a_check(x):
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gradcheck(broken, x, raise_exception=False)


def test_inputs_are_left_as_they_were(x):
    before = x.array
    gradcheck(square, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(wrong_square, x)
    assert x.array is before
    assert (x.grad, x._version, jax.config.jax_enable_x64) == (None, 0, False)


def test_a_leaf_in_double_precision_is_checked_where_the_function_has_captured_it():
    with jax.enable_x64(True):
        x = oplib.tensor([0.5], dtype=oplib.float64, requires_grad=True)
        before = x.array
        assert gradcheck(lambda _: square(x), x)
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            gradcheck(lambda _: wrong_square(x), x)
        assert x.array is before


def test_directions_are_drawn_from_no_generator_of_the_user(x):
    state, legacy = oplib.default_generator.get_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    gradgradcheck(square, x, fast_mode=True)
    assert oplib.default_generator.get_state() == state
    assert (np.random.get_state()[1] == legacy).all()  # noqa: NPY002


# Second derivatives ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_second_derivatives_pass(x, fast_mode):
    w = oplib.tensor([3.0, 1.0], requires_grad=True)
    assert gradgradcheck(lambda x, w: (x * x, w * x), (x, w), fast_mode=fast_mode)


def test_complex_second_derivatives_pass():
    assert gradgradcheck(lambda z: z * z, oplib.tensor([1 + 2j, 0.5j], requires_grad=True))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_formula_whose_derivative_is_wrong_is_caught(x, fast_mode):
    cut = make_function(lambda x, g: g * 2 * x.detach())
    assert gradcheck(cut, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradgradcheck(cut, x, fast_mode=fast_mode)


def test_the_gradients_of_outputs_can_be_given(x):
    assert gradgradcheck(square, x, oplib.tensor([1.0, 2.0], requires_grad=True))
    assert gradgradcheck(square, x, oplib.tensor([1.0, 2.0]))


def test_second_derivatives_are_checked_under_vmap(x):
    assert gradgradcheck(square, x, check_batched_grad=True)
