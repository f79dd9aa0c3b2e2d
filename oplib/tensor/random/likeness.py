# ruff: noqa: A002  `input` is torch's name
"""Tensors of random numbers that are like other tensors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentTypeError, describe
from oplib.tensor.devices.placement import Placement, placement_like
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.shapes.keywords import read_bounds
from oplib.tensor.tensor import Tensor

from .generator import Generator
from .sampling import draw_floats, draw_integers


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`oplib.rand`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor, or array, to be like; its history plays no part.
        generator: where the randomness comes from; by default the global Generator.
        dtype: floating or complex; by default that of ``input``.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither.
        UnsupportedDtypeError: the dtype is neither floating nor complex.
        DtypeError: it cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.rand_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> rand_like(oplib.zeros(2, 3)).shape
        (2, 3)
    """
    shape, found, placement = _read_model("rand_like", input, dtype, device)
    drawn = draw_floats("rand", shape, found, generator=generator, placement=placement)
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`oplib.randn`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor, or array, to be like; its history plays no part.
        generator: where the randomness comes from; by default the global Generator.
        dtype: floating or complex; by default that of ``input``.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither.
        UnsupportedDtypeError: the dtype is neither floating nor complex.
        DtypeError: it cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.randn_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> randn_like(oplib.zeros(2, 3)).shape
        (2, 3)
    """
    shape, found, placement = _read_model("randn_like", input, dtype, device)
    drawn = draw_floats("randn", shape, found, generator=generator, placement=placement)
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`oplib.randint`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor to be like.
        *bounds: ``high``, or ``low, high``.
        low: the lowest number, by keyword.
        high: the first number that is too high, by keyword.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default that of ``input``, which may be floating.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither a tensor nor an array.
        ArgumentError: wrong bounds, or no number lies between them, or the dtype does not hold them.
        DtypeError: the dtype cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.randint_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> randint_like(oplib.zeros(2), 3, 4)
        tensor([3., 3.])
    """
    least, most = read_bounds("randint_like", bounds, low=low, high=high)
    shape, found, placement = _read_model("randint_like", input, dtype, device)
    drawn = draw_integers(
        "randint_like", shape, (least, most), found, generator=generator, placement=placement
    )
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def _read_model(
    op: str, input: Any, dtype: Any, device: Any
) -> tuple[tuple[int, ...], np.dtype[Any], Placement]:
    """Shape, dtype and place of a tensor that is to be like another, which may be an array itself."""
    if not hasattr(input, "dtype"):
        raise ArgumentTypeError(
            f"{op}: argument 'input' is a Tensor or an array. Got {describe(input)}. "
            "Give the size to rand, randn or randint."
        )
    array = input._storage.array if isinstance(input, Tensor) else jnp.asarray(input)
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    return array.shape, found, placement_like(array, device)
