"""Unfolding: windows of images as columns, and images as sums of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.windows import Windows, check_input_rank, repeat_for_axes
from oplib.errors import ArgumentError


def _unfold(
    input: Any,
    kernel_size: Sequence[int],
    dilation: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    stride: Sequence[int] = (1,),
) -> Any:
    check_input_rank(2, input)
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    windows = _find_windows(input.shape[-2:], kernel_size, **options)
    array = input if input.ndim == 4 else lax.expand_dims(input, (0,))
    items = windows.gather(array, lax.full((), 0, input.dtype))  # [kernel, N, C, rows, columns]
    kept = lax.transpose(items, (1, 2, 0, 3, 4))
    batch, channels, size = kept.shape[:3]
    columns = lax.reshape(kept, (batch, channels * size, math.prod(windows.counts)))
    return columns if input.ndim == 4 else lax.squeeze(columns, (0,))


def _fold(
    input: Any,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    stride: Sequence[int] = (1,),
) -> Any:
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ArgumentError(
            "expected 2D or 3D (batch mode) input, with items in all axes except the batch",
            "Give columns: batch, items of a window, windows.",
        )
    sizes = repeat_for_axes("output_size", output_size, 2)
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    windows = _find_windows(sizes, kernel_size, **options)
    count = math.prod(windows.kernel)
    if input.shape[-2] % count or input.shape[-1] != math.prod(windows.counts):
        raise ArgumentError(
            f"the columns do not fit the windows: for {windows.counts} windows the last axis but one is "
            f"divisible by {count}, and the last is {math.prod(windows.counts)}",
            "Change output_size, or the columns.",
        )
    array = input if input.ndim == 3 else lax.expand_dims(input, (0,))
    batch, channels = array.shape[0], array.shape[1] // count
    items = lax.reshape(array, (batch, channels, count, *windows.counts))
    image = windows.scatter(lax.transpose(items, (2, 0, 1, 3, 4)), (batch, channels, *sizes))
    return image if input.ndim == 3 else lax.squeeze(image, (0,))


def _find_windows(sizes: Sequence[int], kernel: Any, **options: Any) -> Windows:
    return Windows(sizes, kernel=kernel, **options, limits_padding=False)


_HOW = "int[2] dilation=1, int[2] padding=0, int[2] stride=1"
ROWS = (
    Row(
        f"im2col(Tensor input, int[2] kernel_size, {_HOW}) -> Tensor",
        _unfold,
        "windows of images as columns",
        source="torch.nn.functional.unfold",
        dtypes="hfc",
        is_internal=True,
        network_name="unfold",
    ),
    Row(
        f"col2im(Tensor input, int[2] output_size, int[2] kernel_size, {_HOW}) -> Tensor",
        _fold,
        "images as sums of windows that are given as columns",
        source="torch.nn.functional.fold",
        dtypes="hfc",
        is_internal=True,
        network_name="fold",
    ),
)
