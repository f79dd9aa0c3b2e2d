"""Grids: images sampled at given coordinates, and the coordinates of an affine map."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import NetworkRow
from oplib.builtin.shared_kernels.interpolation import weigh_cubic
from oplib.builtin.shared_kernels.promotion import check_dtypes, in_single, strong
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedArgumentError

# Coordinates ------------------------------------------------------------------------------------------------


def _scale(coordinate: Any, size: int, align_corners: bool) -> Any:
    """Maps [-1, 1] to positions along an axis; the ends are centers or edges of the outer items."""
    if align_corners:
        return (coordinate + 1) * (0.5 * (size - 1))
    return ((coordinate + 1) * size - 1) * 0.5


def _clip(coordinate: Any, size: int) -> Any:
    """Clips coordinates to the border; the gradient is 0 at the border and beyond."""
    high = size - 1
    return jnp.where(coordinate <= 0, 0, jnp.where(coordinate >= high, high, coordinate))


def _reflect(coordinate: Any, size: int, align_corners: bool) -> Any:
    """Reflects coordinates at the centers of the outer items, or at their edges, as often as needed."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if low == high:
        return jnp.zeros_like(coordinate)
    away = coordinate - low
    away = jnp.where(away < 0, -away, away)
    span = strong(high - low, coordinate)
    rest, flips = lax.rem(away, span), lax.floor(away / span)
    is_turned = lax.rem(flips, strong(2, flips)) == 1
    return jnp.where(is_turned, span - rest, rest) + low


