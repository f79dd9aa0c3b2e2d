"""Pooling by maxima, means and norms, and its inverse, with the signatures of ``torch.nn.functional``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.shared_kernels.windows import check_input_rank
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_known
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.library.autocast.casts import call_in_float32
from oplib.tensor import Generator, rand

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
        results = getattr(ops, with_indices)(input, _fill_sizes(input, output_size))
        return results if return_indices else results[0]

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


def _make_max_unpool(rank: int) -> Function:
    name = f"max_unpool{rank}d"

    def max_unpool(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        """Writes items at their positions before max pooling, and 0 elsewhere.

        Args:
            input: ``[N, C, ...]`` or ``[C, ...]``.
            indices: the positions of the items in their channel.
            kernel_size: the size of the windows of the pooling, like the next two arguments.
            stride: the step between windows; by default ``kernel_size``.
            padding: the number of positions added on both sides.
            output_size: the size before pooling; by default the smallest possible size.

        Returns:
            A tensor of the size before pooling.

        Raises:
            ArgumentValueError: no pooling produces the input from that size.
            ArgumentError: the shapes do not fit, or an index is out of range.

        Gradient:
            Each item gets the gradient at its position.

        Example:
            >>> oplib.nn.functional.max_unpool1d(oplib.tensor([[[5.0]]]), oplib.tensor([[[1]]]), 2)
            tensor([[[0., 5.]]])
        """
        sizes = _find_unpooled(input.shape[-rank:], kernel_size, stride, padding, output_size)
        _check_unpooled(indices, sizes)
        return getattr(ops, name)(input, indices, sizes)

    max_unpool.__name__ = name
    return max_unpool


def _find_unpooled(
    shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> list[int]:
    """Returns the sizes of the pooled axes before pooling: those of ``output_size``, or the smallest ones.

    Raises:
        ArgumentValueError: a size of ``output_size`` differs by a stride or more from the smallest one.
    """
    rank = len(shape)
    widths, paddings = (_spread(numbers, rank) for numbers in (kernel_size, padding))
    strides = widths if stride is None else _spread(stride, rank)
    sizes = [
        (length - 1) * distance + width - 2 * margin
        for length, distance, width, margin in zip(shape, strides, widths, paddings, strict=True)
    ]
    return sizes if output_size is None else _read_sizes(list(output_size), sizes, strides)


def _check_unpooled(indices: Any, sizes: Sequence[int]) -> None:
    values, count = read_known(indices), math.prod(sizes)
    if values is not None and values.size and not 0 <= values.min() <= values.max() < count:
        raise ArgumentError(
            f"found an invalid max index; {values.max()} is out of bounds for sizes {list(sizes)}",
            "Give output_size: the size before pooling.",
        )


def _spread(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _read_sizes(sizes: list[int], least: Sequence[int], step: Sequence[int]) -> list[int]:
    rank = len(least)
    wanted = sizes[2:] if len(sizes) == rank + 2 else sizes
    if len(wanted) != rank or any(
        abs(length - size) >= move for length, size, move in zip(wanted, least, step, strict=True)
    ):
        raise ArgumentValueError(
            f"invalid output_size {sizes}: each size must be nearer than a stride to {list(least)}",
            "Give the size before pooling.",
        )
    return wanted


_FRACTIONAL_POOL = """Returns the maximum of each of a given number of windows, which begin at random places.

Args:
    input: ``[N, C, ...]`` or ``[C, ...]``, floating, with {rank} dims to pool.
    kernel_size: the size of the window, an int or one per dim.
    output_size: the number of windows along each dim, an int or one per dim.
    output_ratio: instead of ``output_size``, its share of the size of the input, for each dim.
    return_indices: {indices}
    _random_samples: ``[N, C, {rank}]``, the draws from 0 to 1 that move the windows; drawn if None.
    generator: the source of random numbers; by default the global Generator.

Returns:
    {result}

Raises:
    ArgumentError: neither size nor ratio is given, or a shape or number does not fit.
    UnsupportedDtypeError: the input is not floating.

Gradient:
    The gradient goes to the position of each maximum.

Source:
    torch.nn.functional.{name}; Graham, Fractional max-pooling, 2014.

Example:
    >>> oplib.nn.functional.{name}(oplib.ones({ones}), 2, output_size=2){first}.shape
    {pooled}
"""


def _make_fractional_pool(rank: int, *, with_indices: bool) -> Function:
    name = f"fractional_max_pool{rank}d"

    def pool(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
        *,
        generator: Generator | None = None,
    ) -> Any:
        check_input_rank(rank, input)
        sizes = _find_fractional_sizes(rank, input, output_size, output_ratio)
        if _random_samples is None:
            batch = input.shape[0] if input.ndim > rank + 1 else 1
            shape = batch, input.shape[-rank - 1], rank
            _random_samples = rand(shape, dtype=input.dtype, generator=generator)
        results = getattr(ops, f"sampled_max_pool{rank}d")(input, kernel_size, sizes, _random_samples)
        return results if return_indices or with_indices else results[0]

    pool.__name__ = f"{name}_with_indices" if with_indices else name
    pool.__doc__ = _FRACTIONAL_POOL.format(
        rank=rank,
        name=pool.__name__,
        indices="accepted for parity; it has no effect."
        if with_indices
        else "whether to return the positions of the maxima in the pooled dims too.",
        result="A tuple of the maxima and their positions in the pooled dims, ints."
        if with_indices
        else "A tensor, or a tuple of it and the indices, ints.",
        ones=", ".join(["1", *["5"] * rank]),
        first="[0]" if with_indices else "",
        pooled=f"(1, {', '.join(['2'] * rank)})",
    )
    return pool


def _find_fractional_sizes(rank: int, input: Any, output_size: Any, output_ratio: Any) -> Any:
    if output_size is not None:
        return output_size
    if output_ratio is None:
        raise ArgumentValueError(
            "it requires specifying either an output_size or an output_ratio", "Pass output_size."
        )
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
    if len(ratios) != rank:
        raise ArgumentValueError(
            "output_ratio must be one number, or one for each pooled dim", f"Give {rank}."
        )
    return [int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios, strict=True)]


COMPOSED = (
    *tuple(
        Composed(
            _make_fractional_pool(rank, with_indices=with_indices),
            in_networks=True,
            returns="(Tensor, Tensor)" if with_indices else "",
            deciding=() if with_indices else ("return_indices",),
        )
        for rank in (2, 3)
        for with_indices in (False, True)
    ),
    *(
        *(Composed(_make_adaptive_avg_pool(rank), in_networks=True) for rank in (2, 3)),
        *(
            Composed(_make_adaptive_max_pool(rank), in_networks=True, deciding=("return_indices",))
            for rank in (1, 2, 3)
        ),
        *(
            Composed(_make_max_pool(rank), in_networks=True, deciding=("return_indices",))
            for rank in (1, 2, 3)
        ),
        *(Composed(_make_max_unpool(rank), in_networks=True) for rank in (1, 2, 3)),
    ),
)
