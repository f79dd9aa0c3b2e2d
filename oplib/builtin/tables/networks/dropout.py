"""Dropout: random items, or whole features, are replaced during training."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from oplib.autograd.array_functions.array_types import match_type
from oplib.autograd.recording.in_place import check_may_write, refuse_cast, update_in_place
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function, NetworkRow, Row
from oplib.builtin.shared_kernels.promotion import broadcast_to, strong
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from oplib.library.arguments.plain_conversions import TRACED
from oplib.tensor import Generator, Tensor, get_default_dtype
from oplib.tensor.dtypes.rules import COMPLEX, FLOATING
from oplib.tracebacks import warn_user

_ALPHA = 1.7580993408473766  # the product of SELU's scale and alpha: minus its limit for low inputs


def draw_kept(shape: tuple[int, ...], p: Any, generator: Any) -> Any:
    """Draws a mask in which each item is True with probability ``1 - p``."""
    drawn = jax.random.uniform(generator.next_key(), shape, jnp.float32)
    return drawn >= broadcast_to(lax.convert_element_type(p, jnp.float32), shape)


def drop(array: Any, kept: Any, p: Any) -> Any:
    """Replaces dropped items by 0 and scales the others to keep the mean. ``p`` has single precision."""
    scale = 1 / (1 - p)
    scaled = array * broadcast_to(lax.convert_element_type(scale, array.dtype), array.shape)
    return jnp.where(broadcast_like(kept, array), scaled, jnp.zeros_like(array))


def broadcast_like(value: Any, like: Any) -> Any:
    """Broadcasts a value, and gives it the sharding of another array on an explicit mesh."""
    return match_type(broadcast_to(value, like.shape), jax.typeof(like))


def _dropout(input: Any, p: Any, *, generator: Any) -> Any:
    p = lax.convert_element_type(p, jnp.float32)
    return drop(input, draw_kept(input.shape, p, generator), p)


def _feature_dropout(input: Any, p: Any, features: int = 2, *, generator: Any) -> Any:
    p = lax.convert_element_type(p, jnp.float32)
    return drop(input, draw_kept(_name_features(input, features), p, generator), p)


def _alpha_dropout(input: Any, p: Any, *, generator: Any) -> Any:
    return _drop_to_alpha(input, input.shape, p, generator)


def _feature_alpha_dropout(input: Any, p: Any, *, generator: Any) -> Any:
    return _drop_to_alpha(input, _name_features(input, 2), p, generator)


def _drop_to_alpha(array: Any, shape: tuple[int, ...], p: Any, generator: Any) -> Any:
    """Replaces dropped items by SELU's lower limit, and restores mean and variance."""
    p = lax.convert_element_type(p, jnp.float32)
    kept = draw_kept(shape, p, generator)
    alpha = strong(_ALPHA, p)
    scale = lax.rsqrt((alpha * alpha * p + 1) * (1 - p))
    own = [broadcast_like(strong(value, array), array) for value in (scale, alpha * scale * p)]
    dropped = broadcast_like(strong(alpha * scale * (p - 1), array), array)
    return jnp.where(broadcast_like(kept, array), array * own[0] + own[1], dropped)


def _rrelu(input: Any, lower: Any, upper: Any, *, generator: Any) -> Any:
    drawn = jax.random.uniform(generator.next_key(), input.shape, jnp.float32)
    low, high = (lax.convert_element_type(array, jnp.float32) for array in (lower, upper))
    slopes = strong(drawn * (high - low) + low, input)
    slopes = match_type(lax.stop_gradient(slopes), jax.typeof(input))
    return jnp.where(input > 0, input, input * slopes)


def _name_features(input: Any, features: int) -> tuple[int, ...]:
    """Returns the shape with one item per feature."""
    if input.ndim < features:
        raise ArgumentError(
            "Feature dropout requires at least 2 dimensions in the input", "Use dropout, or reshape it."
        )
    return (*input.shape[:features], *([1] * (input.ndim - features)))


def _find_cure(p: Any) -> str:
    array = p._storage.array if isinstance(p, Tensor) else p
    if isinstance(array, Tracer):
        cure = "static_argnames of oplib.jit or jax.jit could compile the number in"
        return f"{TRACED}; {cure}. Or give a probability."
    return "Give a probability."


def check_p(p: Any) -> None:
    """Raises if a number is no probability.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentValueError: it is not between 0 and 1.
    """
    if not isinstance(p, (int, float)):
        raise ArgumentTypeError("argument 'p' is a number", _find_cure(p))
    if not 0 <= p <= 1:
        raise ArgumentValueError(
            f"dropout probability has to be between 0 and 1, but got {p}", "Give a probability."
        )


def _apply(run: Function, name: str, input: Any, p: float, *, training: bool, inplace: bool) -> Any:
    """Runs a dropout; if all items or no items are kept, it draws nothing."""
    if not isinstance(input, (Tensor, jax.Array)):
        raise ArgumentTypeError("it takes a Tensor", "Use oplib.tensor(...).")
    if inplace:
        require_tensor_to_write(input, f"{name}_")
    if not training or p == 0 or not math.prod(input.shape):
        return input
    if input.dtype not in FLOATING | COMPLEX:
        refuse_cast(name, get_default_dtype(), input.dtype)
    if not inplace:
        return run(input)
    written: Any = input  # a Tensor, as checked above
    check_may_write(written, name)
    return update_in_place(written, run, name)


