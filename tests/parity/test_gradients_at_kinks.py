"""Gradients where a kernel changes its branch, beside torch."""

from __future__ import annotations

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "logsigmoid": lambda lib, x: lib.nn.functional.logsigmoid(x),
    "hardswish": lambda lib, x: lib.nn.functional.hardswish(x),
    "multilabel_soft_margin_loss": lambda lib, x: lib.nn.functional.multilabel_soft_margin_loss(
        x[:, None], lib.ones(len(x), 1), reduction="none"
    ),
    "i0": lambda lib, x: lib.i0(x),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.0, 5.0),
    # At nan torch's gradients of these are others in its vectors than in what is left over after them.
    "hardtanh": lambda lib, x: lib.nn.functional.hardtanh(x, -3.0, 1.0),
    "hardshrink": lambda lib, x: lib.nn.functional.hardshrink(x, 1.0),
    "hardsigmoid": lambda lib, x: lib.nn.functional.hardsigmoid(x),
    "logit kept within": lambda lib, x: lib.logit(x, 0.25),
}
AT_NAN_TOO = {
    **{
        name: lambda lib, x, name=name: getattr(lib, name)(x)
        for name in ("round", "floor", "ceil", "trunc", "sign")
    },
    "round to decimals": lambda lib, x: lib.round(x, decimals=1),
    "div floor": lambda lib, x: lib.div(x, 0.3, rounding_mode="floor"),
    "div trunc": lambda lib, x: lib.div(lib.tensor(2.0), x, rounding_mode="trunc"),
    "clamp": lambda lib, x: x.clamp(-1, 1),
    "clamp to tensors": lambda lib, x: lib.clamp(x, lib.tensor(-1.0), lib.tensor(1.0)),
    "clamp_min": lambda lib, x: x.clamp(min=0),
    "clamp_max": lambda lib, x: x.clamp(max=0),
    "clamp of the bound": lambda lib, x: lib.clamp(lib.tensor(1.0), x, lib.tensor(3.5)),
    "abs": lambda lib, x: x.abs(),
    "maximum": lambda lib, x: lib.maximum(x, x.detach().flip(0)),
    "fmax": lambda lib, x: lib.fmax(x, x.flip(0)),
    "fmin of a number": lambda lib, x: lib.fmin(lib.tensor(1.0), x),
    "minimum of a number": lambda lib, x: lib.minimum(lib.tensor(1.0), x),
    "max of two": lambda lib, x: lib.max(x, x.detach().abs()),
    "l1_loss": lambda lib, x: lib.nn.functional.l1_loss(x, x.detach().flip(0), reduction="sum"),
    "margin_ranking_loss": lambda lib, x: lib.nn.functional.margin_ranking_loss(
        x, lib.zeros_like(x), lib.ones_like(x), reduction="sum"
    ),
    "hinge_embedding_loss": lambda lib, x: lib.nn.functional.hinge_embedding_loss(
        x, -lib.ones_like(x), 3.0, reduction="sum"
    ),
}
# Each row is reduced by itself: ties, no numbers among others, nothing but these, infinities.
NAN, INF = float("nan"), float("inf")
TIED = [
    [1.0, 2.0, 2.0, -0.0],
    [NAN, 2.0, NAN, 0.0],
    [NAN, NAN, NAN, NAN],
    [INF, -INF, INF, 1.0],
    [0.0, -0.0, 0.0, -0.0],
]
BY_ROW = {
    "amax": lambda lib, x: x.amax(1),
    "amin, kept": lambda lib, x: x.amin(dim=[1], keepdim=True),
    "aminmax": lambda lib, x: sum(lib.aminmax(x, dim=1)),
    "largest of aminmax": lambda lib, x: lib.aminmax(x, dim=1).max,
    "norm 1": lambda lib, x: lib.linalg.vector_norm(x, 1, 1),
    "norm 2": lambda lib, x: lib.linalg.vector_norm(x, 2, 1),
    "nanmean": lambda lib, x: x.nanmean(1),
    "quantile": lambda lib, x: x[:3].quantile(0.75, 1),
    **{
        f"quantile, {way}": lambda lib, x, way=way: x.quantile(0.4, 1, interpolation=way)
        for way in ("lower", "higher", "nearest")
    },
}
WHOLE = ("max", "min", "amax", "aminmax", "median", "nanmedian")
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 4.0, -4.0, 40.0, -40.0, float("nan")]


