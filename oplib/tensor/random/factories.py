"""Factories of random Tensors."""

from __future__ import annotations

from typing import Any, Unpack

from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError
from oplib.tensor.devices.placement import find_placement
from oplib.tensor.dtypes.rules import (
    FLOATING,
    INTEGRAL,
    default_int_dtype,
    get_default_dtype,
    normalize_dtype,
)
from oplib.tensor.shapes.filling import read_size
from oplib.tensor.shapes.keywords import read_bounds
from oplib.tensor.storage.memory_format import MemoryOptions, check_memory
from oplib.tensor.tensor import Tensor, box_leaf
from oplib.tracebacks import entry_point

from .generator import Generator
from .sampling import draw_floats, draw_integers, draw_order, find_last_integer

_DRAWN = """Draws {what}

    Args:
        *sizes: the shape, as integers or as one sequence.
        size: the shape as one sequence, by keyword.
        generator: the source of random numbers, a Generator or a key; by default the global Generator.
        dtype: {dtype}
        device: a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A new leaf.

    Raises:
        ArgumentError: the size has a value that is not an integer or is negative, or is given twice.
        DtypeError: the dtype is not available.
        UnsupportedDtypeError: the dtype is {refused}.
        DeviceError: the device does not exist.
        TracingError: the Generator was made outside the current trace.

    Gradient:
        None: no input is differentiable.

    Source:
        torch.{name}; the numbers are JAX's.

    Example:
        >>> {name}({given}
        {shown}
    """


def _make_floats(name: str, **words: str):
    @entry_point
    def draw(
        *sizes: Any,
        size: Any = None,
        generator: Generator | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **memory: Unpack[MemoryOptions],
    ) -> Tensor:
        shape = read_size(name, sizes, size)
        if memory:
            check_memory(name, memory, len(shape))
        found = get_default_dtype() if dtype is None else normalize_dtype(dtype)
        drawn = draw_floats(name, shape, found, generator=generator, placement=find_placement(device))
        return box_leaf(drawn, requires_grad)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = _DRAWN.format(name=name, **words)
    return draw


rand = _make_floats(
    "rand",
    what="uniformly from [0, 1).",
    dtype="a floating dtype, or a complex one, whose parts are drawn separately; by default the default\n"
    "            dtype.",
    refused="not floating",
    given="2, 3).shape",
    shown="(2, 3)",
)
randn = _make_floats(
    "randn",
    what="from the normal distribution with mean 0 and variance 1, also for complex dtypes.",
    dtype="a floating or complex dtype; by default the default dtype.",
    refused="neither floating nor complex",
    given="3, requires_grad=True).requires_grad",
    shown="True",
)


@entry_point
def randint(
    *bounds_and_size: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Draws integers uniformly: ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        *bounds_and_size: the lowest number (by default 0), the exclusive upper bound, and the shape.
        low: the lowest number, by keyword.
        high: the exclusive upper bound, by keyword.
        size: the shape, by keyword.
        generator: the source of random numbers; by default the global Generator.
        dtype: by default the default integer dtype.
        device: as for :func:`rand`.
        requires_grad: whether the result collects gradients (floating dtypes only).
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A new leaf.

    Raises:
        ArgumentError: arguments are wrong, no number is between the bounds, or the dtype does not hold them.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.
        TracingError: the Generator was made outside the current trace.

    Gradient:
        None: no input is differentiable.

    Source:
        torch.randint; the numbers are JAX's.

    Example:
        >>> randint(3, 4, (2,))
        tensor([3, 3])
    """
    least, most, lengths = read_bounds("randint", bounds_and_size, low=low, high=high, size=size)
    found = default_int_dtype() if dtype is None else normalize_dtype(dtype)
    shape, placement = read_size("randint", (lengths,)), find_placement(device)
    check_memory("randint", memory, len(shape))
    drawn = draw_integers("randint", shape, (least, most), found, generator=generator, placement=placement)
    return box_leaf(drawn, requires_grad)


@entry_point
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Draws a random permutation of the integers from 0 to ``n - 1``.

    Args:
        n: the number of integers.
        generator: the source of random numbers; by default the global Generator.
        dtype: by default the default integer dtype.
        device: as for :func:`rand`.
        requires_grad: whether the result collects gradients (floating dtypes only).
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``n`` is not an integer.
        ArgumentError: ``n`` is negative, or the dtype does not hold the integers.
        UnsupportedDtypeError: the dtype is bool or complex.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.
        TracingError: the Generator was made outside the current trace.

    Gradient:
        None: no input is differentiable.

    Source:
        torch.randperm; the numbers are JAX's.

    Example:
        >>> sorted(randperm(3).tolist())
        [0, 1, 2]
    """
    check_memory("randperm", memory, 1)
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise ArgumentTypeError(f"randperm: argument 'n' is an integer. Got {n!r}. Write int(n).")
    (size,) = read_size("randperm", (n,))
    found = default_int_dtype() if dtype is None else normalize_dtype(dtype)
    if found not in FLOATING | INTEGRAL:
        raise UnsupportedDtypeError(
            f"randperm: not implemented for {found.name}. Got n={n}. Use an integer dtype."
        )
    if size - 1 > find_last_integer(found):
        raise ArgumentError(
            f"randperm: n cannot be greater than {find_last_integer(found) + 1} for {found.name}. Got n={n}. "
            "Use a wider dtype."
        )
    drawn = draw_order(size, found, generator=generator, placement=find_placement(device))
    return box_leaf(drawn, requires_grad)
