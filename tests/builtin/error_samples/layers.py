"""Calls that torch refuses: bad inputs of convolution, pooling and interpolation."""

from __future__ import annotations

from collections.abc import Iterator

from .refusals import Refusal, real

IMAGES = {1: real(1, 2, 5), 2: real(1, 2, 5, 5), 3: real(1, 2, 3, 3, 3)}


def convolve(rank: int) -> Iterator[Refusal]:
    op, x = f"nn.functional.conv{rank}d", IMAGES[rank]
    sizes = (2,) * rank
    weight = real(3, 2, *sizes)
    yield Refusal(op, "expected input to have", x, real(3, 1, *sizes))
    yield Refusal(op, "(unbatched) or", real(5), weight)
    yield Refusal(op, "(unbatched) or", x, weight[0])
    yield Refusal(op, "expected bias to be", x, weight, real(4))
    yield Refusal(op, "expected all operands to have the same dtype", x, weight.astype("int64"))
    yield Refusal(op, "expected a value of type 'Tensor'", x, None)
    yield Refusal(op, "kernel size can", x, real(3, 2, *(9,) * rank))
    yield Refusal(op, "groups must be positive, and divide the first axis", x, weight, groups=2)
    yield Refusal(op, "'stride' must be greater than zero", x, weight, stride=0)
    yield Refusal(op, "'dilation' must be greater than zero", x, weight, dilation=0)
    yield Refusal(op, "'padding' must be non-negative", x, weight, padding=-1)
    yield Refusal(op, "expected padding", x, weight, padding="full")
    yield Refusal(op, "padding='same' is not supported for strided", x, weight, padding="same", stride=2)
    yield Refusal(op, "expected one number or", x, weight, stride=(1,) * (rank + 1))


def convolve_back(rank: int) -> Iterator[Refusal]:
    op, x = f"nn.functional.conv_transpose{rank}d", IMAGES[rank]
    sizes = (2,) * rank
    weight = real(2, 3, *sizes)
    yield Refusal(op, "expected input to have", x, real(3, 2, *sizes))
    yield Refusal(op, "expected bias to be", x, weight, real(2))
    yield Refusal(op, "output padding must be smaller than either stride or", x, weight, output_padding=1)
    yield Refusal(op, "'stride' must be greater than zero", x, weight, stride=0)
    yield Refusal(op, "groups must be positive, and divide the first axis", x, weight, groups=3)


def pool(rank: int) -> Iterator[Refusal]:
    x = IMAGES[rank]
    for kind in ("max", "avg"):
        op = f"nn.functional.{kind}_pool{rank}d"
        yield Refusal(op, "'kernel_size' must be greater than zero", x, 0)
        yield Refusal(op, "there is no window in the padded input", x, 9)
        yield Refusal(op, "'stride' must be greater than zero", x, 2, 0)
        yield Refusal(op, "pad should be at most half of effective kernel size", x, 2, 1, 2)
        yield Refusal(op, "'padding' must be non-negative", x, 2, 1, -1)
        yield Refusal(op, "expected one number or", x, (2,) * (rank + 1))
        yield Refusal(op, "expected a value of type", x, "a")
        yield Refusal(op, "not implemented for complex", x.astype("complex64"), 2)
    yield Refusal(f"nn.functional.max_pool{rank}d", "batch, channels, places", real(5), 2)
    yield Refusal(f"nn.functional.max_pool{rank}d", "'dilation' must be greater than zero", x, 2, dilation=0)
    if rank > 1:
        yield Refusal(f"nn.functional.avg_pool{rank}d", "divisor must not be zero", x, 2, divisor_override=0)


def pool_adaptively(rank: int) -> Iterator[Refusal]:
    x = IMAGES[rank]
    for kind in ("max", "avg"):
        op = f"nn.functional.adaptive_{kind}_pool{rank}d"
        yield Refusal(op, "batch, channels, places", real(5), 2)
        yield Refusal(op, "'output_size' must be non-negative", x, -1)
        yield Refusal(op, "expected one number or", x, (1,) * (rank + 1))
        yield Refusal(op, "not implemented for int", x.astype("int64"), 2)


def pool_at_random(rank: int) -> Iterator[Refusal]:
    op, x = f"nn.functional.fractional_max_pool{rank}d", IMAGES[rank]
    yield Refusal(op, "batch, channels, places", x[None], 2, 1)
    yield Refusal(op, "requires specifying either an output_size or an output_ratio", x, 2)
    yield Refusal(op, "the windows are too large, or too many", x, 2, 9)
    if rank == 2:  # torch ignores further numbers in three dims
        yield Refusal(op, "output_ratio must be one number, or one for each", x, 2, output_ratio=(0.5,) * 3)
    yield Refusal(op, "'_random_samples' must have the shape", x, 2, 1, _random_samples=real(1, 2, 1))
    yield Refusal(op, "expected one number or", x, (2,) * (rank + 1), 1)


LAYERS = [
    *(refusal for rank in (2, 3) for refusal in pool_at_random(rank)),
    *(
        refusal
        for rank in IMAGES
        for make in (convolve, convolve_back, pool, pool_adaptively)
        for refusal in make(rank)
    ),
    Refusal(
        "nn.functional.interpolate", "the mode does not fit the input", real(1, 2, 4), size=3, mode="bilinear"
    ),
    Refusal(
        "nn.functional.interpolate",
        "only one of size or scale_factor should be defined",
        real(1, 2, 4),
        size=3,
        scale_factor=2.0,
    ),
    Refusal("nn.functional.interpolate", "only one of size or scale_factor should be defined", real(1, 2, 4)),
    Refusal(
        "nn.functional.interpolate", "the mode does not fit the input", real(1, 2, 4), size=3, mode="cubic"
    ),
    Refusal("nn.functional.interpolate", "the mode does not fit the input", real(4), size=3),
    Refusal(
        "nn.functional.interpolate",
        "input and output must have the same number of spatial",
        real(1, 2, 4),
        size=(3, 3),
    ),
    Refusal(
        "nn.functional.interpolate", "input and output sizes should be greater than", real(1, 2, 4), size=0
    ),
    Refusal(
        "nn.functional.interpolate",
        "align_corners goes with linear and cubic modes only",
        real(1, 2, 4),
        size=3,
        align_corners=True,
    ),
    Refusal(
        "nn.functional.interpolate",
        "input and output must have the same number of spatial",
        real(1, 2, 4),
        scale_factor=(2.0, 2.0),
    ),
    Refusal(
        "nn.functional.unfold", "there is no window in the padded input; the output", real(1, 2, 4, 4), 9
    ),
    Refusal("nn.functional.fold", "the columns do not fit the windows", real(1, 8, 4), (4, 4), 2),
    Refusal("nn.functional.fold", "the columns do not fit the windows", real(1, 7, 9), (4, 4), 2),
    Refusal("nn.functional.unfold", "'stride' must be greater than zero", real(1, 2, 4, 4), 2, stride=0),
]
