"""Calls of a Function that only JAX differentiates: traced Tensors, without recording.

The tape does not record such a call, so JAX gets the rule as a ``jax.custom_vjp``. Forward and backward are
traced like any function. Saved values, and Tensors and arrays set on ctx, are the residuals. Other attributes
of ctx are kept in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.engine.validation import validate_gradients
from oplib.autograd.nodes.gradient_representation import ARRAYS, is_tracer_class
from oplib.modes import modes
from oplib.tensor import Tensor, read_array
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.storage.overlay import overlays

from .function_call import FunctionCall
from .function_node import BackwardCFunction, refuse_gradient
from .recording import finish_call
from .trees import flatten_values, pack_result, unflatten_values

_new: Any = object.__new__
Arrays = Sequence[Any]


def is_differentiated_by_jax(cls: Any, call: FunctionCall) -> bool:
    """Returns whether JAX gets the rule of a call off the tape: an input is traced, and there is a rule.

    In the trace of ``oplib.jit`` itself the tape alone differentiates.
    """
    if call.tangents is not None or not cls._is_users:
        return False
    if cls.backward is cls._root.backward and cls.vjp is cls._root.vjp:
        return False
    overlay = overlays.current
    if overlay is not None and overlay.takes_writes and overlay.is_current_trace():
        return False
    return any(is_tracer_class[type(read_array(tensor))] for tensor in call.inputs)


def call_traced(
    cls: Any, args: tuple[Any, ...], keywords: dict[str, Any], leaves: Sequence[Any], call: FunctionCall
) -> Any:
    """Calls a Function so that JAX finds its backward.

    Raises:
        TracingError: a tensor from outside the trace would be written.
    """
    operands = list(map(read_array, call.inputs))
    if call.recording:  # the program of the body outlives the call, and must not hold Tensors of the user
        call.inputs = list(map(ARRAYS.box, operands))
        boxes = iter(call.inputs)
        leaves = [next(boxes) if flag else leaf for leaf, flag in zip(leaves, call.flags, strict=True)]
    traced = _TracedCall(cls, leaves, call, positional=len(args), names=list(keywords))
    run = traced.run = jax.custom_vjp(traced.forward)
    run.defvjp(traced.forward_and_save, traced.backward)
    return traced.rebuild(run(*operands))


class _TracedCall:
    """One call, as the three functions that JAX needs."""

    def __init__(
        self, cls: Any, leaves: Sequence[Any], call: FunctionCall, *, positional: int, names: list[str]
    ) -> None:
        self._cls = cls
        self._positional = positional
        self._names = names
        self._leaves = leaves
        self._call = call
        self.run: Any = None  # forward with its rule
        self._ctx: BackwardCFunction
        self._outputs: list[Any]  # flat results, with a placeholder for each Tensor
        self._kind: Any
        self._constant: list[bool] = []

    def forward(self, *arrays: Any) -> tuple[Any, ...]:
        """Runs the user's forward, and returns the arrays of its Tensors."""
        return self._run(arrays)[0]

    def forward_and_save(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Runs the user's forward, and returns the arrays of its Tensors and the residuals."""
        outputs, saved = self._run(arrays)
        attributes = {name: value for name, value in vars(self._ctx).items() if _is_array(value)}
        residuals = [None if tensor is None else tensor._storage.array for tensor in saved]
        values = {name: _unbox(value) for name, value in attributes.items()}
        if self._call.recording:
            residuals, outputs = self._give_rule(residuals, outputs, arrays)
        return outputs, (residuals, values)

    def _give_rule(
        self, residuals: list[Any], outputs: tuple[Any, ...], arrays: Arrays
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Replaces the outputs of forward by those of a call with the rule.

        Otherwise a second derivative would differentiate forward, and ignore the rule of the user.
        """
        state = dict(vars(self))
        ruled = dict(zip(map(id, outputs), self.run(*arrays), strict=True))
        vars(self).update(state)
        return [ruled.get(id(residual), residual) for residual in residuals], tuple(
            ruled[id(output)] for output in outputs
        )

    def _run(self, arrays: Arrays) -> tuple[tuple[Any, ...], tuple[Tensor | None, ...]]:
        call = self._call
        boxes = [ARRAYS.box(array) for array in arrays]
        for box, tensor in zip(boxes, call.inputs, strict=True):
            box._requires_grad = tensor._requires_grad  # forward may differentiate with grad mode on again
        rest = iter(boxes)
        leaves = [next(rest) if flag else leaf for leaf, flag in zip(self._leaves, call.flags, strict=True)]
        values = unflatten_values(leaves, call.argument_count, call.specs)
        inner = FunctionCall(
            [leaf for leaf, flag in zip(leaves, call.flags, strict=True) if flag],
            call.flags,
            call.argument_count,
            call.specs,
            modes.state,
            recording=False,
        )
        ctx = self._ctx = _new(self._cls._backward_cls)
        needs = [flag and has_gradient(leaf.dtype) for leaf, flag in zip(leaves, call.flags, strict=True)]
        ctx.needs_input_grad = unflatten_values(needs, call.argument_count, call.specs)
        keywords = dict(zip(self._names, values[self._positional :], strict=True))
        result = inner.run_below(self._cls._call_forward, ctx, values[: self._positional], keywords)
        saved, constant = ctx.to_save, {id(tensor) for tensor in ctx.non_differentiable}
        dirty = {id(tensor) for tensor in ctx.dirty_tensors}
        written = {id(tensor): index for index, tensor in enumerate(inner.inputs) if id(tensor) in dirty}
        flat = flatten_values(result if isinstance(result, tuple) else (result,))[0]
        self._constant = [id(leaf) in constant for leaf in flat if isinstance(leaf, Tensor)]
        self._kind = type(result)
        finish_call(ctx, result, inner)
        self._outputs = [
            written.get(id(leaf), _FRESH) if isinstance(leaf, Tensor) else _Other(leaf) for leaf in flat
        ]
        return tuple([leaf._storage.array for leaf in flat if isinstance(leaf, Tensor)]), saved

    def backward(self, residuals: Any, cotangents: Arrays) -> tuple[Any, ...]:
        """Runs the user's backward on residuals. Complex gradients are the conjugates of JAX's."""
        saved, attributes = residuals
        ctx = _new(self._cls._backward_cls)
        ctx.__dict__.update(vars(self._ctx))
        for name, array in attributes.items():
            boxed = isinstance(vars(self._ctx)[name], Tensor)
            setattr(ctx, name, ARRAYS.box(array) if boxed else array)
        ctx._saved_for_jvp = tuple([None if array is None else ARRAYS.box(array) for array in saved])
        grads = self._arrange(ctx, cotangents)
        state = modes.state
        before, state.grad_enabled = state.grad_enabled, False
        try:
            results = ctx._get_user_fn()(ctx, *grads)
        finally:
            state.grad_enabled = before
        return self._validate(ctx, ctx._flat_results(results))

    def _arrange(self, ctx: BackwardCFunction, cotangents: Arrays) -> tuple[Any, ...]:
        """Puts the gradients of the results at their places."""
        due = iter(zip(cotangents, self._constant, strict=True))
        grads: list[Tensor | None] = []
        for output in self._outputs:
            if isinstance(output, _Other):
                grads.append(None)
                continue
            array, is_constant = next(due)
            if not has_gradient(array.dtype):
                grads.append(None)
            else:
                grads.append(ARRAYS.box(jnp.zeros_like(array) if is_constant else jnp.conj(array)))
        return unflatten_values(grads, ctx._output_count, ctx._output_specs)

    def _validate(self, ctx: BackwardCFunction, results: Sequence[Tensor | None]) -> tuple[Any, ...]:
        inputs = [tensor._storage.array for tensor in self._call.inputs]
        holder: Any = SimpleNamespace(input_metadata=inputs)
        edges = [(holder, index) if has_gradient(array.dtype) else None for index, array in enumerate(inputs)]
        grads = [None if result is None else result._storage.array for result in results]
        fitted = validate_gradients(grads, edges, ctx.name(), ARRAYS)
        return tuple(
            [
                np.zeros(array.shape, jax.dtypes.float0)
                if edge is None
                else jnp.zeros_like(array)
                if grad is None
                else jnp.conj(grad)
                for array, edge, grad in zip(inputs, edges, fitted, strict=True)
            ]
        )

    def rebuild(self, arrays: Arrays) -> Any:
        """Returns the result of forward, with the arrays of JAX in its Tensors."""
        left = iter(zip(arrays, self._constant, strict=True))
        leaves: list[Any] = []
        for output in self._outputs:
            if isinstance(output, _Other):
                leaves.append(output.value)
            elif output is _FRESH:
                leaves.append(self._box(*next(left)))
            else:
                leaves.append(_write(self._call.inputs[output], next(left)[0], self._cls.__name__))
        ctx = self._ctx
        return pack_result(leaves, ctx._output_count, ctx._output_specs, self._kind)

    def _box(self, array: Any, is_constant: bool) -> Tensor:
        """Boxes a result of forward. It requires grad if the call is recorded and JAX differentiates it."""
        fresh = ARRAYS.box(array)
        if is_constant or not self._call.recording or not has_gradient(array.dtype):
            return fresh
        return refuse_gradient(
            fresh,
            f"{self._cls.__name__}: JAX differentiates a Function in the body of a control flow function, "
            "together with the body. The body asked for a gradient through the Function. Take the gradient "
            "outside of the body, or register an op: oplib.custom_op.",
        )


class _Other:
    """A result that is not a Tensor."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_FRESH: Any = object()


def _write(tensor: Tensor, array: Any, op: str) -> Tensor:
    refuse_escape(array, tensor, op)
    tensor._storage.write(array)
    return tensor


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, jax.Array))


def _unbox(value: Any) -> Any:
    return value._storage.array if isinstance(value, Tensor) else value
