"""Between Tensors and arrays: reading inputs, writing into Tensors, boxing results with or without a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.recording.in_place import read_only_error
from oplib.errors import ArgumentError, AutogradError, describe
from oplib.library.schema import FunctionSchema
from oplib.modes import modes
from oplib.tensor import Tensor, box, read_array
from oplib.tensor.inference import mark_inference, refuse_saving
from oplib.tensor.storage.cut import cuts_results, fit_written, stop
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.views.view_storage import refuse_shared_memory, refuse_writes

from .scalars import to_operand


def read_arrays(flat: Sequence[Any]) -> tuple[list[Tensor | None], list[Any]]:
    """Returns, for each value of a call on Tensors, its Tensor (None for a constant) and its array."""
    tensors: list[Tensor | None] = []
    arrays: list[Any] = []
    for value in flat:
        if isinstance(value, Tensor):
            tensors.append(value)
            arrays.append(value.array)
        else:
            tensors.append(None)
            arrays.append(to_constant(value))
    return tensors, arrays


def to_constant(value: Any) -> Any:
    """Converts a number operand or an array among Tensors; copies a numpy array by the dtype rules."""
    if isinstance(value, (int, float)):
        operand = to_operand(value)
        return value if operand is None else operand  # the integer is too large: JAX raises
    return to_array(value, None, None) if isinstance(value, np.ndarray) else value


def unbox(value: Any) -> Any:
    """Returns the array of a Tensor; any other value is returned unchanged."""
    return read_array(value) if isinstance(value, Tensor) else value


def box_results(outputs: Sequence[Any]) -> list[Tensor]:
    """Boxes results that are not recorded."""
    state = modes.state
    if cuts_results(state):
        outputs = list(map(stop, outputs))
    boxed = list(map(box, outputs))
    if state.tracing is not None:
        for tensor in boxed:
            tensor._scope = state.tracing_scope
    if state.inference:
        for tensor in boxed:
            mark_inference(tensor)
    return boxed


def refuse_inference(op: str, tensors: Sequence[Tensor | None], results: Sequence[Tensor | None]) -> None:
    """Raises AutogradError if the node just recorded has saved a tensor of inference mode."""
    suspects = [tensor for tensor in tensors if tensor is not None and tensor._storage.is_inference]
    if not suspects:
        return
    nodes = [result._grad_fn for result in results if result is not None]
    saved = {id(storage) for node in nodes if isinstance(node, FormulaNode) for storage in node.storages}
    for tensor in suspects:
        if id(tensor._storage) in saved:
            refuse_saving(tensor, op)


def check_written(op: str, schema: FunctionSchema, values: Sequence[Any], *, have_new: bool) -> list[Tensor]:
    """Returns the Tensors that a call is about to write, and raises if one may not be written.

    Args:
        op: the op's name.
        schema: that of the op.
        values: the arguments.
        have_new: whether each gets a new value of its own, so that no two may share memory.

    Raises:
        ArgumentError: a written argument is no Tensor.
        AutogradError: the call would write a leaf that requires grad while grad mode is on, the result of a
            view, items that share memory, or an inference tensor outside of inference mode.
    """
    written: list[Tensor] = []
    for argument, value in zip(schema.arguments, values, strict=True):
        if not argument.is_written or value is None:
            continue
        for member in value if isinstance(value, (list, tuple)) else [value]:
            if member is not None:
                _check_may_write(op, argument.name, member)
                written.append(member)
    refuse_writes(written, op)
    if have_new:
        refuse_shared_memory(written, op)
    return written


def _check_may_write(op: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"{op}: argument '{name}' is written, and only a Tensor can be. Got {describe(value)}. "
            f"Pass oplib.tensor(value), or call .functional on arrays."
        )
    if value._requires_grad and modes.grad_enabled:
        kind = "a leaf Variable that requires grad" if value._grad_fn is None else "a tensor with history"
        raise AutogradError(
            f"{op}: {kind} is being used in an in-place operation. Argument '{name}' is "
            f"{describe(value.array)}. Run the call under oplib.no_grad(), or write into tensor.detach()."
        )
    if value._read_only is not None:
        raise read_only_error(value, op)


def refuse_out_gradient(op: str) -> AutogradError:
    """Returns the error for a gradient through an op with ``Tag.out``."""
    return AutogradError(
        f"{op}: functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad. Run it under oplib.no_grad(), or use the op without out=."
    )


def share_storage(recorded: Tensor, written: Tensor, op: str) -> Tensor:
    """Makes a recorded result an alias of the written tensor, which keeps its own history."""
    recorded._storage = written._storage
    recorded._read_only = op
    return recorded


def write_back(op: str, outputs: Sequence[Any], written: Sequence[Tensor]) -> None:
    """Writes the new values, which are the first outputs, into their Tensors; all of them or none."""
    for tensor, new in zip(written, outputs, strict=False):
        old = tensor._storage.array
        if new.shape != old.shape or new.dtype != old.dtype:
            raise AutogradError(
                f"{op}: the new value of a written argument does not fit the tensor. Got {describe(new)} for "
                f"{describe(old)}. Return an array of the same shape and dtype from the kernel."
            )
        refuse_escape(new, tensor, op)
    for tensor, new in zip(written, outputs, strict=False):
        tensor._storage.write(fit_written(tensor._storage, new))
