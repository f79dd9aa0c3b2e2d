# ruff: noqa: A002, PLR0917  the parameters are torch's
"""Pooling with torch's signatures: optional indices of the maxima, and optional sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.library.autocast.casts import call_in_float32

Function = Callable[..., Any]


_MAX_POOL = """Returns the maximum of each window.

Args:
    input: ``[N, C, ...]`` or ``[C, ...]``, real, with {rank} dims to pool.
    kernel_size: the size of the window, an int or one per dim, like the next three arguments.
    stride: the step between windows; by default ``kernel_size``.
    padding: the number of positions added at both ends, at most half of the window.
    dilation: the step between the items of a window.
    ceil_mode: whether the last window may extend beyond the input.
    return_indices: whether to return the positions of the maxima in the pooled dims too.

Returns:
    A tensor, or a tuple of it and the indices, ints.

Raises:
    ArgumentError: a shape or number does not fit.
    UnsupportedDtypeError: the input is complex or has bools.

Gradient:
    The gradient goes to the position of each maximum.

Example:
    >>> oplib.nn.functional.max_pool{rank}d(oplib.ones({ones}), 2).shape
    {pooled}
"""


def _make_max_pool(rank: int) -> Function:
    name = f"max_pool{rank}d"
    with_indices = f"{name}_with_indices"

    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        op, steps = getattr(ops, with_indices), () if stride is None else stride
        if return_indices:
            return op(input, kernel_size, steps, padding, dilation, ceil_mode)
        if rank == 3:  # torch's autocast casts the form without indices alone
            return call_in_float32(op, input, kernel_size, steps, padding, dilation, ceil_mode)[0]
        return op(input, kernel_size, steps, padding, dilation, ceil_mode)[0]

    ones = ", ".join(["1", *["2"] * rank])
    pooled = f"(1, {', '.join(['1'] * rank)})"
    max_pool.__name__, max_pool.__doc__ = name, _MAX_POOL.format(rank=rank, ones=ones, pooled=pooled)
    return max_pool


_ADAPTIVE_POOL = """Returns the {what} of a given number of windows, which cover the dims evenly.

Args:
    input: ``[N, C, ...]`` or ``[C, ...]``, real, with {rank} dims to pool.
    output_size: the number of windows, an int or one per dim; None keeps the size of a dim.{also}

Returns:
    {result}

Raises:
    ArgumentError: a shape or number does not fit.
    UnsupportedDtypeError: the op is not defined for the dtype.

Gradient:
    {gradient}

Example:
    >>> oplib.nn.functional.adaptive_{kind}_pool{rank}d(oplib.ones({ones}), 1).shape
    {pooled}
"""


def _describe_adaptive(kind: str, rank: int, what: str, also: str = "") -> str:
    return _ADAPTIVE_POOL.format(
        kind=kind,
        rank=rank,
        what=what,
        also=also,
        result="A tensor, or a tuple of it and the indices, ints." if also else "A tensor.",
        gradient="The gradient goes to the position of each maximum."
        if also
        else "The items of a window share it.",
        ones=", ".join(["1", *["2"] * rank]),
        pooled=f"(1, {', '.join(['1'] * rank)})",
    )


def _make_adaptive_max_pool(rank: int) -> Function:
    name = f"adaptive_max_pool{rank}d"
    with_indices = f"{name}_with_indices"

    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        found = getattr(ops, with_indices)(input, _fill_sizes(input, output_size))
        return found if return_indices else found[0]

    also = "\n    return_indices: whether to return the positions of the maxima in the pooled dims too."
    adaptive_max_pool.__name__ = name
    adaptive_max_pool.__doc__ = _describe_adaptive("max", rank, "largest items", also)
    return adaptive_max_pool


def _make_adaptive_avg_pool(rank: int) -> Function:
    name = f"adaptive_avg_pool{rank}d"

    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        return getattr(ops, name)(input, _fill_sizes(input, output_size))

    adaptive_avg_pool.__name__ = name
    adaptive_avg_pool.__doc__ = _describe_adaptive("avg", rank, "means")
    return adaptive_avg_pool


def _fill_sizes(input: Any, output_size: Any) -> Any:
    """Returns the sizes, with that of the input in place of None."""
    if not isinstance(output_size, (tuple, list)) or None not in output_size:
        return output_size
    own = input.shape[-len(output_size) :]
    return [have if size is None else size for have, size in zip(own, output_size, strict=True)]


COMPOSED = (
    *(Composed(_make_adaptive_avg_pool(rank), in_networks=True) for rank in (2, 3)),
    *(
        Composed(_make_adaptive_max_pool(rank), in_networks=True, deciding=("return_indices",))
        for rank in (1, 2, 3)
    ),
    *(Composed(_make_max_pool(rank), in_networks=True, deciding=("return_indices",)) for rank in (1, 2, 3)),
)
