"""Convolution and transposed convolution in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import add, itemgetter, mul
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import NetworkRow, Row
from oplib.builtin.shared_kernels.promotion import broadcast_to, check_dtypes, in_single, strong
from oplib.builtin.shared_kernels.windows import check_numbers, repeat_for_axes
from oplib.errors import ArgumentError
from oplib.tensor.devices.layout import find_explicit_mesh
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.shapes.symbolic import has_symbols

_LETTERS = "DHW"
_MOST_SHIFTS = 49  # of a kernel of 7 x 7: each takes time to compile
_FIRST_AND_REST = itemgetter(0), itemgetter(slice(1, None))
_TOO_MANY = 2**38  # items; results on many devices have fewer


def _layout(rank: int) -> tuple[str, str, str]:
    """Returns the layout with batch and channels first, as in torch."""
    letters = _LETTERS[-rank:]
    return f"NC{letters}", f"OI{letters}", f"NC{letters}"


def _check(
    rank: int, input: Any, weight: Any, bias: Any, groups: int, *, is_transposed: bool = False
) -> None:
    """Checks the common arguments of a convolution and its transpose: ranks, channels, groups and bias."""
    check_dtypes(input, weight, bias)
    if input.ndim not in (rank + 1, rank + 2) or weight.ndim != rank + 2:
        raise ArgumentError(
            f"expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input, and a weight of {rank + 2}D",
            "Reshape them.",
        )
    if groups < 1 or weight.shape[0] < groups or weight.shape[0] % groups:
        raise ArgumentError(
            "groups must be positive, and divide the first axis of the weight",
            f"Choose a divisor of {weight.shape[0]}.",
        )
    channels = weight.shape[0] if is_transposed else weight.shape[1] * groups
    if input.shape[-rank - 1] != channels:
        raise ArgumentError(
            f"expected input to have {channels} channels",
            f"Give a weight for {input.shape[-rank - 1]} of them, or other groups.",
        )
    count = weight.shape[1] * groups if is_transposed else weight.shape[0]
    if bias is not None and bias.shape != (count,):
        raise ArgumentError(
            f"expected bias to be 1-dimensional with {count} elements",
            "Give one number for each channel of the result.",
        )


def _check_sizes(input: Any, weight: Any, *, pads: Any, holes: Sequence[int]) -> None:
    """Raises if the kernel is larger than the padded input."""
    rank = len(holes)
    sizes, kernel = input.shape[-rank:], weight.shape[2:]
    check_numbers(kernel_size=kernel)
    padded = [size + low + high for size, (low, high) in zip(sizes, pads, strict=True)]
    reach = [hole * (size - 1) + 1 for size, hole in zip(kernel, holes, strict=True)]
    if any(far > size for far, size in zip(reach, padded, strict=True)) or 0 in sizes:
        raise ArgumentError(
            "kernel size can't be greater than actual input size: the padded input has "
            f"{padded} places, and the kernel reaches over {reach}",
            "Pad more, or make the kernel smaller.",
        )


def _add_bias(result: Any, bias: Any, rank: int) -> Any:
    if bias is None:
        return result
    return result + broadcast_to(lax.reshape(bias, (1, bias.size, *(1,) * rank)), result.shape)


def _same_padding(sizes: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the padding that preserves the size; an odd extra position is at the end, as in torch."""
    totals = [step * (size - 1) for size, step in zip(sizes, dilation, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def _name_padding(
    name: str, sizes: Sequence[int], *, steps: Sequence[int], holes: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns the padding for the names "same" and "valid"."""
    if name == "valid":
        return [(0, 0)] * len(sizes)
    if name != "same":
        raise ArgumentError("expected padding 'same' or 'valid'", "Or give numbers.")
    if set(steps) != {1}:
        raise ArgumentError(
            "padding='same' is not supported for strided convolutions", "Give numbers for padding."
        )
    return _same_padding(sizes, holes)


def _read_steps(rank: int, **numbers: Sequence[int]) -> list[Any]:
    return [repeat_for_axes(name, given, rank) for name, given in numbers.items()]


def _convolve(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] | str = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Any:
    _check(rank, input, weight, bias, groups)
    steps, holes = _read_steps(rank, stride=stride, dilation=dilation)
    check_numbers(stride=steps, dilation=holes)
    if isinstance(padding, str):
        pads = _name_padding(padding, weight.shape[2:], steps=steps, holes=holes)
    else:
        check_numbers(least=0, padding=padding)
        pads = [(width, width) for width in repeat_for_axes("padding", padding, rank)]
    _check_sizes(input, weight, pads=pads, holes=holes)
    options = {"window_strides": steps, "padding": pads, "rhs_dilation": holes}
    return _convolve_batch(input, weight, bias, groups, **options)


def _sum_shifted(array: Any, weight: Any, *, window_strides: Any, padding: Any, rhs_dilation: Any) -> Any:
    """Convolves each channel by itself; XLA's own code for it takes 50 times as long on CPUs."""
    places = [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in padding)]
    wide, total = lax.pad(array, strong(0, array), places), None
    reach = [hole * (size - 1) for hole, size in zip(rhs_dilation, weight.shape[2:], strict=True)]
    for place in np.ndindex(*weight.shape[2:]):
        starts = [hole * at for hole, at in zip(rhs_dilation, place, strict=True)]
        ends = [size - far + start for size, far, start in zip(wide.shape[2:], reach, starts, strict=True)]
        window = lax.slice(wide, (0, 0, *starts), (*wide.shape[:2], *ends), (1, 1, *window_strides))
        factors = lax.slice(weight, (0, 0, *place), (*weight.shape[:2], *(at + 1 for at in place)))
        product = window * jnp.swapaxes(factors, 0, 1)
        total = product if total is None else total + product
    return total


def _sum_planes(groups: int, array: Any, weight: Any, **options: Any) -> Any:
    """Convolves planes, and adds them up; XLA's own code for volumes takes 8 times as long on CPUs."""
    firsts, others = ({name: pick(values) for name, values in options.items()} for pick in _FIRST_AND_REST)
    spread, hole = firsts.get("lhs_dilation", 1) - 1, firsts["rhs_dilation"]
    places = [(0, 0, 0), (0, 0, 0), (*firsts["padding"], spread), (0, 0, 0), (0, 0, 0)]
    wide, total = lax.pad(array, strong(0, array), places), None
    convolve = partial(
        lax.conv_general_dilated, dimension_numbers=_layout(2), feature_group_count=groups, **others
    )
    last = wide.shape[2] - hole * (weight.shape[2] - 1)
    for place in range(weight.shape[2]):
        start = hole * place
        planes = lax.slice_in_dim(wide, start, start + last, firsts["window_strides"], 2)
        product = jax.vmap(convolve, (2, None), 2)(planes, weight[:, :, place])
        total = product if total is None else total + product
    return total


def _multiply_tiles(groups: int, array: Any, weight: Any) -> Any:
    """Convolves transposed by windows that do not overlap: each item becomes a tile of the result."""
    rank, count = weight.ndim - 2, array.shape[0]
    parts = jnp.reshape(array, (count, groups, -1, *array.shape[2:]))
    factors = jnp.reshape(lax.rev(weight, tuple(range(2, rank + 2))), (groups, -1, *weight.shape[1:]))
    places, within = "xyz"[:rank], "uvw"[:rank]
    result = "".join(map(add, places, within))
    tiles = jnp.einsum(f"ngi{places},goi{within}->ngo{result}", parts, factors)
    return jnp.reshape(tiles, (count, len(weight), *map(mul, array.shape[2:], weight.shape[2:])))


def _find_form(weight: Any, groups: int, **options: Any) -> Any:
    """Returns how CPUs convolve where XLA's own code is slow; None elsewhere."""
    kernel, spread = weight.shape[2:], options.get("lhs_dilation")
    if math.prod(kernel) > _MOST_SHIFTS:
        return None
    if spread is None and weight.shape[:2] == (groups, 1) != (1, 1):
        return partial(_sum_shifted, **options)
    tiled = {"padding": [(size - 1, size - 1) for size in kernel], "rhs_dilation": (1,) * len(kernel)}
    if spread == kernel and all(list(options[name]) == list(tiled[name]) for name in tiled):
        return partial(_multiply_tiles, groups)
    return partial(_sum_planes, groups, **options) if len(kernel) == 3 else None


def _convolve_batch(input: Any, weight: Any, bias: Any, groups: int, **options: Any) -> Any:
    """Convolves with options of JAX, for an input with or without a batch, and adds a bias."""
    rank = weight.ndim - 2
    array = input if input.ndim == rank + 2 else lax.expand_dims(input, (0,))
    layout = _layout(rank)
    op = f"conv_transpose{rank}d" if "lhs_dilation" in options else f"conv{rank}d"
    _require_memory(op, array, weight, **options)
    convolve = partial(
        lax.conv_general_dilated, dimension_numbers=layout, feature_group_count=groups, **options
    )
    on_cpu = _find_form(weight, groups, **options) if find_explicit_mesh((array, weight)) is None else None
    if on_cpu is None:
        result = convolve(array, weight)
    else:
        result = lax.platform_dependent(array, weight, cpu=in_single(on_cpu), default=convolve)
    result = _add_bias(result, bias, rank)
    return result if input.ndim == rank + 2 else lax.squeeze(result, (0,))


def _require_memory(
    op: str, array: Any, weight: Any, *, window_strides: Any, padding: Any, rhs_dilation: Any, **options: Any
) -> None:
    """Raises if no machine holds the result, also in a trace: XLA computes the result of constants there."""
    holes = zip(array.shape[2:], options.get("lhs_dilation", (1,) * len(padding)), padding, strict=True)
    padded = [(size - 1) * step + 1 + sum(pads) for size, step, pads in holes]
    reach = [hole * (size - 1) for size, hole in zip(weight.shape[2:], rhs_dilation, strict=True)]
    sizes = zip(padded, reach, window_strides, strict=True)
    shape = array.shape[0], weight.shape[0], *[(size - far - 1) // step + 1 for size, far, step in sizes]
    if not has_symbols(shape) and math.prod(shape) >= _TOO_MANY:
        require_memory(op, shape, array.dtype, listed=True)


def _transpose(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Any:
    _check(rank, input, weight, bias, groups, is_transposed=True)
    steps, holes = _read_steps(rank, stride=stride, dilation=dilation)
    pads, extra = _read_steps(rank, padding=padding, output_padding=output_padding)
    _check_transposed(input, weight, steps=steps, holes=holes, pads=pads, extra=extra)
    reach = [hole * (size - 1) for size, hole in zip(weight.shape[2:], holes, strict=True)]
    around = [(far - pad, far - pad + more) for far, pad, more in zip(reach, pads, extra, strict=True)]
    options = {"window_strides": (1,) * rank, "padding": around, "rhs_dilation": holes}
    return _convolve_batch(input, _flip(weight, groups, rank), bias, groups, lhs_dilation=steps, **options)


def _check_transposed(input: Any, weight: Any, *, steps: Any, holes: Any, pads: Any, extra: Any) -> None:
    """Raises if a number is too small, or the result would be empty."""
    sizes, kernel = input.shape[-len(steps) :], weight.shape[2:]
    check_numbers(stride=steps, dilation=holes, kernel_size=kernel)
    check_numbers(least=0, padding=pads, output_padding=extra)
    if any(more >= max(step, hole) for more, step, hole in zip(extra, steps, holes, strict=True)):
        raise ArgumentError(
            "output padding must be smaller than either stride or dilation", "Make it smaller."
        )
    reach = [hole * (size - 1) + 1 for size, hole in zip(kernel, holes, strict=True)]
    counts = [
        (size - 1) * step - 2 * pad + far + more
        for size, step, pad, far, more in zip(sizes, steps, pads, reach, extra, strict=True)
    ]
    if min(counts) < 1 or 0 in sizes:
        raise ArgumentError(f"the output size is too small, {counts} positions", "Pad less.")


def _flip(weight: Any, groups: int, rank: int) -> Any:
    """Returns the weight of the equivalent convolution: mirrored, with channels exchanged within groups."""
    mirrored = lax.rev(weight, tuple(range(2, rank + 2)))
    into, out = weight.shape[:2]
    grouped = lax.reshape(mirrored, (groups, into // groups, out, *weight.shape[2:]))
    return lax.reshape(jnp.swapaxes(grouped, 1, 2), (groups * out, into // groups, *weight.shape[2:]))


def _rows(rank: int) -> tuple[Row, Row, Row]:
    many = f"int[{rank}]"
    head = "Tensor input, Tensor weight, Tensor? bias=None"
    doc = f"convolution over the last {rank} axes" if rank > 1 else "convolution over the last axis"
    source = f"torch.nn.functional.conv{rank}d"
    return (
        Row(
            f"conv{rank}d.padding({head}, {many} stride=1, str padding='valid', {many} dilation=1, int "
            "groups=1) -> Tensor",
            partial(_convolve, rank),
            f"{doc}, with a named padding",
            source=source,
            dtypes="ihfc",
            autocast="low",
        ),
        Row(
            f"conv{rank}d({head}, {many} stride=1, {many} padding=0, {many} dilation=1, int groups=1) -> "
            "Tensor",
            partial(_convolve, rank),
            doc,
            source=source,
            dtypes="ihfc",
            autocast="low",
        ),
        NetworkRow(
            f"conv_transpose{rank}d({head}, {many} stride=1, {many} padding=0, {many} output_padding=0, "
            f"int groups=1, {many} dilation=1) -> Tensor",
            partial(_transpose, rank),
            f"transpose of the {doc}",
            dtypes="ihfc",
            autocast="low",
        ),
    )


ROWS = (*_rows(1), *_rows(2), *_rows(3))
