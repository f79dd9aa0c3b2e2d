"""Errors of convolution, pooling and interpolation for arguments that do not fit."""

import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedArgumentError
from oplib.nn import functional

IMAGE = (1, 2, 3, 3)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("conv2d", ((2, 2, 4, 4),), r"conv2d: kernel size can't be greater than actual input size"),
        ("conv2d", ((2, 3, 2, 2),), r"conv2d: expected input to have 3 channels. Got input f32\[1,2,3,3\]"),
        (
            "conv2d",
            ((2, 2, 2, 2), None, 0),
            r"conv2d: 'stride' must be greater than zero. Got .* stride \[0, 0\]",
        ),
        (
            "conv2d",
            ((2, 2, 2, 2), None, 1, -1),
            r"conv2d: 'padding' must be non-negative. Got .* padding \[-1, -1\]",
        ),
        ("conv2d", ((3, 1, 2, 2), None, 1, 0, 1, 2), "conv2d: groups must be positive, and divide the first"),
        ("conv_transpose2d", ((2, 2, 2, 2), None, 1, 2), "conv_transpose2d: the output size is too small"),
        ("conv_transpose2d", ((2, 2, 2, 2), None, 1, 0, 1), "output padding must be smaller than either"),
        ("max_pool2d", (4,), "max_pool2d: there is no window in the padded input"),
        ("avg_pool2d", (2, None, 2), "avg_pool2d: pad should be at most half of effective kernel size"),
        ("adaptive_avg_pool2d", (-1,), "adaptive_avg_pool2d: 'output_size' must be non-negative"),
        ("unfold", (4,), "unfold: there is no window in the padded input"),
        ("interpolate", (0,), "interpolate: input and output sizes should be greater than 0"),
    ],
)
def test_a_shape_or_number_that_does_not_fit_is_named(name, args, text):
    given = [oplib.ones(arg) if isinstance(arg, tuple) else arg for arg in args]
    if name == "avg_pool2d":
        given[1] = 2
    with pytest.raises(ArgumentError, match=text):
        getattr(functional, name)(oplib.ones(IMAGE), *given)


def test_a_bias_of_another_size_is_refused():
    with pytest.raises(
        ArgumentError, match=r"expected bias to be 1-dimensional with 2 elements. Got .* bias f32\[3\]"
    ):
        functional.conv2d(oplib.ones(IMAGE), oplib.ones(2, 2, 2, 2), oplib.ones(3))


def test_columns_that_are_not_those_of_windows_are_refused():
    with pytest.raises(ArgumentError, match="fold: the columns do not fit the windows"):
        functional.fold(oplib.ones(1, 4, 5), (3, 3), 2)


def test_a_mode_that_does_not_fit_is_not_implemented_and_options_that_do_not_are_values():
    with pytest.raises(UnsupportedArgumentError, match="interpolate: the mode does not fit the input"):
        functional.interpolate(oplib.ones(IMAGE), 2, mode="trilinear")
    with pytest.raises(ArgumentValueError, match="antialias is restricted to bilinear and bicubic"):
        functional.interpolate(oplib.ones(IMAGE), 2, antialias=True)
    with pytest.raises(UnsupportedArgumentError, match=r"pad: unrecognised padding mode\. Got .* mode 'no'"):
        functional.pad(oplib.ones(IMAGE), (1, 1), mode="no")


def test_a_sequence_of_one_number_is_not_spread_over_the_places_as_a_number_is():
    image = oplib.ones(IMAGE)
    for given in ({"size": (3,)}, {"scale_factor": (2.0,)}, {"size": [3, 3, 3]}):
        with pytest.raises(
            ArgumentValueError, match=r"same number of spatial dimensions\. Got input f32\[1,2,3,3\]"
        ):
            functional.interpolate(image, **given)
    assert functional.interpolate(image, 4).shape == (1, 2, 4, 4)
    assert functional.interpolate(oplib.ones(1, 2, 3), (4,)).shape == (1, 2, 4)


def test_means_of_ints_are_ints_rounded_towards_zero():
    x = oplib.tensor([[1, -2, 2, -5]])
    means = functional.avg_pool1d(x, 2)
    assert (means.dtype, means.tolist()) == (x.dtype, [[0, -1]])
    assert functional.avg_pool2d(x[None], (1, 2), divisor_override=2).tolist() == [[[0, -1]]]


def test_an_empty_batch_gives_an_empty_result():
    x = oplib.ones(0, 2, 3, 3)
    assert functional.conv2d(x, oplib.ones(4, 2, 2, 2)).shape == (0, 4, 2, 2)
    assert functional.max_pool2d(x, 2).shape == (0, 2, 1, 1)


@pytest.mark.parametrize(("mode", "reached"), [("nearest", 4), ("area", 4), ("bilinear", 9), ("bicubic", 25)])
def test_an_interpolation_spreads_nan_only_to_its_window(mode, reached):
    image = oplib.zeros(1, 1, 4, 5)
    image[0, 0, 0, 0] = float("nan")
    assert functional.interpolate(image, scale_factor=2.0, mode=mode).isnan().sum().item() == reached
