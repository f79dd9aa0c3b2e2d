"""The Jacobian of a function: row by row, all rows at once, or by columns in forward mode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.autograd.grad_mode import enable_grad
from oplib.errors import AutogradError, MissingRuleError, StrategyError, describe
from oplib.tensor import Tensor, box, upcalls
from oplib.tensor.devices.placement import find_whole_placement, make_transfer
from oplib.tracebacks import entry_point

from .arguments import OUTPUTS, Function, Tensors, detach_results, take_point, take_tuple, untuple
from .evaluation import evaluate, find_gradients, make_zeros_like, refuse_constant

Matrix = tuple[Tensors, ...]


@entry_point
def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Returns the Jacobian of a function.

    Args:
        func: takes Tensors and returns a Tensor or a tuple of Tensors.
        inputs: its arguments: a Tensor or a tuple of Tensors.
        create_graph: the result is differentiable with respect to ``inputs``.
        strict: raise if an output is independent of an input, instead of giving zeros.
        vectorize: compute all rows in one pass with a batch dimension, instead of one pass per row.
        strategy: ``"reverse-mode"``, or ``"forward-mode"``, which is cheaper if there are more outputs than
            inputs, and needs ``vectorize=True``.

    Returns:
        A Tensor of size ``[*output, *input]`` with the dtype of the input (in forward mode, of the output).
        If ``inputs`` is a tuple, a tuple of these; if the outputs are a tuple, a tuple of the former for each
        output. For complex outputs the rows are gradients, and so conjugated; in forward mode they are
        derivatives.

    Raises:
        AutogradError: options exclude each other, ``strict`` found an independent output, or an output is
            complex and an input real in reverse mode.
        GradientTypeError: an input or output is neither a Tensor nor a tuple of Tensors.
        MissingRuleError: forward mode is used with ``create_graph``, or without ``vectorize``.
        StrategyError: the strategy is unknown.

    Source:
        torch.autograd.functional.jacobian; in forward mode torch returns lists for tuples. Without
        ``vectorize`` it refuses complex outputs and tensors without items.

    Example:
        >>> import oplib
        >>> from oplib.autograd.functional import jacobian
        >>> jacobian(lambda x: x.sum() * x, oplib.tensor([1.0, 2.0]), vectorize=True)
        tensor([[4., 1.],
                [2., 5.]])
    """
    _check_options(strategy, create_graph=create_graph, strict=strict, vectorize=vectorize)
    if strategy == "forward-mode":
        is_tuple, members = take_tuple(inputs, "inputs", "jacobian")
        outputs_are_tuple, matrix = _find_columns(func, members)
        return untuple([untuple(row, is_tuple) for row in matrix], outputs_are_tuple)
    with enable_grad():
        at = take_point(inputs, "jacobian", create_graph=create_graph)
        outputs = evaluate(func, at.tensors, "jacobian", strict=strict)
        _refuse_complex_of_real(outputs.tensors, at.tensors)
        if vectorize:
            matrix = _find_all_rows(outputs.tensors, at.tensors, create_graph=create_graph)
        else:
            matrix = tuple(
                _find_rows(index, output, at.tensors, create_graph=create_graph, strict=strict)
                for index, output in enumerate(outputs.tensors)
            )
    return outputs.untuple(list(map(at.untuple, detach_results(matrix, create_graph=create_graph))))


def _check_options(strategy: str, *, create_graph: bool, strict: bool, vectorize: bool) -> None:
    check_strategy("jacobian", strategy)
    forward = strategy == "forward-mode"
    if forward and create_graph:
        raise MissingRuleError(
            'jacobian: create_graph=True and strategy="forward-mode" are not supported together (yet). The '
            'columns are mapped, and leave no graph. Set create_graph=False, or strategy="reverse-mode".'
        )
    if strict and (vectorize or forward):
        other = 'strategy="forward-mode"' if forward else "vectorize=True"
        raise AutogradError(
            f"jacobian: strict=True and {other} are not supported together. All rows come from one pass. Set "
            f"strict=False, or leave {other} out."
        )
    if forward and not vectorize:
        raise MissingRuleError(
            "jacobian: forward mode is only implemented for vectorize=True. Got vectorize=False. Set "
            'vectorize=True, or strategy="reverse-mode".'
        )


def check_strategy(caller: str, strategy: str) -> None:
    """Raises StrategyError for an unknown strategy."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise StrategyError(
            f'{caller}: expected strategy to be either "forward-mode" or "reverse-mode". '
            f"Got {strategy!r}. Forward mode is faster where the function has more outputs than inputs."
        )


def _refuse_complex_of_real(outputs: Tensors, inputs: Tensors) -> None:
    """Raises where rows would be wrong: a gradient of a real input is real, and the derivative is complex."""
    real = [tensor for tensor in inputs if not tensor.is_complex()]
    complex_ones = [tensor for tensor in outputs if tensor.is_complex()]
    if real and complex_ones:
        raise AutogradError(
            "jacobian: reverse mode has no Jacobian of complex outputs by real inputs. Their gradients are "
            f"real. Got {describe(complex_ones[0]._storage.spec)} of {describe(real[0]._storage.spec)}. Set "
            'vectorize=True and strategy="forward-mode" (of hessian: outer_jacobian_strategy), or return '
            "oplib.view_as_real of the output."
        )


def _find_rows(index: int, output: Tensor, inputs: Tensors, *, create_graph: bool, strict: bool) -> Tensors:
    """Computes the rows of one output, one backward pass for each item."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for unit in _iterate_units(output):
        grads = find_gradients((output,), inputs, (unit,), retain_graph=True, create_graph=create_graph)
        for position, (grad, tensor) in enumerate(zip(grads, inputs, strict=True)):
            if strict:
                _require_dependence(grad, index, position, create_graph=create_graph)
            rows[position].append(make_zeros_like(tensor) if grad is None else grad)
    return tuple(_stack(row, output, tensor) for row, tensor in zip(rows, inputs, strict=True))


