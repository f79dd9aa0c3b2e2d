"""Reductions and softmaxes of the items that a mask keeps, under torch's names, over plain tensors.

The functions are made from a table: what stands for an item that the mask leaves out, and the op.

Example:
    >>> import oplib
    >>> x = oplib.tensor([[1.0, 2.0, 3.0]])
    >>> oplib.masked.mean(x, 1, mask=oplib.tensor([[True, False, True]]))
    tensor([2.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import is_integral
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_known
from oplib.errors import ArgumentValueError, DimensionError, describe, frame_error
from oplib.tensor import default_int_dtype, get_default_dtype
from oplib.tensor.dtypes.rules import INTEGRAL
from oplib.torch_names import make_dir as _make_dir
from oplib.tracebacks import entry_point

Function = Callable[..., Any]

_DOC = """Returns {what} of the items that a mask keeps.

Args:
    input: a tensor of any shape.{more}
    dtype: the dtype of the computation; by default that of the op, and a floating one if results are no ints.
    mask: bools, True for the items that count; broadcasts to the shape of the input. By default all count.

Returns:
    A tensor. Other items count as {left_out}.

Raises:
    DimensionError: the dim does not exist; the mask has no bools, or more dims than the input.

Gradient:
    The gradient of the op, and 0 for items that do not count.

Source:
    torch.masked.{name}

Example:
    >>> import oplib
    >>> x, mask = oplib.tensor([[1.0, 2.0, 4.0]]), oplib.tensor([[True, False, True]])
    >>> oplib.masked.{name}(x, {given}mask=mask)
    {shown}