def _make(name: str, *, trains: bool = True, rank: int = 0) -> Function:
    """Makes the function of a dropout; with a rank it drops whole channels with so many dimensions."""

    def dropout(
        input: Any,
        p: float = 0.5,
        training: bool = trains,
        inplace: bool = False,
        *,
        generator: Generator | None = None,
    ) -> Any:
        check_p(p)
        features = (_count_features(name, rank, input),) if rank else ()

        def run(input: Any) -> Any:
            op = getattr(ops, "feature_dropout" if rank else name)
            return op(input, p, *features, generator=generator) if p < 1 else input * 0

        return _apply(run, name, input, p, training=training, inplace=inplace)

    doc = f"Drops whole channels of ``[N, C, ...]``, each with {rank} dimensions." if rank else _DOCS[name]
    dropout.__name__, dropout.__doc__ = name, doc + _ARGS.format(name=name, shape="2, 3" + ", 4" * rank)
    return dropout


_DOCS = {
    "dropout": "Replaces items by 0 with probability ``p`` in training; scales the others to keep the mean.",
    "alpha_dropout": "Replaces items with probability ``p``; preserves mean and variance, as SELU needs.",
    "feature_alpha_dropout": "Applies ``alpha_dropout`` to whole features of ``[N, C, ...]``.",
}
_ARGS = """

Args:
    input: the tensor; it is returned unchanged if no item is dropped.
    p: the probability, from 0 to 1.
    training: False returns the input unchanged.
    inplace: True writes the result into the tensor and returns it.
    generator: the source of random numbers; by default the global Generator.

Returns:
    A tensor like the input, or the input itself.

Raises:
    ArgumentValueError: ``p`` is not between 0 and 1.
    ArgumentError: a tensor of integers.
    UnsupportedDtypeError: a complex tensor.
    TracingError: the Generator was made outside the running trace.

Gradient:
    Kept items pass the gradient on, scaled like the items.

Example:
    >>> oplib.nn.functional.{name}(oplib.ones({shape}), 0.0).shape
    ({shape})
"""


def _count_features(name: str, rank: int, input: Any) -> int:
    """Returns the number of axes that identify a channel: one without a batch. Warns as torch."""
    if not hasattr(input, "ndim"):
        return rank  # the op raises the error
    fits = input.ndim in (rank + 1, rank + 2)
    if rank == 1 and not fits:
        raise ArgumentError(
            f"Expected 2D or 3D input, but received a {input.ndim}D input", "Give [N, C, L] or [C, L]."
        )
    if not fits or (rank == 2 and input.ndim == 3):
        warn_user(
            f"{name}: Received a {input.ndim}-D input, which {name} does not expect. The first two axes "
            "are taken for batch and channels, or the first one without a batch. Give an axis for each."
        )
    return 2 if rank == 2 or input.ndim == rank + 2 else 1


_SOURCE = "torch.nn.functional."
ROWS = (
    Row(
        "rrelu_with_slopes(Tensor input, float lower, float upper, *, Generator? generator=None) -> Tensor",
        _rrelu,
        "the tensor with negative items multiplied by slopes, drawn between two bounds",
        operand=("lower", "upper"),
        dtypes="hf",
        source=f"{_SOURCE}rrelu",
        is_internal=True,
    ),
    NetworkRow(
        "dropout(Tensor input, float p, *, Generator? generator=None) -> Tensor",
        _dropout,
        "the tensor with items replaced by 0 with probability `p`, the others scaled to keep the mean",
        operand=("p",),
        dtypes="hf",
    ),
    Row(
        "feature_dropout(Tensor input, float p, int features=2, *, Generator? generator=None) -> Tensor",
        _feature_dropout,
        "the tensor with whole features, along the first axes, replaced by 0",
        operand=("p",),
        dtypes="hf",
        source=f"{_SOURCE}dropout2d",
        is_internal=True,
    ),
    NetworkRow(
        "alpha_dropout(Tensor input, float p, *, Generator? generator=None) -> Tensor",
        _alpha_dropout,
        "the tensor with items replaced, with its mean and variance preserved",
        operand=("p",),
        dtypes="hf",
    ),
    NetworkRow(
        "feature_alpha_dropout(Tensor input, float p, *, Generator? generator=None) -> Tensor",
        _feature_alpha_dropout,
        "the tensor with whole features replaced, with its mean and variance preserved",
        operand=("p",),
        dtypes="hf",
    ),
)
COMPOSED = (
    Composed(_make("dropout"), in_networks=True),
    Composed(_make("alpha_dropout", trains=False), in_networks=True),
    Composed(_make("feature_alpha_dropout", trains=False), in_networks=True),
    *(Composed(_make(f"dropout{rank}d", rank=rank), in_networks=True) for rank in (1, 2, 3)),
)