def run(lib, function, numbers):
    x = lib.tensor(numbers, requires_grad=True)
    y = function(lib, x)
    (gradient,) = lib.autograd.grad(y.sum(), x)
    return y.tolist(), gradient.tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_at_kinks_are_those_of_torch(name):
    values, gradients = run(oplib, FUNCTIONS[name], NUMBERS)
    expected, expected_gradients = run(torch, FUNCTIONS[name], NUMBERS)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(gradients[:-1], expected_gradients[:-1], rtol=1e-5)  # nan has none


@pytest.mark.parametrize("name", AT_NAN_TOO)
def test_where_nan_has_a_gradient_it_is_that_of_torch(name):
    values, gradients = run(oplib, AT_NAN_TOO[name], NUMBERS)
    expected, expected_gradients = run(torch, AT_NAN_TOO[name], NUMBERS)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(gradients, expected_gradients)


@pytest.mark.parametrize("name", BY_ROW)
def test_a_reduction_has_the_gradient_of_torch_at_ties_and_nan(name):
    values, gradients = run(oplib, BY_ROW[name], TIED)
    expected, expected_gradients = run(torch, BY_ROW[name], TIED)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    np.testing.assert_allclose(gradients, expected_gradients, rtol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_items_that_are_equal_or_all_nan_share_the_gradient_as_in_torch(name):
    def reduce(lib, x):
        result = getattr(lib, name)(x)
        return sum(result) if isinstance(result, tuple) else result

    for row in TIED:
        ours, theirs = (run(lib, reduce, row)[1] for lib in (oplib, torch))
        np.testing.assert_array_equal(ours, theirs)


def test_extrema_have_second_derivatives_and_tangents():
    x = oplib.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    (first,) = oplib.autograd.grad((x * x).max(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([0.0, 3.0, 3.0, 0.0], [0.0, 1.0, 1.0, 0.0])
    with oplib.autograd.forward_ad.dual_level():
        dual = oplib.autograd.forward_ad.make_dual(x.detach(), oplib.tensor([1.0, 2.0, 4.0, 8.0]))
        assert oplib.autograd.forward_ad.unpack_dual(dual.amax(0)).tangent.item() == 3.0


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss", "hardswish"])
def test_what_is_linear_far_away_has_a_gradient_at_infinity(name):
    def apply(lib, x):
        function = getattr(lib.nn.functional, name)
        return function(x) if name == "hardswish" else function(x, lib.zeros_like(x), reduction="none")

    for ours, theirs in zip(*(run(lib, apply, [INF, -INF, 1.0, 0.0]) for lib in (oplib, torch)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_label_that_is_surely_wrong_costs_infinity():
    results = [run(lib, FUNCTIONS["multilabel_soft_margin_loss"], [-INF, 1.0]) for lib in (oplib, torch)]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["hardtanh", "hardshrink", "hardsigmoid", "logit kept within"])
def test_what_is_cut_has_no_gradient_at_nan(name):
    value, gradient = run(oplib, FUNCTIONS[name], NAN)
    assert (np.isnan(value), gradient) == (True, 0.0)


@pytest.mark.parametrize("order", [-1, -2.5])
def test_a_norm_of_negative_order_is_0_where_an_item_is(order):
    for row in ([1.0, 2.0, 0.0], [1.0, 2.0, 4.0], [0.0, 0.0, 3.0]):
        ours, theirs = (
            run(lib, lambda lib, x: lib.linalg.vector_norm(x, order), row) for lib in (oplib, torch)
        )
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)


@pytest.mark.parametrize("number", [-1 + 1j, -1 - 2j, -0.5 + 0.3j, 0.5 - 0.1j, 2 + 1j])
def test_the_gradient_of_acosh_has_the_sign_of_its_half_plane(number):
    _, gradient = run(oplib, lambda lib, x: lib.view_as_real(lib.acosh(x))[0], number)
    changes = [np.arccosh(number + step) - np.arccosh(number - step) for step in (1e-6, 1e-6j)]
    np.testing.assert_allclose(gradient, complex(*(change.real / 2e-6 for change in changes)), rtol=1e-5)


@pytest.mark.parametrize("name", ["log2", "log10", "angle"])
def test_complex_zeros_and_infinities_have_an_angle_and_a_logarithm(name):
    numbers = [0j, complex(-0.0, 0.0), complex(INF, 1.0), complex(-INF, 1.0)]
    for number in numbers:
        ours, theirs = (getattr(lib, name)(lib.tensor(number)).item() for lib in (oplib, torch))
        np.testing.assert_allclose([ours.real, ours.imag], [theirs.real, theirs.imag], rtol=1e-6)


@pytest.mark.parametrize("number", [0.0, 1e-30, 1e-20, 1e-18, 1e-10, 1e-4, 0.01, 0.159, 0.16, 0.5, 1.5])
def test_sinc_has_the_gradient_of_doubles_near_0(number):
    """Torch's own in single is off below 1e-3; near 0 the derivative is -pi**2 x / 3."""
    _, gradient = run(oplib, lambda lib, x: lib.sinc(x), number)
    if number < 1e-3:
        expected = -(np.pi**2) * number / 3
    else:
        _, expected = run(torch, lambda lib, x: lib.sinc(x.double()), number)
    np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=1e-16)


GAMMA = {
    "lgamma": lambda lib, x: lib.lgamma(x),
    "digamma": lambda lib, x: lib.digamma(x),
    "polygamma 1": lambda lib, x: lib.polygamma(1, x),
    "polygamma 2": lambda lib, x: lib.polygamma(2, x),
    "mvlgamma": lambda lib, x: lib.mvlgamma(x, 2),
}


@pytest.mark.parametrize("name", GAMMA)
def test_gamma_functions_and_their_gradients_are_those_of_torch_at_0_and_infinity(name):
    numbers = [0.0, 0.5, 2.0, 1.75, INF, NAN]
    if name != "mvlgamma":  # which adds 0. to it
        numbers.append(-0.0)
    ours, theirs = (run(lib, GAMMA[name], numbers) for lib in (oplib, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_derivatives_of_lgamma_at_a_pole_alternate():
    x = oplib.tensor(0.0, requires_grad=True)
    found, values = oplib.lgamma(x), []
    for _ in range(3):
        (found,) = oplib.autograd.grad(found, x, create_graph=True)
        values.append(found.item())
    assert values == [-INF, INF, -INF]


def test_the_gradient_of_i0_is_infinite_where_it_is_too_large():
    ours, theirs = (run(lib, lambda lib, x: lib.i0(x), [100.0, -100.0, 3.0, 0.0]) for lib in (oplib, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_each_nan_is_an_item_of_its_own():
    def count(lib):
        found, inverse, counts = lib.unique(
            lib.tensor([float("nan"), 2.0, float("nan"), 2.0]), return_inverse=True, return_counts=True
        )
        return found.tolist(), sorted(inverse.tolist()), counts.tolist()

    for ours, theirs in zip(count(oplib), count(torch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_logsigmoid_is_smooth_at_0():
    x = oplib.tensor(0.0, requires_grad=True)
    (first,) = oplib.autograd.grad(oplib.nn.functional.logsigmoid(x), x, create_graph=True)
    (second,) = oplib.autograd.grad(first, x)
    assert (first.item(), second.item()) == (0.5, -0.25)


def differentiate_twice(lib):
    y = lib.tensor([0.0, 0.0, -0.0, 1.0, 3.0], requires_grad=True)
    x = lib.tensor([0.0, -0.0, 0.0, 0.0, 4.0], requires_grad=True)
    grads = lib.autograd.grad(lib.atan2(y, x), (y, x), lib.full((5,), 2.0), create_graph=True)
    weights = lib.arange(1.0, 6.0)
    total = (grads[0] * weights + grads[1] * weights**2).sum()
    return [*grads, *lib.autograd.grad(total, (y, x))]


def test_the_second_derivative_of_atan2_at_the_origin_is_nan_and_the_first_is_0():
    theirs = [one.detach().numpy() for one in differentiate_twice(torch)]
    ours = [one.detach().numpy() for one in differentiate_twice(oplib)]
    assert np.isnan(theirs[2:]).sum() == 6
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-6)