"""
_DIMS = (
    "\n    dim: one dim or several; by default all.\n    keepdim: whether these dims are kept with size 1."
)
_ALONG = "\n    dim: the dim."


def _describe(function: Function, name: str, what: str, left_out: str, shown: str, **words: str) -> Function:
    function.__name__ = function.__qualname__ = name
    more, given = words.get("more", _DIMS), words.get("given", "")
    function.__doc__ = _DOC.format(
        name=name, what=what, left_out=left_out, shown=shown.replace("\n", "\n    "), more=more, given=given
    )
    return entry_point(function)


def _prepare(input: Any, dtype: Any, *, floating: bool = False) -> Any:
    """Returns the items in the dtype of the computation."""
    if dtype is None and floating and is_integral(input.dtype):
        dtype = get_default_dtype()
    return input if dtype is None else ops._to_copy(input, np.dtype(dtype))


def _widen(x: Any) -> Any:
    """Returns halves in single, which holds a count."""
    return ops._to_copy(x, np.dtype("float32")) if x.dtype.itemsize == 2 else x


def _fill(x: Any, mask: Any, value: Any) -> Any:
    """Puts a number, which may depend on the dtype, where the mask leaves an item out."""
    if mask is None:
        return x
    if getattr(mask, "dtype", None) != np.bool_ or mask.ndim > x.ndim:
        raise DimensionError(
            f"masked: expected a mask of bools with no more dims than the input. Got {describe(mask)} for "
            f"{describe(x)}. Compare it with something: mask > 0."
        )
    return ops.masked_fill(x, ops.logical_not(mask), value(x.dtype) if callable(value) else value)


def _lowest(dtype: Any) -> Any:
    return int(jnp.iinfo(dtype).min) if dtype in INTEGRAL else -math.inf


def _highest(dtype: Any) -> Any:
    return int(jnp.iinfo(dtype).max) if dtype in INTEGRAL else math.inf


def _find_axes(x: Any, dim: Any) -> list[int]:
    dims = [dim] if isinstance(dim, int) else dim or range(x.ndim)
    try:
        return [find_dim(x.ndim, axis) for axis in dims]
    except DimensionError as error:
        frame_error(error, "masked", [("input", x), ("dim", dim)])
        raise


# Over dims --------------------------------------------------------------------------------------------------


def _multiply(x: Any, axes: Sequence[int], keepdim: bool) -> Any:
    for axis in sorted(axes, reverse=True):
        x = ops.prod(x, axis, keepdim)
    return x


def _make_fold(name: str, what: str, value: Any, left_out: str, shown: str) -> Function:
    """Makes a reduction whose neutral number stands for items that do not count."""
    fold = _multiply if name == "prod" else getattr(ops, name)

    def reduce(
        input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Any:
        if name == "prod" and dtype is None and is_integral(input.dtype):
            dtype = default_int_dtype()  # also if no dim is left that ``ops.prod`` would widen along
        wanted = np.dtype(dtype or input.dtype)
        is_cut = name == "logsumexp" and is_integral(wanted)  # as torch does, after the computation
        x = _prepare(input, None if is_cut else dtype, floating=is_cut)
        result = fold(_fill(x, mask, value), _find_axes(x, dim), keepdim)
        return ops._to_copy(result, wanted) if is_cut else result

    return _describe(reduce, name, what, left_out, shown)


sum = _make_fold("sum", "the sum", 0, "0", "tensor(5.)")  # noqa: A001
prod = _make_fold("prod", "the product", 1, "1", "tensor(4.)")
amax = _make_fold("amax", "the largest", _lowest, "the lowest number", "tensor(4.)")
amin = _make_fold("amin", "the smallest", _highest, "the highest number", "tensor(1.)")
logsumexp = _make_fold(
    "logsumexp", "the logarithm of the sum of exponentials", _lowest, "-inf", "tensor(4.0486)"
)


def _mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    x = _prepare(input, dtype, floating=True)
    return _prepare(_average(_widen(x), mask, _find_axes(x, dim), keepdim)[0], x.dtype)


def _average(x: Any, mask: Any, axes: Sequence[int], keepdim: bool) -> tuple[Any, Any]:
    """Returns means of items, and how many items each has."""
    ones = ops.ones_like(x if x.dtype.kind != "c" else ops.real(x))
    total, count = (ops.sum(_fill(items, mask, 0), axes, keepdim) for items in (x, ones))
    return ops.div(total, count), count


def _make_spread(name: str, what: str, shown: str) -> Function:
    def spread(
        input: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
        dtype: Any = None,
        mask: Any = None,
    ) -> Any:
        given = _prepare(input, dtype, floating=True)
        x = _widen(given)
        axes = _find_axes(x, dim)
        less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        middle, count = _average(x, mask, axes, True)
        away = _fill(ops.square(ops.abs(ops.sub(x, middle))), mask, 0)
        total = ops.div(ops.sum(away, axes, True), ops.clamp_min(ops.sub(count, less), 0))
        result = _prepare(ops.sqrt(total) if name == "std" else total, given.dtype)
        return result if keepdim else ops.squeeze(result, tuple(axes))

    more = "\n    dim: one dim or several; by default all.\n    unbiased: whether the count is lowered by 1."
    more += (
        "\n    correction: by how much the count is lowered, instead.\n    keepdim: whether dims are kept."
    )
    return _describe(spread, name, what, "nothing", shown, more=more)


mean = _describe(_mean, "mean", "the mean", "nothing", "tensor(2.5000)")
std = _make_spread("std", "the standard deviation", "tensor(2.1213)")
var = _make_spread("var", "the variance", "tensor(4.5000)")


def _norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    x = _prepare(input, dtype, floating=True)
    order = 2.0 if ord is None else ord
    return ops.linalg_vector_norm(
        _fill(x, mask, math.inf if order < 0 else 0), order, _find_axes(x, dim), keepdim
    )


norm = _describe(
    _norm,
    "norm",
    "the norm",
    "0, or infinity for a negative order",
    "tensor(4.1231)",
    more=f"\n    ord: the order.{_DIMS}",
)

# Along a dim ------------------------------------------------------------------------------------------------


def _make_along(
    name: str, what: str, value: Any, left_out: str, shown: str, *, floating: bool = False
) -> Function:
    """Makes a function along a dim, which keeps the shape."""

    def along(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        x = _prepare(input, dtype, floating=floating)
        return getattr(ops, name)(_fill(x, mask, value), dim)

    return _describe(along, name, what, left_out, shown, more=_ALONG, given="1, ")


cumsum = _make_along("cumsum", "the cumulative sum", 0, "0", "tensor([[1., 1., 5.]])")
cumprod = _make_along("cumprod", "the cumulative product", 1, "1", "tensor([[1., 1., 4.]])")
softmax = _make_along(
    "softmax", "the softmax", -math.inf, "-inf", "tensor([[0.0474, 0.0000, 0.9526]])", floating=True
)
log_softmax = _make_along(
    "log_softmax",
    "the logarithm of the softmax",
    -math.inf,
    "-inf",
    "tensor([[-3.0486,    -inf, -0.0486]])",
    floating=True,
)
softmin = _make_along(
    "softmin",
    "the softmax of negated items",
    math.inf,
    "inf",
    "tensor([[0.9526, 0.0000, 0.0474]])",
    floating=True,
)


def _make_index(name: str, what: str, value: Any, shown: str) -> Function:
    def find(
        input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Any:
        return getattr(ops, name)(_fill(_prepare(input, dtype), mask, value), dim, keepdim)

    more = "\n    dim: the dim; by default the flat tensor is used.\n    keepdim: whether the dim is kept."
    return _describe(find, name, what, "worst", shown, more=more)


argmax = _make_index("argmax", "the position of the largest", _lowest, "tensor(2)")
argmin = _make_index("argmin", "the position of the smallest", _highest, "tensor(0)")


def _median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    x = _prepare(input, dtype, floating=True)
    medians = ops.nanmedian(_fill(x, mask, math.nan), dim, keepdim)[0]
    if not is_integral(input.dtype):
        return medians
    values = read_known(medians)
    if values is not None and np.isnan(values).any():
        raise ArgumentValueError(
            "masked.median: a row without items has the median nan, which integers lack. Got "
            f"{describe(input)}. Convert the input to a floating dtype."
        )
    return ops._to_copy(medians, input.dtype if dtype is None else np.dtype(dtype))


def _normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    x = _prepare(input, dtype, floating=True)
    length = ops.clamp_min(_norm(x, ord, dim, keepdim=True, mask=mask), eps)
    return ops.div(_fill(x, mask, 0), length)


median = _describe(
    _median,
    "median",
    "the lower median",
    "nothing",
    "tensor([1.])",
    more=f"{_ALONG}\n    keepdim: whether it is kept.",
)
normalize = _describe(
    _normalize,
    "normalize",
    "the quotients by the norm",
    "0",
    "tensor([[0.2425, 0.0000, 0.9701]])",
    more=f"\n    ord: the order of the norm.{_ALONG}\n    eps: the least divisor.",
    given="2, 1, ",
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
__dir__ = _make_dir(globals())