def _require_dependence(grad: Tensor | None, output: int, position: int, *, create_graph: bool) -> None:
    if grad is None:
        raise AutogradError(
            f"jacobian: Output {output} of the user-provided function is independent of input {position}. "
            "This is not allowed in strict mode. Set strict=False for zeros."
        )
    if create_graph and not grad._requires_grad:
        raise refuse_constant("jacobian", "jacobian", output)


def _stack(rows: list[Tensor], output: Tensor, like: Tensor) -> Tensor:
    sizes = (*output.shape, *like.shape)
    if not rows:
        return make_zeros_like(like, tuple(output.shape))
    stacked = upcalls.stack(rows) if output.shape else rows[0]
    return stacked if stacked.shape == sizes else upcalls.reshape(stacked, sizes)


def _find_all_rows(outputs: Tensors, inputs: Tensors, *, create_graph: bool) -> Matrix:
    """Computes the rows of all outputs in one backward pass with a batch dimension."""
    total = sum(map(_count_items, outputs))
    grads: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if total:
        units = list(map(box, _make_basis(outputs)))
        grads = find_gradients(outputs, inputs, units, create_graph=create_graph, is_grads_batched=True)
    blocks = [
        _split_rows(make_zeros_like(tensor, (total,)) if grad is None else grad, outputs, tensor)
        for grad, tensor in zip(grads, inputs, strict=True)
    ]
    return tuple(zip(*blocks, strict=True)) if blocks else ((),) * len(outputs)


def _split_rows(rows: Tensor, outputs: Tensors, like: Tensor) -> list[Tensor]:
    """Returns the rows of each output, with the dimensions of the output first."""
    counts = list(map(_count_items, outputs))
    return [
        upcalls.reshape(upcalls.getitem(rows, slice(stop - count, stop)), (*output.shape, *like.shape))
        for output, count, stop in zip(outputs, counts, accumulate(counts), strict=True)
    ]


def _find_columns(func: Function, inputs: Tensors) -> tuple[bool, Matrix]:
    """Runs the function on dual tensors, mapped over unit tangents.

    Returns:
        Whether the function returned a tuple; and for each output, a Tensor ``[*output, *input]`` for each
        input.
    """
    notes: list[bool] = []

    def push(*tangents: Any) -> list[Any]:
        with dual_level():
            duals = [
                make_dual(tensor, box(tangent)) for tensor, tangent in zip(inputs, tangents, strict=True)
            ]
            is_tuple, outputs = take_tuple(func(*duals), OUTPUTS, "jacobian")
            notes.append(is_tuple)
            return list(map(_read_tangent, outputs))

    columns = jax.vmap(push)(*_make_basis(inputs))
    return notes[-1], tuple(_split_columns(mapped, inputs) for mapped in columns)


def _read_tangent(output: Tensor) -> Any:
    """Returns the array of an output's tangent, or zeros."""
    tangent = unpack_dual(output).tangent
    return jnp.zeros_like(output._storage.array) if tangent is None else tangent._storage.array


def _split_columns(mapped: Any, inputs: Tensors) -> Tensors:
    """Splits the mapped tangents of one output by inputs, and moves the dimensions of the inputs last."""
    counts = list(map(_count_items, inputs))
    last = jnp.moveaxis(mapped, 0, -1)
    return tuple(
        box(last[..., stop - count : stop].reshape(*mapped.shape[1:], *tensor.shape))
        for tensor, count, stop in zip(inputs, counts, accumulate(counts), strict=True)
    )


def _count_items(tensor: Tensor) -> int:
    return math.prod(tensor._storage.array.shape)


def _make_basis(tensors: Tensors) -> list[Any]:
    """Returns all unit vectors: for each tensor an array ``[total, *shape]``. Equal rows form one vector."""
    counts = list(map(_count_items, tensors))
    basis: list[Any] = []
    for tensor, count, stop in zip(tensors, counts, accumulate(counts), strict=True):
        array = tensor._storage.array
        rows = np.eye(sum(counts), count, count - stop, dtype=array.dtype)
        basis.append(jnp.array(rows.reshape(len(rows), *array.shape), device=find_whole_placement(array)))
    return basis


def _iterate_units(tensor: Tensor) -> Iterator[Tensor]:
    """Yields the unit vectors of one tensor."""
    array = tensor._storage.array
    put = make_transfer(find_whole_placement(array))
    for place in range(array.size):
        unit = np.zeros(array.shape, array.dtype)
        unit.flat[place] = 1
        yield box(put(unit))
