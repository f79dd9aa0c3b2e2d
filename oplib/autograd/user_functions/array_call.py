"""One call of a Function as functions of arrays, which serve as the kernel and the rules of an op.

The methods of the user get Tensors around the arrays, and run as plain Python. So they may read anything, and
may set anything on ctx.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.masks import map_given, mask_given, pick_true, spread
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor
from oplib.errors import AutogradError, describe
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor

from .context import check_saved
from .function_node import BackwardCFunction, cast_gradients
from .jvp import call_jvp
from .recording import box_arrays, finish_call
from .trees import flatten_values, is_operand, list_values, pack_result, unflatten_values
from .vmap import call_own_rule, uses_own_rule

_new: Any = object.__new__


class Mold:
    """Values without the Tensors and arrays in them.

    Args:
        values: the values, which may be containers.

    Attributes:
        operands: the Tensors and arrays, until :meth:`take_operands`.
        flags: for each leaf, whether it is one of them.
        count: the number of values.
        specs: the structures of the containers.
    """

    def __init__(self, values: Collection[Any]) -> None:
        leaves, self.specs = flatten_values(values)
        self.count = len(values)
        self.flags = list(map(is_operand, leaves))
        self.operands = pick_true(leaves, self.flags)
        self._leaves = spread([None] * len(self.operands), self.flags, leaves)

    def take_operands(self) -> list[Any]:
        """Returns the Tensors and arrays, and forgets them: what a trace keeps must not hold them."""
        operands, self.operands = self.operands, []
        return operands

    def fill(self, operands: Sequence[Any], others: Any = NotImplemented) -> Values:
        """Returns the values with other operands, and with ``others`` for all other leaves if it is given."""
        kept = self._leaves if others is NotImplemented else [others] * len(self._leaves)
        leaves = spread(operands, self.flags, kept)
        return unflatten_values(leaves, self.count, self.specs)

    def pick(self, leaves: Sequence[Any]) -> list[Any]:
        """Returns those of other leaves that are at the places of operands."""
        return pick_true(leaves, self.flags)


class HeldContext:
    """A ctx between forward and backward, without its arrays.

    Args:
        ctx: the ctx.

    Attributes:
        arrays: its arrays, until they are taken.
    """

    def __init__(self, ctx: BackwardCFunction) -> None:
        self._class = type(ctx)
        check_saved(vars(ctx).get("to_save", ()), "save_for_backward")
        self._names = tuple(vars(ctx))
        self._mold = Mold(vars(ctx).values())
        operands = self._mold.take_operands()
        self._are_boxed = [isinstance(value, Tensor) for value in operands]
        self.arrays: list[Any] = list(map(_unbox, operands))

    def take_arrays(self) -> list[Any]:
        """Returns the arrays, and forgets them."""
        arrays, self.arrays = self.arrays, []
        return arrays

    def pull(self, arrays: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """Runs the user's backward, and returns a gradient or None for each array of the call.

        Args:
            arrays: those of the ctx.
            grads: the gradient, or None, for each array of the result.
        """
        pairs = zip(arrays, self._are_boxed, strict=True)
        values = self._mold.fill([ARRAYS.box(array) if boxed else array for array, boxed in pairs])
        ctx = _new(self._class)
        vars(ctx).update(zip(self._names, values, strict=True))
        result: Mold = vars(ctx).pop("_result")
        saved = [None if value is None else value._storage.array for value in vars(ctx).pop("to_save", ())]
        ctx._saved = tuple(map_given(_save, saved))
        boxed = map_given(ARRAYS.box, grads)
        if ctx.output_grad_dtypes is not None:
            boxed = cast_gradients(boxed, result.pick(ctx.output_grad_dtypes))
        due = result.fill(boxed, None)
        try:
            given = ctx._get_user_fn()(ctx, *due)
        except TypeError:
            ctx._check_backward(len(due))
            raise
        flat = ctx._flat_results(given)
        return [None if grad is None else grad._storage.array for grad in flat]


class ArrayCall:
    """One call of a Function, without the arrays of its arguments.

    Args:
        cls: the Function.
        args: the positional arguments.
        keywords: the keyword-only arguments.

    Attributes:
        cls: the Function.
        mold: the arguments.
        constant: for each array of the result, whether it was marked as non-differentiable.
        written: for each array of the result, the position of the operand whose new value it is, or None.
    """

    def __init__(self, cls: Any, args: Values, keywords: Mapping[str, Any]) -> None:
        self.cls = cls
        self._names = tuple(keywords)
        self.mold = Mold((*args, *keywords.values()))
        self.constant: list[bool] = []
        self.written: list[int | None] = []
        self._result: Mold
        self._kind: Any = None

    def run(self, needs: Sequence[bool], arrays: Sequence[Any]) -> tuple[BackwardCFunction, list[Any]]:
        """Runs forward, and setup_context if there is one.

        Args:
            needs: for each array, whether the call is differentiated with respect to it.
            arrays: the arrays.

        Returns:
            The ctx, and the arrays of the result.

        Raises:
            AutogradError: forward writes into an argument without declaring it.
        """
        mold, cls = self.mold, self.cls
        boxes = list(map(ARRAYS.box, arrays))
        for box, needed in zip(boxes, needs, strict=True):
            box._requires_grad = needed and has_gradient(box._storage.array.dtype)
        values = mold.fill(boxes)
        ctx = _new(cls._backward_cls)
        ctx.needs_input_grad = mold.fill([box._requires_grad for box in boxes], False)
        ctx._tensor_flags, ctx._argument_count, ctx._argument_specs = mold.flags, mold.count, mold.specs
        first = mold.count - len(self._names)
        keywords = dict(zip(self._names, values[first:], strict=True))
        result = box_arrays(cls._call_forward(ctx, values[:first], keywords))
        kept = {name: vars(ctx)[name] for name in ("to_save", "saved_for_forward") if name in vars(ctx)}
        constant, dirty = set(map(id, ctx.non_differentiable)), set(map(id, ctx.dirty_tensors))
        finish_call(ctx, result, boxes)
        self._result = shape = Mold(list_values(result))
        outputs, self._kind = shape.take_operands(), type(result)
        vars(ctx).update(kept, _result=shape)
        places = {id(box): index for index, box in enumerate(boxes) if id(box) in dirty}
        self.constant = [id(output) in constant for output in outputs]
        self.written = [places.get(id(output)) for output in outputs]
        for index, (box, array) in enumerate(zip(boxes, arrays, strict=True)):
            if box._storage.owner.array is not array and index not in self.written:
                raise AutogradError(
                    f"{cls.__name__}: forward writes into an argument that it does not declare, and JAX "
                    f"would not see it. Got {describe(array)}. Call ctx.mark_dirty(x) and return x, or "
                    "write into x.clone()."
                )
        return ctx, list(map(_unbox, outputs))

    def pack(self, results: Sequence[Any]) -> Any:
        """Arranges arrays, or the Tensors around them, as the result of forward."""
        values = self._result.fill(results)
        return pack_result(values, len(values), {}, self._kind)

    def push(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Runs forward and then jvp; returns the arrays of the result, and a tangent or None for each.

        Args:
            arrays: the arrays of the call.
            tangents: the tangent of each, or None.
        """
        ctx, outputs = self.run(mask_given(tangents), arrays)
        boxed = map_given(ARRAYS.box, tangents)
        pushed = self._result.pick(call_jvp(ctx, list(map(ARRAYS.box, arrays)), boxed))
        return outputs, map_given(_unbox, pushed)

    def map(
        self, info: Any, dims: Sequence[int | None], arrays: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Runs the static ``vmap``; returns the arrays of the result, and the batch dimension of each."""
        uses_own_rule(self.cls)
        values = self.mold.fill(list(map(ARRAYS.box, arrays)))
        found = call_own_rule(self.cls, info, self.mold.fill(dims, None), values)[:2]
        pairs = [pair for pair in zip(*found, strict=True) if is_operand(pair[0])]
        return [_unbox(output) for output, _ in pairs], [dim for _, dim in pairs]


def _unbox(value: Any) -> Any:
    return value._storage.array if isinstance(value, Tensor) else value


def _save(array: Any) -> SavedTensor:
    return SavedTensor.of_value(array, Storage(array))
