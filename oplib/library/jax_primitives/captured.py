"""Calls of local ops whose kernel closes over tracers of an enclosing trace.

A primitive cannot carry such a kernel, because its parameters outlive the trace. So the call runs in place,
with its rules as those of a ``jax.custom_jvp``, which allows this. Its derivative by a formula is the
primitive *op.lin*, which reverse mode transposes while the trace lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad

from oplib.autograd.array_functions.array_function import Mask, has_gradient
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.errors import CapturedTracerError
from oplib.library.arguments.layout import replace_refs
from oplib.library.arguments.structure import Structure
from oplib.library.batching_and_sharding.levels import to_jax_array
from oplib.protocols import Values

from .bound_call import BoundCall
from .linear import Linear, make_linear
from .linear_primitive import list_zeros
from .plain_function import bind_jvp_rule

Function = Callable[..., Values]
RunForward = Callable[..., tuple[Any, Any, Any]]
BindLinear = Callable[..., Sequence[Any]]


class CapturedCall:
    """One call.

    Args:
        call: the bound call.
        run_forward: runs the forward of an op instead of its kernel.
        bind_linear: binds the primitive of a derivative.
    """

    structure: Structure | None = None

    def __init__(self, call: BoundCall, run_forward: RunForward, bind_linear: BindLinear) -> None:
        self._call = call
        self._run_forward = run_forward
        self._bind_linear = bind_linear

    def run(self, arrays: Sequence[Any]) -> tuple[Structure, list[Any]]:
        """Runs the call in the current trace.

        Raises:
            CapturedTracerError: a value that the kernel closes over is differentiated.
        """
        try:
            inputs = tuple(map(to_jax_array, arrays))
            outputs = self._attach_rules(inputs)(*inputs)
        except jax.errors.UnexpectedTracerError:
            raise CapturedTracerError(
                f"{self._call}: the op closes over a value that JAX differentiates, and its rules give no "
                'gradient for it. Make the value an argument of the op, or register "derive".'
            ) from None
        return self.structure or self._call.structure(arrays), list(outputs)

    def _run_kernel(self, *arrays: Any) -> Values:
        self.structure, outputs = self._call.run_in_place(arrays)
        return tuple(outputs)

    def _attach_rules(self, inputs: Sequence[Any]) -> Function:
        record = self._call.record
        if record.derivative.constant is not None:
            return lambda *arrays: tuple(map(jax.lax.stop_gradient, self._run_kernel(*arrays)))
        if record.is_transparent:
            return self._run_kernel
        if record.jvp is None and (self._call.layout.refs or self._captures_ref(inputs)):
            return self._attach_backward()
        function = jax.custom_jvp(self._run_kernel)
        if record.derivative.backward is not None:
            push = partial(self._push, function)
        elif record.jvp is not None:
            push = bind_jvp_rule(self._call, self._note)
        else:
            push = self._refuse
        function.defjvp(push, symbolic_zeros=True)
        return function

    def _captures_ref(self, inputs: Sequence[Any]) -> bool:
        effects = jax.make_jaxpr(self._run_kernel)(*inputs).effects
        return any(hasattr(effect, "input") for effect in effects)

    def _attach_backward(self) -> Function:
        """Returns the kernel as a ``jax.custom_vjp``: under ``jit``, JAX finds Refs in no other form."""
        linears: list[Linear] = []

        def run(refs: Sequence[Any], *arrays: Any) -> Values:
            call = self._call
            inner = BoundCall(call.overload, replace_refs(call.layout, refs), call.bind)
            self.structure, outputs = inner.run_in_place(arrays)
            return tuple(outputs)

        def forward(refs: Sequence[Any], *primals: Any) -> Any:
            primals = tuple(map(to_jax_array, primals))
            wanted = tuple([has_gradient(value.dtype) for value in primals])
            outputs, linear, residuals = self._plan(partial(run, refs), primals, wanted)
            linears.append(linear)
            return outputs, residuals

        def backward(residuals: Any, cotangents: Any) -> Any:
            linear = linears[-1]
            grads = linear.pull(residuals, pick_true(cotangents, linear.differentiable))
            return None, *spread(grads, linear.wanted)

        function = jax.custom_vjp(run)
        function.defvjp(forward, backward)
        return partial(function, self._call.layout.refs)

    def _note(self, structure: Structure) -> None:
        self.structure = structure

    def _refuse(self, primals: Sequence[Any], _tangents: Sequence[Any]) -> Any:
        """Raises the error that says which rule is missing."""
        make_linear(self._call, (), (True,) * len(primals), inputs=primals, outputs=())

    def _push(self, function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        primals = tuple(map(to_jax_array, primals))
        wanted = tuple(not isinstance(tangent, SymbolicZero) for tangent in tangents)
        outputs, linear, residuals = self._plan(function, primals, wanted)
        pushed = self._bind_linear(*residuals, *pick_true(tangents, wanted), linear=linear)
        full = spread(pushed, linear.differentiable, list_zeros(outputs))
        return outputs, tuple(map(ad.instantiate_zeros, full))

    def _plan(self, function: Function, primals: Sequence[Any], wanted: Mask) -> tuple[Any, Linear, Any]:
        """Runs the call, and returns its results, its derivative and the residuals of that."""
        planned = None
        if self._call.record.derivative.forward is None:
            outputs = function(*primals)
        else:
            results, plan, extras = self._run_forward(self._call, wanted, primals)
            outputs, planned, self.structure = tuple(results), (plan, extras), plan.structure
        linear, residuals = make_linear(
            self._call,
            (),
            wanted,
            inputs=primals,
            outputs=outputs,
            structure=self.structure,
            planned=planned,
        )
        return outputs, linear, residuals
