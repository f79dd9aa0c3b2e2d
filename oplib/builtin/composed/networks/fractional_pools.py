# ruff: noqa: A002  the parameters are torch's
"""Pooling over windows at random places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.kernels.windows import check_input_rank
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentValueError, describe
from oplib.tensor import Generator, rand

Function = Callable[..., Any]
_DOC = """Returns the maximum of each of a given number of windows, which begin at random places.

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


def _make_pool(rank: int, *, with_indices: bool) -> Function:
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
        check_input_rank(name, rank, input)
        sizes = _find_sizes(name, rank, input, output_size, output_ratio)
        if _random_samples is None:
            batch = input.shape[0] if input.ndim > rank + 1 else 1
            shape = batch, input.shape[-rank - 1], rank
            _random_samples = rand(shape, dtype=input.dtype, generator=generator)
        found = getattr(ops, f"sampled_max_pool{rank}d")(input, kernel_size, sizes, _random_samples)
        return found if return_indices or with_indices else found[0]

    pool.__name__ = f"{name}_with_indices" if with_indices else name
    pool.__doc__ = _DOC.format(
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


def _find_sizes(name: str, rank: int, input: Any, output_size: Any, output_ratio: Any) -> Any:
    if output_size is not None:
        return output_size
    if output_ratio is None:
        raise ArgumentValueError(
            f"{name}: it requires specifying either an output_size or an output_ratio. Got none for "
            f"{describe(input)}. Pass output_size."
        )
    ratios = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
    if len(ratios) != rank:
        raise ArgumentValueError(
            f"{name}: output_ratio must be one number, or one for each pooled dim. Got {list(ratios)} for "
            f"{describe(input)}. Give {rank}."
        )
    return [int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios, strict=True)]


COMPOSED = tuple(
    Composed(
        _make_pool(rank, with_indices=with_indices),
        in_networks=True,
        returns="(Tensor, Tensor)" if with_indices else "",
        deciding=() if with_indices else ("return_indices",),
    )
    for rank in (2, 3)
    for with_indices in (False, True)
)
