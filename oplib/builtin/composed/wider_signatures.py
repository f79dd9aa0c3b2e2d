"""Functions whose signature in torch has more arguments than their op."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.grad_mode import recording_off
from oplib.builtin.argument_checks.stored_numbers import check_factor
from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, UnsupportedArgumentError
from oplib.library.autocast.casts import call_in_float32
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.storage.memory_format import check_format

from .data_dependent import take_rows

# Indices ----------------------------------------------------------------------------------------------------


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Finds the indices at which values would be inserted in a sorted sequence.

    Args:
        sorted_sequence: ``[..., size]``, in increasing order along the last dim.
        input: the values: a number, or a tensor whose dims agree except the last; for a vector
            ``sorted_sequence``, of any shape.
        side: "right" or "left", an alternative to ``right``.
        sorter: the indices that sort ``sorted_sequence``, if it is not sorted.

    Returns:
        Ints, of the shape of the input.

    Raises:
        ArgumentError: ``side`` is invalid, or contradicts ``right``, or the shapes do not fit.

    Gradient:
        None: indices are piecewise constant in the items.

    Example:
        >>> oplib.searchsorted(oplib.tensor([1, 3, 5]), oplib.tensor([0, 3, 9]))
        tensor([0, 1, 3])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError(
            "side can only be 'left' or 'right', and must not contradict right", "Pass one of the two."
        )
    if sorter is not None:
        sorted_sequence = ops.gather(sorted_sequence, -1, sorter)
    value = _to_item(input, sorted_sequence) if isinstance(input, (int, float)) else input
    return ops.searchsorted(sorted_sequence, value, right=right or side == "right", out_int32=out_int32)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Finds the interval between boundaries that contains each item.

    Args:
        input: a tensor of any shape, or a number.
        right: whether an item equal to a boundary belongs to the interval after it, instead of before it.

    Returns:
        Ints, of the shape of the input.

    Raises:
        ArgumentError: the boundaries are no vector.

    Gradient:
        None: indices are piecewise constant in the items.

    Example:
        >>> oplib.bucketize(oplib.tensor([0, 3, 9]), oplib.tensor([1, 3, 5]))
        tensor([0, 1, 3])
    """
    value = _to_item(input, boundaries) if isinstance(input, (int, float)) else input
    return ops.bucketize(value, boundaries, out_int32=out_int32, right=right)


def _to_item(number: float, like: Any) -> Any:
    """Converts a number to an item of the kind of ``like``, and to its dtype if that can hold the number."""
    is_fraction = isinstance(number, float) and not jnp.issubdtype(like.dtype, jnp.floating)
    dtype = get_default_dtype() if is_fraction else like.dtype
    return like.new_tensor(number, dtype=dtype) if isinstance(like, Tensor) else jnp.asarray(number, dtype)


_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """Writes items, or a number, at given indices along a dim.

    Args:
        input: a tensor of any dtype; it is not written.
        index: the indices, ints, with as many dims as the input, and no larger except along ``dim``.
        src: the items, in the dtype of the input, with at least one per index; or a number.
        value: a number, instead of ``src``.
        reduce: "add" or "multiply" to combine with the present items; by default they are replaced.

    Returns:
        A tensor like the input. If an index occurs twice, either of its items may be in the result.

    Raises:
        ArgumentError: a dtype or shape does not fit, or ``reduce`` is invalid.
        DimensionError: the dim does not exist, or a known index is out of range.

    Gradient:
        ``src`` gets the gradient at its indices, where the input gets 0; ``reduce`` works as
        ``scatter_reduce``.

    Example:
        >>> oplib.scatter(oplib.zeros(3), 0, oplib.tensor([2, 0]), oplib.tensor([7.0, 8.0]))
        tensor([8., 0., 7.])
    """
    if reduce is None:
        return ops.scatter(input, dim, index, src, value=value)
    if reduce not in _REDUCTIONS:
        raise ArgumentError(
            "reduce argument must be either add or multiply", "Use scatter_reduce for others."
        )
    items = value if src is None else src
    if isinstance(items, (bool, int, float, complex)):
        items = ops.fill(ops.zeros_like(index, dtype=input.dtype), items)
    return ops.scatter_reduce(input, dim, index, items, _REDUCTIONS[reduce])


