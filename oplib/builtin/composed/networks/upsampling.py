"""The older names of ``interpolate``, and an activation with random slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.recording.in_place import check_may_write, update_in_place
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError
from oplib.protocols import AnyFunction
from oplib.tensor import Generator

_DOC = """Interpolates items to another size; {what}.

Args:
    input: ``[N, C, ...]``.
    size: the size of each dim after the first two, an int or one per dim.
    scale_factor: the factors of the sizes, instead of ``size``.{more}

Returns:
    A tensor of the dtype of the input.

Raises:
    ArgumentError: the shapes do not fit, or both or none of size and factor are given.

Gradient:
    The gradient of ``interpolate``.

Example:
    >>> oplib.nn.functional.{name}(oplib.tensor([[[[1.0, 2.0]]]]), scale_factor=1).tolist()
    [[[[1.0, 2.0]]]]
"""


def _make_upsample(name: str, mode: str, what: str, *, align_corners: bool | None) -> AnyFunction:
    def upsample(input: Any, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Any:
        return ops.interpolate(input, size, scale_factor, mode, align_corners)

    upsample.__name__, upsample.__doc__ = name, _DOC.format(name=name, what=what, more="")
    return upsample


def upsample(  # noqa: D103  described below
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


upsample.__doc__ = _DOC.format(
    name="upsample",
    what="the older name of ``interpolate``",
    more="\n    mode: as for ``interpolate``.\n    align_corners: whether the outer items stay at the ends.",
)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Any:
    """Multiplies negative items by random slopes in training, and by their mean otherwise.

    Args:
        input: a floating tensor of any shape.
        upper: the largest slope.
        training: whether to draw a slope for each negative item.
        inplace: whether the result is written into the tensor.

    Returns:
        A tensor like the input, or the input itself.

    Raises:
        ArgumentError: the smallest slope is above the largest.

    Gradient:
        1 for positive items, the slopes for others.

    Example:
        >>> oplib.nn.functional.rrelu(oplib.tensor([-4.0, 3.0]), 0.25, 0.75)
        tensor([-2.,  3.])
    """
    if lower > upper:
        raise ArgumentError("lower bound should be less than or equal to the upper bound", "Exchange them.")

    def run(x: Any) -> Any:
        if training:
            return ops.rrelu_with_slopes(x, lower, upper, generator=generator)
        return ops.leaky_relu(x, (lower + upper) / 2)

    if not inplace:
        return run(input)
    require_tensor_to_write(input, "rrelu_")
    check_may_write(input, "rrelu_")
    return update_in_place(input, run, "rrelu_")


COMPOSED = (
    Composed(rrelu, in_networks=True),
    Composed(upsample, in_networks=True),
    Composed(
        _make_upsample("upsample_nearest", "nearest", "each takes the nearest", align_corners=None),
        in_networks=True,
    ),
    Composed(
        _make_upsample("upsample_bilinear", "bilinear", "between two along each dim", align_corners=True),
        in_networks=True,
    ),
)
