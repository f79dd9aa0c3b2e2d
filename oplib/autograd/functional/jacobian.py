"""The Jacobian of a function: row by row, all rows at once, or by columns in forward mode."""

from __future__ import annotations

from typing import Any

from oplib.autograd.grad_mode import enable_grad
from oplib.errors import AutogradError, MissingRuleError, StrategyError
from oplib.tensor import Tensor, box, upcalls
from oplib.tracebacks import entry_point

from .arguments import Tensors, detach_results, take_tuple, untuple
from .basis import count_items, iterate_units, make_basis, split_rows
from .columns import find_columns
from .evaluation import Function, evaluate, take_point
from .strictness import find_gradients, make_zeros_like, refuse_constant

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
        AutogradError: options exclude each other, or ``strict`` found an independent output.
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
        is_tuple, given = take_tuple(inputs, "inputs", "jacobian")
        outputs_are_tuple, matrix = find_columns(func, given)
        return untuple([untuple(row, is_tuple) for row in matrix], outputs_are_tuple)
    with enable_grad():
        at = take_point(inputs, "jacobian", create_graph=create_graph)
        outputs = evaluate(func, at, "jacobian", strict=strict)
        if vectorize:
            matrix = _find_all_rows(outputs.tensors, at.tensors, create_graph=create_graph)
        else:
            matrix = tuple(
                _find_rows(place, output, at.tensors, create_graph=create_graph, strict=strict)
                for place, output in enumerate(outputs.tensors)
            )
    return outputs.untuple([at.untuple(row) for row in detach_results(matrix, create_graph=create_graph)])


def _check_options(strategy: str, *, create_graph: bool, strict: bool, vectorize: bool) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise StrategyError(
            'jacobian: expected strategy to be either "forward-mode" or "reverse-mode". '
            f"Got {strategy!r}. Forward mode is faster where the function has more outputs than inputs."
        )
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


def _find_rows(place: int, output: Tensor, inputs: Tensors, *, create_graph: bool, strict: bool) -> Tensors:
    """Computes the rows of one output, one backward pass for each item."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for unit in iterate_units(output):
        found = find_gradients((output,), inputs, (unit,), retain_graph=True, create_graph=create_graph)
        for index, (row, one) in enumerate(zip(rows, found, strict=True)):
            if strict:
                _require_dependence(one, place, index, create_graph=create_graph)
            row.append(make_zeros_like(inputs[index]) if one is None else one)
    return tuple(_stack(row, output, one) for row, one in zip(rows, inputs, strict=True))


def _require_dependence(row: Tensor | None, place: int, index: int, *, create_graph: bool) -> None:
    if row is None:
        raise AutogradError(
            f"jacobian: Output {place} of the user-provided function is independent of input {index}. This "
            "is not allowed in strict mode. Set strict=False for zeros."
        )
    if create_graph and not row._requires_grad:
        raise refuse_constant("jacobian", "jacobian", place)


def _stack(rows: list[Tensor], output: Tensor, one: Tensor) -> Tensor:
    sizes = (*output.shape, *one.shape)
    return upcalls.reshape(upcalls.stack(rows), sizes) if rows else make_zeros_like(one, tuple(output.shape))


def _find_all_rows(outputs: Tensors, inputs: Tensors, *, create_graph: bool) -> Matrix:
    """Computes the rows of all outputs in one backward pass with a batch dimension."""
    total = sum(map(count_items, outputs))
    found: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if total:
        units = [box(rows) for rows in make_basis(outputs)]
        found = find_gradients(outputs, inputs, units, create_graph=create_graph, is_grads_batched=True)
    columns = [
        split_rows(make_zeros_like(one, (total,)) if rows is None else rows, outputs)
        for rows, one in zip(found, inputs, strict=True)
    ]
    return tuple(
        tuple(
            upcalls.reshape(column[place], (*output.shape, *one.shape))
            for column, one in zip(columns, inputs, strict=True)
        )
        for place, output in enumerate(outputs)
    )