# Embeddings -------------------------------------------------------------------------------------------------


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Looks up rows of ``weight`` by their indices.

    Args:
        input: the indices, ints of any shape.
        weight: the table, ``[count, size]``.
        padding_idx: the row without a gradient.

    Returns:
        The rows, ``[*input.shape, size]``.

    Raises:
        DimensionError: a known index is out of range.
        ArgumentValueError: the row ``padding_idx`` does not exist.
        ArgumentTypeError: the weight is no tensor.
        ArgumentError: the indices are no ints, or ``max_norm`` would write into an array.
        UnsupportedArgumentError: a sparse gradient is requested.

    Gradient:
        With respect to the weight, summed over the look-ups of a row; the padding row has none.

    Example:
        >>> table = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> oplib.nn.functional.embedding(oplib.tensor([1, 1]), table)
        tensor([[3., 4.],
                [3., 4.]])
    """
    _check_options(weight, padding_idx, sparse)
    if max_norm is not None:
        shorten_rows(input, weight, max_norm, norm_type)
    rows = take_rows(input, weight, padding_idx)
    return _share_gradient(rows, input, weight) if scale_grad_by_freq else rows


def _share_gradient(rows: Any, indices: Any, weight: Any) -> Any:
    """Returns the rows unchanged, with gradients divided by the number of look-ups."""
    column = ops.detach(weight[:, :1])
    ones = ops.ones_like(ops.reshape(indices, (-1, 1)), dtype=column.dtype)
    times = ops.index_add(ops.zeros_like(column), 0, ops.reshape(indices, (-1,)), ones)
    share = 1.0 / times[indices]
    constant = ops.detach(rows)
    return constant + (rows - constant) * share  # the value of the rows, with a scaled gradient


def _check_options(weight: Any, padding_idx: int | None, sparse: bool) -> None:
    if not hasattr(weight, "shape"):
        raise ArgumentTypeError("argument 'weight' is a Tensor", "Use oplib.tensor(...).")
    if sparse:
        raise UnsupportedArgumentError("there are no sparse gradients", "Leave it out for a dense one.")
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentValueError(
            "padding_idx must be within num_embeddings", f"Give one below {weight.shape[0]}."
        )


def shorten_rows(input: Any, weight: Any, max_norm: float, norm_type: float) -> None:
    """Shortens the rows that are looked up and too long, each once, in place.

    Args:
        input: the indices.
        weight: the table.
        max_norm: the maximal norm.
        norm_type: the order of the norm.

    Raises:
        ArgumentError: the weight is an array, which cannot be written.
    """
    if not isinstance(weight, Tensor):
        raise ArgumentError(
            "max_norm writes into the weight, and only a Tensor can be written",
            "Leave max_norm out, or box the array.",
        )
    indices = np.unique(np.asarray(input.array if isinstance(input, Tensor) else input))
    with recording_off():
        index = weight.new_tensor(indices, dtype=dtypes.int32)
        rows = weight.detach()[index]
        length = rows.norm(norm_type, 1, True)
        scaled = rows * (max_norm / (length + 1e-7))
        weight.detach()[index] = rows.where(length <= max_norm, scaled)


# Inverses ---------------------------------------------------------------------------------------------------


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Computes the pseudoinverse of matrices.

    Args:
        input: ``[..., m, n]``, floating or complex.

    Returns:
        A tensor, ``[..., n, m]``.

    Raises:
        ArgumentError: the input has fewer than two dims.
        UnsupportedDtypeError: the dtype has no decompositions.

    Gradient:
        The gradient of ``linalg.pinv``.

    Example:
        >>> oplib.pinverse(oplib.tensor([[2.0], [1.0]]))
        tensor([[0.4000, 0.2000]])
    """
    return call_in_float32(ops.linalg_pinv, input, rtol=rcond)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Computes ``other - alpha * input``.

    Args:
        input: a tensor of any shape, without bools.
        other: a tensor that broadcasts with the input, or a number.
        alpha: a number.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        ArgumentError: the shapes do not broadcast, or a tensor has bools.

    Gradient:
        The gradient of the difference.

    Example:
        >>> oplib.rsub(oplib.tensor([1.0, 2.0]), 10, alpha=2)
        tensor([8., 6.])
    """
    check_factor("rsub", alpha, input, other)
    return ops.rsub(input if alpha == 1 else ops.mul(input, alpha), other)


# Properties of a tensor -------------------------------------------------------------------------------------


_ASKED = """{doc}

