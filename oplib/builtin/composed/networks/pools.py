# ruff: noqa: A002, PLR0917  the parameters are torch's
"""Pooling as torch calls it: without the places of the largest items, and with sizes that may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops

Function = Callable[..., Any]


_MAX_POOL = """Takes the largest item of each window.

Args:
    input: ``[N, C, ...]`` or ``[C, ...]``, real, with {rank} dims to pool.
    kernel_size: of the window, an int or one for each dim, as all below.
    stride: from window to window; by default the size.
    padding: by how much the windows reach over both ends, at most half their size.
    dilation: from item to item in a window.
    ceil_mode: whether a window may begin inside and end outside.
    return_indices: whether to give also where the items stand, counted over the pooled dims.

Returns:
    A tensor, or a tuple of it and of ints.

Raises:
    ArgumentError: a shape or number does not fit.
    UnsupportedDtypeError: the input is complex, or holds bools.

Gradient:
    Put where the items were taken.

Source:
    torch.nn.functional.max_pool{rank}d

Example:
    >>> import oplib
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
        op = getattr(ops, with_indices)
        found = op(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
        return found if return_indices else found[0]

    ones = ", ".join(["1", *["2"] * rank])
    pooled = f"(1, {', '.join(['1'] * rank)})"
    max_pool.__name__, max_pool.__doc__ = name, _MAX_POOL.format(rank=rank, ones=ones, pooled=pooled)
    return max_pool


_ADAPTIVE_POOL = """Takes the {what} of so many windows, which cover the dims as evenly as they can.

Args:
    input: ``[N, C, ...]`` or ``[C, ...]``, real, with {rank} dims to pool.
    output_size: how many windows, an int or one for each dim; None keeps the size of a dim.{also}

Returns:
    {result}

Raises:
    ArgumentError: a shape or number does not fit.
    UnsupportedDtypeError: a dtype for which it is not defined.

Gradient:
    {gradient}

Source:
    torch.nn.functional.adaptive_{kind}_pool{rank}d

Example:
    >>> import oplib
    >>> oplib.nn.functional.adaptive_{kind}_pool{rank}d(oplib.ones({ones}), 1).shape
    {pooled}
"""


def _describe_adaptive(kind: str, rank: int, what: str, also: str = "") -> str:
    return _ADAPTIVE_POOL.format(
        kind=kind,
        rank=rank,
        what=what,
        also=also,
        result="A tensor, or a tuple of it and of ints." if also else "A tensor.",
        gradient="Put where the items were taken." if also else "Spread over the items of the window.",
        ones=", ".join(["1", *["2"] * rank]),
        pooled=f"(1, {', '.join(['1'] * rank)})",
    )


def _make_adaptive_max_pool(rank: int) -> Function:
    name = f"adaptive_max_pool{rank}d"
    with_indices = f"{name}_with_indices"

    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        found = getattr(ops, with_indices)(input, _fill_sizes(input, output_size))
        return found if return_indices else found[0]

    also = "\n    return_indices: whether to give also where the items stand, counted over the pooled dims."
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
    """The sizes, with that of the input for None."""
    if isinstance(output_size, int) or None not in output_size:
        return output_size
    own = input.shape[-len(output_size) :]
    return [have if size is None else size for have, size in zip(own, output_size, strict=True)]


COMPOSED = (
    *(Composed(_make_adaptive_avg_pool(rank)) for rank in (2, 3)),
    *(
        Composed(_make_adaptive_max_pool(rank), in_networks=True, deciding=("return_indices",))
        for rank in (1, 2, 3)
    ),
    *(Composed(_make_max_pool(rank), in_networks=True, deciding=("return_indices",)) for rank in (1, 2, 3)),
)