def _bound(coordinate: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    if padding_mode == "zeros":
        return coordinate
    return _clip(
        _reflect(coordinate, size, align_corners) if padding_mode == "reflection" else coordinate, size
    )


# Sampling ---------------------------------------------------------------------------------------------------


def _fetch(image: Any, coordinates: Sequence[Any]) -> Any:
    """Returns the items at integer positions, and 0 outside of the image."""
    count, channels, *sizes = image.shape
    flat = jnp.zeros(coordinates[0].shape, jnp.int32)
    is_within = jnp.ones(coordinates[0].shape, bool)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        low, high = strong(0, coordinate), strong(size - 1, coordinate)
        is_within &= (coordinate >= low) & (coordinate <= high)
        whole = lax.convert_element_type(lax.clamp(low, coordinate, high), flat.dtype)
        flat = flat * size + whole
    rows = lax.reshape(image, (count, channels, image.size // max(count * channels, 1)))
    index = lax.reshape(flat, (count, flat.size // max(count, 1)))
    items = jax.vmap(lambda row, coordinate: jnp.take(row, coordinate, axis=1, mode="clip"))(rows, index)
    items = lax.reshape(items, (count, channels, *flat.shape[1:]))
    return jnp.where(lax.expand_dims(is_within, (1,)), items, 0)


def _sum_taps(image: Any, taps: Sequence[Sequence[tuple[Any, Any]]]) -> Any:
    """Sums items with weights, over every combination of one position per axis."""
    total = None
    for chosen in itertools.product(*taps):
        weight = chosen[0][1]
        for _, factor in chosen[1:]:
            weight = weight * factor
        part = _fetch(image, [coordinate for coordinate, _ in chosen]) * lax.expand_dims(weight, (1,))
        total = part if total is None else total + part
    return total


def _sample(image: Any, grid: Any, *, mode: str, padding_mode: str, align_corners: bool) -> Any:
    sizes = image.shape[2:]
    given = [lax.index_in_dim(grid, axis, grid.ndim - 1, keepdims=False) for axis in range(len(sizes))][::-1]
    coordinates = [
        _scale(coordinate, size, align_corners) for coordinate, size in zip(given, sizes, strict=True)
    ]
    if mode == "bicubic":
        taps = [
            _list_cubic(coordinate, size, padding_mode, align_corners)
            for coordinate, size in zip(coordinates, sizes, strict=True)
        ]
        return _sum_taps(image, taps)
    coordinates = [
        _bound(coordinate, size, padding_mode, align_corners)
        for coordinate, size in zip(coordinates, sizes, strict=True)
    ]
    if mode == "nearest":
        return _fetch(
            image, [lax.round(coordinate, lax.RoundingMethod.TO_NEAREST_EVEN) for coordinate in coordinates]
        )
    return _sum_taps(image, [_list_linear(coordinate) for coordinate in coordinates])


def _list_linear(coordinate: Any) -> list[tuple[Any, Any]]:
    low = lax.floor(coordinate)
    share = coordinate - low
    return [(low, 1 - share), (low + 1, share)]


def _list_cubic(coordinate: Any, size: int, padding_mode: str, align_corners: bool) -> list[tuple[Any, Any]]:
    low = lax.floor(coordinate)
    return [
        (_bound(low + offset, size, padding_mode, align_corners), weight)
        for offset, weight in weigh_cubic(coordinate - low).items()
    ]


def _check_grid(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in (
        "zeros",
        "border",
        "reflection",
    ):
        raise ArgumentValueError(
            "expected mode to be 'bilinear', 'nearest' or 'bicubic', and padding_mode 'zeros', 'border' or "
            "'reflection'",
            "Choose one of each.",
        )
    check_dtypes(input, grid)
    rank = input.ndim - 2
    fits = rank in (2, 3) and grid.ndim == input.ndim and grid.shape[-1] == rank
    if not fits or grid.shape[0] != input.shape[0] or 0 in input.shape[2:]:
        raise ArgumentError(
            "expected a 4D or 5D input with items, and a grid with as many dimensions, the same batch, and "
            "one coordinate per spatial axis in the last dimension",
            "Reshape one of them.",
        )
    if mode == "bicubic" and rank != 2:
        raise ArgumentError("bicubic interpolation only supports 4D input", "Use bilinear.")


def _grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    _check_grid(input, grid, mode, padding_mode)
    how: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return in_single(lambda x, g: _sample(x, g, **how))(input, grid)


# Affine maps ------------------------------------------------------------------------------------------------


def _check_theta(theta: Any, size: Sequence[int]) -> None:
    rank = len(size) - 2
    if theta.dtype.kind not in "fV":
        raise ArgumentValueError("expected theta to have floating point type", "Convert it.")
    if rank not in (2, 3):
        raise UnsupportedArgumentError("only 4D and 5D sizes are supported", "Give batch, channels, places.")
    if theta.shape[1:] != (rank, rank + 1):
        raise ArgumentValueError(
            f"expected a batch of affine matrices, {rank} by {rank + 1}", "Give one for each example."
        )
    if min(size) <= 0:
        raise ArgumentValueError("expected non-zero, positive output size", "Ask for some places.")
    if theta.shape[0] != size[0]:
        raise ArgumentError("expected one matrix for each example", "Expand theta.")


def _affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    _check_theta(theta, size)
    sizes = tuple(size[2:])

    def compute(theta: Any) -> Any:
        axes = [_spread(count, bool(align_corners), theta.dtype) for count in sizes]
        coordinates = jnp.meshgrid(*axes, indexing="ij")[::-1]  # x first
        base = jnp.stack([*coordinates, jnp.ones(sizes, theta.dtype)], -1)
        return jnp.einsum("...k,njk->n...j", base, theta)

    return in_single(compute)(theta)


def _spread(count: int, align_corners: bool, dtype: Any) -> Any:
    if count == 1:
        return jnp.zeros(1, dtype)
    ends = jnp.linspace(-1, 1, count, dtype=dtype)
    return ends if align_corners else ends * ((count - 1) / count)


_FUNCTIONAL = "torch.nn.functional."
ROWS = (
    NetworkRow(
        "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
        "bool? align_corners=None) -> Tensor",
        _grid_sample,
        "interpolated items at the coordinates of a grid, from -1 to 1",
        dtypes="hf",
        autocast="cpu float32, cuda widest",
    ),
    NetworkRow(
        "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
        _affine_grid,
        "coordinates of an image of a given size after affine maps",
        dtypes="hf",
        autocast="low",
    ),
)