Args:
    input: a Tensor or an array{also}.

Returns:
    {told[0]}

Gradient:
    None: the result is no tensor.

Example:
    >>> oplib.{name}(oplib.ones(2, 3))
    {told[1]}
"""


def _make_asking(name: str, doc: str, *told: str, also: str = "") -> Function:
    def ask(input: Any) -> Any:
        own = getattr(input, name, None)
        return own() if own is not None else getattr(Tensor.from_array(input), name)()

    ask.__name__, ask.__doc__ = name, _ASKED.format(name=name, doc=doc, told=told, also=also)
    return ask


def _make_asking_dtype(name: str, doc: str, told: str, kind: Any) -> Function:
    """Makes a function that also takes a dtype: these are numpy's, without torch's attributes."""
    ask_tensor = _make_asking(name, doc, "A bool.", told, also=", or a dtype")

    def ask(input: Any) -> Any:
        return jnp.issubdtype(input, kind) if isinstance(input, (np.dtype, type)) else ask_tensor(input)

    ask.__name__, ask.__doc__ = name, ask_tensor.__doc__
    return ask


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Computes a copy, with history.

    Args:
        input: a tensor of any shape and dtype.
        memory_format: the order of the dimensions in memory, which changes nothing: JAX chooses how arrays
            lie in memory.

    Returns:
        A tensor like the input.

    Raises:
        ArgumentTypeError: the format is another object.
        ArgumentError: the format needs another number of dimensions.

    Gradient:
        The incoming gradient.

    Example:
        >>> x = oplib.ones(2)
        >>> oplib.clone(x).add_(1), x
        (tensor([2., 2.]), tensor([1., 1.]))
    """
    if memory_format is not None:
        check_format("clone", memory_format, input.ndim)
    return ops.clone(input)


def positive(input: Any) -> Any:
    """Returns the tensor itself, which must not have bools.

    Args:
        input: a tensor of any shape.

    Returns:
        The same object.

    Raises:
        ArgumentError: the input has bools.

    Gradient:
        The gradient of the tensor itself.

    Example:
        >>> oplib.positive(oplib.tensor([-1.0]))
        tensor([-1.])
    """
    if input.dtype == np.bool_:
        raise ArgumentError("not defined for bool", "Convert it.")
    return input


COMPOSED = (
    Composed(bucketize, is_method=True, out=True),
    Composed(embedding, in_networks=True),
    Composed(clone, is_method=True),
    Composed(
        _make_asking_dtype("is_complex", "Whether the dtype is complex.", "False", jnp.complexfloating),
        returns="bool",
    ),
    Composed(
        _make_asking_dtype("is_floating_point", "Whether the dtype is floating.", "True", jnp.floating),
        returns="bool",
    ),
    Composed(
        _make_asking("is_signed", "Whether the dtype has negative numbers.", "A bool.", "True"),
        returns="bool",
    ),
    Composed(_make_asking("numel", "Counts the items.", "An int.", "6"), returns="int"),
    Composed(pinverse, is_method=True),
    Composed(positive, is_method=True),
    Composed(rsub),
    Composed(scatter, is_method=True),
    Composed(searchsorted, out=True),
)
