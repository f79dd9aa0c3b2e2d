"""``gradgradcheck``: what it checks without a word, and what each option adds."""

import inspect

import pytest

import oplib
from oplib.autograd import Function, gradcheck, gradgradcheck
from oplib.errors import GradcheckError

SHARED = {
    "eps": 1e-6, "atol": 1e-5, "rtol": 1e-3, "raise_exception": True, "nondet_tol": 0.0,
    "check_undefined_grad": True, "check_grad_dtypes": False, "check_batched_grad": False, "fast_mode": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "own"),
    [
        (
            gradcheck,
            {"check_batched_forward_grad": False, "check_forward_ad": False, "check_backward_ad": True},
        ),
        (
            gradgradcheck,
            {"grad_outputs": None, "gen_non_contig_grad_outputs": False, "masked": False}
            | {"check_fwd_over_rev": False, "check_rev_over_rev": True},
        ),
    ],
)
def test_options_have_the_defaults_of_torch(check, own):
    parameters = inspect.signature(check).parameters
    assert {name: parameters[name].default for name in SHARED | own} == SHARED | own


class CubeOfWrongSlope(Function):
    """The cube, whose gradient is right and whose second derivative is not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x.detach() * x


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.usefixtures("with_64_bits")
def test_a_wrong_second_derivative_is_found_by_the_second_check_alone(fast_mode):
    x = oplib.tensor([0.5, -1.5], dtype=oplib.float64, requires_grad=True)
    assert gradcheck(CubeOfWrongSlope.apply, (x,), fast_mode=fast_mode)
    assert gradgradcheck(lambda x: x**3, (x,), fast_mode=fast_mode)
    assert not gradgradcheck(CubeOfWrongSlope.apply, (x,), fast_mode=fast_mode, raise_exception=False)
    with pytest.raises(GradcheckError):
        gradgradcheck(CubeOfWrongSlope.apply, (x,), fast_mode=fast_mode)
