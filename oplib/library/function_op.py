"""Functions as ops: ``Function.apply`` on arrays, and on Tensors that JAX differentiates.

A Function is a local op for each number of its Tensors and arrays. So all transformations of JAX find its
rules as they find those of an op. The first argument of the op is the call itself, which is new for each
``apply``: a Function runs as plain Python each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.recording.in_place import check_may_write
from oplib.autograd.user_functions.array_call import ArrayCall, HeldContext
from oplib.autograd.user_functions.function_node import refuse_gradients
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor, box, read_array
from oplib.tensor.storage.cut import cuts_results, keep_derivative, stop
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.views.view_storage import refuse_shared_memory, refuse_writes

from .array_function import select_rules
from .op_records.record import Derivative
from .registration.custom_op import make_function_op
from .schema import parse_schema


def apply_as_op(cls: Any, args: Values, keywords: Mapping[str, Any]) -> Any:
    """Applies a Function to arrays, to Tensors that JAX differentiates, or to both.

    Raises:
        AutogradError: forward writes into an argument, and one is an array.
        AutogradError: a Tensor would be written whose items, or another one, share its memory.
        TracingError: a Tensor from outside the trace would be written.
    """
    call = ArrayCall(cls, args, keywords)
    operands = call.mold.take_operands()
    op = _find_op(cls, len(operands))
    are_tensors = [isinstance(value, Tensor) for value in operands]
    if all(are_tensors):
        return _apply_to_tensors(op, call, operands)
    mixed = any(are_tensors)
    results = op(
        call,
        *[
            box(value) if mixed and not own else value
            for value, own in zip(operands, are_tensors, strict=True)
        ],
    )
    if pick_given(call.written):
        raise AutogradError(
            f"{cls.__name__}: mark_dirty was called, and an argument is an array. Got "
            f"{len(operands) - sum(are_tensors)} arrays and {sum(are_tensors)} Tensors. An array cannot be "
            "written. Pass Tensors, or return a new value."
        )
    return call.pack(results)


def _apply_to_tensors(op: Any, call: ArrayCall, tensors: Sequence[Tensor]) -> Any:
    """Applies a Function to Tensors without recording the call, and writes what forward has written."""
    arrays = op(call, *map(read_array, tensors))
    name, places = call.cls.__name__, pick_given(call.written)
    if places:
        written = [tensors[index] for index in places]
        refuse_writes(written, name)
        for tensor in written:
            check_may_write(tensor, name, tensors)
        readers = [tensor for index, tensor in enumerate(tensors) if index not in places]
        refuse_shared_memory(written, name, readers=readers)
    recording = modes.grad_enabled and any(tensor._requires_grad for tensor in tensors)
    cuts = cuts_results(modes.state)
    results: list[Tensor] = []
    for array, index, constant in zip(arrays, call.written, call.constant, strict=True):
        is_constant = (cuts or constant) and has_gradient(array.dtype)
        if index is None:
            array = stop(array) if is_constant else array
            results.append(_box(name, array, requires_grad=recording and not constant))
        else:
            tensor = tensors[index]
            refuse_escape(array, tensor, name)
            storage = tensor._storage
            storage.write(keep_derivative(storage.array, array) if is_constant else array)
            results.append(tensor.detach() if is_constant else tensor)
    return call.pack(results)


def _box(name: str, array: Any, *, requires_grad: bool) -> Tensor:
    """Boxes a result. It requires grad in the body of control flow, which JAX differentiates."""
    boxed = ARRAYS.box(array)
    if not requires_grad or not has_gradient(array.dtype):
        return boxed
    return refuse_gradients(
        [boxed],
        f"{name}: JAX differentiates a Function in the body of a control flow function, together with the "
        "body. The body asked for a gradient through the Function. Take the gradient outside of the body.",
    )[0]


def _find_op(cls: Any, count: int) -> Any:
    """Returns the op of a Function for this number of operands."""
    ops = vars(cls).get("_ops")
    if ops is None:
        cls._ops = ops = {}
    op = ops.get(count)
    if op is None:
        op = ops[count] = _make_op(cls, count)
    return op


def _make_op(cls: Any, count: int) -> Any:
    def kernel(call: ArrayCall, *arrays: Any) -> list[Any]:
        return call.run((False,) * count, arrays)[1]

    def forward(ctx: Any, call: ArrayCall, *arrays: Any) -> list[Any]:
        made, outputs = call.run(ctx.needs_input_grad[1:], arrays)
        ctx.set_materialize_grads(made.materialize_grads)
        constant = zip(outputs, call.constant, strict=True)
        ctx.mark_non_differentiable(*(output for output, is_constant in constant if is_constant))
        ctx.held = HeldContext(made)
        ctx.save_for_backward(*ctx.held.take_arrays())
        return outputs

    def backward(ctx: Any, grads: list[Any]) -> Values:
        return None, *ctx.held.pull(ctx.saved_tensors, grads)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return primals[0].push(primals[1:], tangents[1:])

    def batch(info: Any, in_dims: Sequence[Any], call: ArrayCall, *arrays: Any) -> Any:
        return call.map(info, in_dims[1:], arrays)

    tensors = "".join(f", Tensor x{index}" for index in range(count))
    schema = parse_schema(f"local::{cls.__name__}(Any call{tensors}) -> Tensor[]")
    rules = select_rules(cls, Derivative(backward, forward=forward), jvp, batch)
    return make_function_op(kernel, schema, compiled=False, **rules)
