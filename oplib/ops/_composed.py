# ruff: noqa: A002, PLR0917  the parameters are torch's
"""Functions that are made of several ops, or call one with other arguments than its schema has."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oplib.errors import ArgumentError, ArgumentValueError, describe
from oplib.tensor import Generator, Tensor

from ._dropout import COMPOSED as DROPOUTS
from ._dropout import check_p

Function = Callable[..., Any]
Functions = Mapping[str, Function]
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _make_einsum(functions: Functions) -> Function:
    op = functions["einsum"]

    def einsum(equation: Any, *operands: Any) -> Any:
        """Sums products of items of tensors, as an equation like ``"ij,jk->ik"`` says.

        The equation may also be given as a list of numbers, below 52, after each tensor and at the end.
        """
        if not isinstance(equation, str):
            return op(*_read_sublists([equation, *operands]))
        if not operands:
            raise ArgumentValueError(
                f"einsum: there must be at least one operand. Got the equation {equation!r} alone. Give the "
                "tensors after it."
            )
        return op(
            equation,
            list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands),
        )

    return einsum


def _read_sublists(given: list[Any]) -> tuple[str, list[Any]]:
    """The equation and the tensors of ``einsum(x, [0, 1], y, [1, 2], [0, 2])``."""

    def spell(numbers: Sequence[Any]) -> str:
        return "".join("..." if one is Ellipsis else _LETTERS[one] for one in numbers)

    count = len(given) // 2
    equation = ",".join(spell(numbers) for numbers in given[1 : 2 * count : 2])
    if len(given) % 2:
        equation += f"->{spell(given[-1])}"
    return equation, given[: 2 * count : 2]


def _make_tensordot(functions: Functions) -> Function:
    op = functions["tensordot"]

    def tensordot(a: Any, b: Any, dims: int | Sequence[Sequence[int]] = 2) -> Any:
        """Sums products over the last ``dims`` axes of ``a`` and the first of ``b``, or over those named."""
        if not isinstance(dims, int):
            return op(a, b, list(dims[0]), list(dims[1]))
        if dims < 0:
            raise ArgumentError(
                f"tensordot: expects dims >= 0. Got dims={dims}. Give how many axes to sum over."
            )
        return op(a, b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))

    return tensordot


def _make_norm(functions: Functions) -> Function:
    of_vector, of_matrix = functions["linalg_vector_norm"], functions["linalg_matrix_norm"]

    def norm(
        input: Any, p: float | str | None = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Any:
        """Computes the norm of all items, or of vectors along ``dim``; ``p`` is a number, "fro" or "nuc"."""
        if isinstance(p, str) and p != "fro":
            dims = [-2, -1] if dim is None else [dim] if isinstance(dim, int) else list(dim)
            return of_matrix(input, p, dims, keepdim, dtype=dtype)
        order = 2 if p in ("fro", None) else p
        return of_vector(input, order, dim, keepdim, dtype=dtype)

    return norm


def _make_batch_norm(functions: Functions) -> Function:
    by_batch, by_given = functions["native_batch_norm"], functions["fixed_batch_norm"]

    def batch_norm(
        input: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        """Brings each channel to mean 0 and variance 1: over the batch, or by running ones if not training.

        While training the running moments, where given, move by ``momentum`` towards those of the batch.
        """
        if not training:
            return by_given(input, running_mean, running_var, weight, bias, eps)
        _check_running("batch_norm", running_mean, running_var)
        count = math.prod(input.shape) // input.shape[1] if input.ndim > 1 else 0
        if count == 1:
            raise ArgumentValueError(
                f"batch_norm: expected more than 1 value per channel when training. Got {describe(input)}. "
                "Give a larger batch, or training=False."
            )
        result, mean, variance = by_batch(input, weight, bias, eps)
        for running, new in ((running_mean, mean), (running_var, variance * (count / max(count - 1, 1)))):
            _move_running(running, new, momentum)
        return result

    return batch_norm


def _check_running(op: str, *moments: Any) -> None:
    for name, running in zip(("running_mean", "running_var"), moments, strict=True):
        if running is not None and not isinstance(running, Tensor):
            raise ArgumentError(
                f"{op}: argument '{name}' is written, and only a Tensor can be. Got {describe(running)}. "
                f"Pass oplib.Tensor.from_array({name}), and read its array afterwards."
            )


def _move_running(running: Any, new: Any, momentum: float) -> None:
    """Moves a running moment, where there is one, towards a new one."""
    if running is not None:
        value = new.detach() if isinstance(new, Tensor) else new
        running.detach().copy_(running.detach() * (1 - momentum) + value * momentum)


def _make_instance_norm(functions: Functions) -> Function:
    op = functions["native_instance_norm"]

    def instance_norm(
        input: Any,
        running_mean: Any = None,
        running_var: Any = None,
        weight: Any = None,
        bias: Any = None,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        """Brings each channel of each example to mean 0 and variance 1, then scales and moves it.

        The running moments, where given, move by ``momentum`` towards the averages of those of the examples.
        """
        if not use_input_stats:
            return functions["fixed_batch_norm"](input, running_mean, running_var, weight, bias, eps)
        if math.prod(input.shape[2:]) == 1:
            raise ArgumentValueError(
                "instance_norm: expected more than 1 spatial element when training. Got "
                f"{describe(input)}. Give more places, or use_input_stats=False."
            )
        _check_running("instance_norm", running_mean, running_var)
        if running_mean is not None or running_var is not None:
            items = functions["flatten"](functions["detach"](input), 2)
            for running, moment in ((running_mean, "mean"), (running_var, "var")):
                _move_running(running, functions["mean"](functions[moment](items, -1), 0), momentum)
        return op(input, weight, bias, eps)

    return instance_norm


def _make_max_pool(rank: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        op = functions[f"max_pool{rank}d_with_indices"]

        def max_pool(
            input: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            dilation: Any = 1,
            ceil_mode: bool = False,
            return_indices: bool = False,
        ) -> Any:
            """Takes the largest item of each window; with ``return_indices`` also where it stands."""
            found = op(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
            return found if return_indices else found[0]

        return max_pool

    return make


def _make_adaptive_max_pool(rank: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        op = functions[f"adaptive_max_pool{rank}d_with_indices"]

        def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
            """Takes the largest items of so many windows; with ``return_indices`` also where they stand."""
            found = op(input, _fill_sizes(input, output_size))
            return found if return_indices else found[0]

        return adaptive_max_pool

    return make


def _make_adaptive_avg_pool(rank: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        op = functions[f"adaptive_avg_pool{rank}d"]

        def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
            """Takes the means of so many windows; None keeps the size of an axis."""
            return op(input, _fill_sizes(input, output_size))

        return adaptive_avg_pool

    return make


def _fill_sizes(input: Any, output_size: Any) -> Any:
    """The sizes, with that of the input for None."""
    if isinstance(output_size, int) or None not in output_size:
        return output_size
    own = input.shape[-len(output_size) :]
    return [have if size is None else size for have, size in zip(own, output_size, strict=True)]


def _make_attention(functions: Functions) -> Function:
    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        generator: Generator | None = None,
    ) -> Any:
        """Weighs the values by the softmax of the products of queries and keys.

        Args:
            query: ``[..., L, E]``.
            key: ``[..., S, E]``.
            value: ``[..., S, V]``.
            attn_mask: ``[..., L, S]``, bools (True takes part) or numbers that are added.
            dropout_p: with what probability a weight becomes 0.
            is_causal: whether a query sees only the keys up to its own place.
            scale: of the products; by default ``1 / sqrt(E)``.
            enable_gqa: whether several heads of the query share a head of key and value.
            generator: where the randomness of dropout comes from; by default the global Generator.
        """
        if is_causal and attn_mask is not None:
            raise ArgumentError(
                "scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True. Got "
                f"{describe(attn_mask)}. Give just one."
            )
        check_p("scaled_dot_product_attention", dropout_p)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        options = {"is_causal": is_causal, "scale": factor, "enable_gqa": enable_gqa}
        if not dropout_p and attn_mask is None:
            return functions["flash_attention"](query, key, value, is_causal, factor, enable_gqa)[0]
        if not dropout_p:
            return functions["sdpa"](query, key, value, attn_mask, **options)
        if dropout_p == 1:
            return functions["sdpa"](query, key, value * 0, attn_mask, **options)
        return functions["sdpa_dropout"](
            query, key, value, attn_mask, dropout_p, **options, generator=generator
        )

    return scaled_dot_product_attention


COMPOSED: dict[str, Callable[[Functions], Function]] = {
    **{f"adaptive_avg_pool{rank}d": _make_adaptive_avg_pool(rank) for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d": _make_adaptive_max_pool(rank) for rank in (1, 2, 3)},
    **DROPOUTS,
    "batch_norm": _make_batch_norm,
    "einsum": _make_einsum,
    "instance_norm": _make_instance_norm,
    **{f"max_pool{rank}d": _make_max_pool(rank) for rank in (1, 2, 3)},
    "norm": _make_norm,
    "scaled_dot_product_attention": _make_attention,
    "tensordot": _make_tensordot,
}
