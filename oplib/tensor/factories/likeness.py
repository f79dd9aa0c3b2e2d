# ruff: noqa: A002  `input` is torch's name
"""Tensors with the shape, dtype and placement of another Tensor: ``zeros_like`` and similar functions."""

from __future__ import annotations

from typing import Any, Unpack

from oplib.errors import ArgumentTypeError, describe
from oplib.tensor.devices.placement import placement_like
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.shapes.filling import fill, fill_like
from oplib.tensor.storage.memory_format import MemoryOptions, check_memory
from oplib.tensor.tensor import Tensor, box_leaf
from oplib.tracebacks import entry_point


@entry_point
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes a tensor of the shape, dtype and sharding of another, filled with one value.

    Args:
        input: the tensor or array to copy them from. Its history does not matter.
        fill_value: a number, or a tensor without dimensions.
        dtype: by default the dtype of ``input``.
        device: by default the device of ``input``.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``,
            ``memory_format``.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is not a tensor.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Gradient:
        None: the result does not depend on ``input``.

    Source:
        torch.full_like

    Example:
        >>> import oplib
        >>> full_like(oplib.zeros(2), 3)
        tensor([3., 3.])
    """
    if memory:
        check_memory("full_like", memory, input.ndim)
    return _fill_like(input, fill_value, dtype, device, requires_grad)


def _fill_like(input: Any, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    # Fake kernels of compiled ops pass arrays.
    array: Any = input._storage.array if hasattr(input, "_storage") else input
    if not hasattr(array, "dtype"):
        raise ArgumentTypeError(
            f"full_like: argument 'input' is a tensor, or an array. Got {describe(array)}. Make one of it: "
            "oplib.tensor(...), or call full."
        )
    if dtype is None and device is None:
        return box_leaf(fill_like(array, value), requires_grad)
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    return box_leaf(fill(array.shape, value, found, placement_like(array, device)), requires_grad)


_FILLED = """Makes a tensor {what}

    Args:
        input: the tensor or array to copy them from. Its history does not matter.
        dtype: by default the dtype of ``input``.
        device: by default the device of ``input``.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``,
            ``memory_format``.

    Returns:
        A new leaf.

    Raises:
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Gradient:
        None: the result does not depend on ``input``.

    Source:
        torch.{name}

    Example:
        >>> import oplib
        >>> {name}({given}
        {shown}
    """


def _make_filled(name: str, value: int, what: str, given: str, shown: str):
    @entry_point
    def filled(
        input: Tensor,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **memory: Unpack[MemoryOptions],
    ) -> Tensor:
        if memory:
            check_memory(name, memory, input.ndim)
        return _fill_like(input, value, dtype, device, requires_grad)

    filled.__name__ = filled.__qualname__ = name
    filled.__doc__ = _FILLED.format(name=name, what=what, given=given, shown=shown)
    return filled


zeros_like = _make_filled(
    "zeros_like",
    0,
    "of zeros with the shape, dtype and sharding of another.",
    "oplib.ones(2))",
    "tensor([0., 0.])",
)
ones_like = _make_filled(
    "ones_like",
    1,
    "of ones with the shape, dtype and sharding of another.",
    "oplib.zeros(2))",
    "tensor([1., 1.])",
)
empty_like = _make_filled(
    "empty_like",
    0,
    "like another, without defined values. In oplib they are zeros.",
    "oplib.zeros(2, 3)).shape",
    "(2, 3)",
)
