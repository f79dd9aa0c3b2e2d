# ruff: noqa: A002  `input` is torch's name
"""Random Tensors with the shape, dtype and placement of other Tensors."""

from __future__ import annotations

from typing import Any, Unpack

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentTypeError, describe
from oplib.tensor.devices.placement import Placement, placement_like
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.shapes.keywords import read_bounds
from oplib.tensor.storage.memory_format import MemoryOptions, check_memory
from oplib.tensor.tensor import Tensor
from oplib.tracebacks import entry_point

from .generator import Generator
from .sampling import draw_floats, draw_integers

_DRAWN = """Draws as :func:`oplib.{draw}` does, {by_default}.

    Args:
        input: the tensor or array to copy them from. Its history does not matter.
        generator: the source of random numbers; by default the global Generator.
        dtype: a floating or complex dtype; by default the dtype of ``input``.
        device: by default the device of ``input``.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``,
            ``memory_format``.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither a tensor nor an array.
        UnsupportedDtypeError: the dtype is neither floating nor complex.
        DtypeError: the dtype is not available.
        TracingError: the Generator was made outside the current trace.

    Gradient:
        None: the result does not depend on ``input``.

    Source:
        torch.{draw}_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> {draw}_like(oplib.zeros(2, 3)).shape
        (2, 3)
    """


def _make_floats_like(draw: str):
    name = f"{draw}_like"

    @entry_point
    def drawn_like(
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **memory: Unpack[MemoryOptions],
    ) -> Tensor:
        shape, found, placement = _read_model(name, input, dtype, device)
        check_memory(name, memory, len(shape))
        drawn = draw_floats(draw, shape, found, generator=generator, placement=placement)
        return Tensor.from_array(drawn, requires_grad=requires_grad)

    drawn_like.__name__ = drawn_like.__qualname__ = name
    drawn_like.__doc__ = _DRAWN.format(
        draw=draw, by_default="by default with the shape, dtype and placement of another tensor"
    )
    return drawn_like


rand_like = _make_floats_like("rand")
randn_like = _make_floats_like("randn")


@entry_point
def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Draws as :func:`oplib.randint` does, by default with the shape, dtype and placement of a tensor.

    Args:
        input: the tensor or array to copy them from.
        *bounds: ``high``, or ``low, high``.
        low: the lowest number, by keyword.
        high: the exclusive upper bound, by keyword.
        generator: the source of random numbers; by default the global Generator.
        dtype: by default the dtype of ``input``, which may be floating.
        device: by default the device of ``input``.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``,
            ``memory_format``.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither a tensor nor an array.
        ArgumentError: bounds are wrong, no number is between them, or the dtype does not hold them.
        DtypeError: the dtype is not available.
        TracingError: the Generator was made outside the current trace.

    Gradient:
        None: the result does not depend on ``input``.

    Source:
        torch.randint_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> randint_like(oplib.zeros(2), 3, 4)
        tensor([3., 3.])
    """
    least, most = read_bounds("randint_like", bounds, low=low, high=high)
    shape, found, placement = _read_model("randint_like", input, dtype, device)
    check_memory("randint_like", memory, len(shape))
    drawn = draw_integers(
        "randint_like", shape, (least, most), found, generator=generator, placement=placement
    )
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def _read_model(
    op: str, input: Any, dtype: Any, device: Any
) -> tuple[tuple[int, ...], np.dtype[Any], Placement]:
    """Returns the shape, dtype and placement of a tensor or array, or those given instead."""
    if not hasattr(input, "dtype"):
        raise ArgumentTypeError(
            f"{op}: argument 'input' is a Tensor or an array. Got {describe(input)}. "
            "Give the size to rand, randn or randint."
        )
    array = input._storage.array if isinstance(input, Tensor) else jnp.asarray(input)
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    return array.shape, found, placement_like(array, device)
