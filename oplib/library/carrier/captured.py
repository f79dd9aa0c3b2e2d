"""Calls of local ops whose kernel closes over tracers of an enclosing trace.

A primitive cannot carry such a kernel, because its parameters outlive the trace. So the call runs in place,
with its rules as those of ``jax.custom_vjp`` or ``jax.custom_jvp``, which allow this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.library.arguments.structure import Structure

from .bound_call import BoundCall
from .linear import Linear, make_linear
from .plain_function import bind_jvp_rule

Function = Callable[..., tuple[Any, ...]]
RunForward = Callable[..., tuple[Any, Any, Any]]


class CapturedCall:
    """One call.

    Args:
        call: the bound call.
        run_forward: runs the forward of an op instead of its kernel.
    """

    structure: Structure | None = None
    linear: Linear

    def __init__(self, call: BoundCall, run_forward: RunForward) -> None:
        self._call = call
        self._run_forward = run_forward

    def run(self, arrays: Sequence[Any]) -> tuple[Structure, list[Any]]:
        """Runs the call in the current trace."""
        outputs = self._attach_rules()(*arrays)
        return self.structure or self._call.structure(arrays), list(outputs)

    def _run_kernel(self, *arrays: Any) -> tuple[Any, ...]:
        self.structure, outputs = self._call.run_plain((), arrays)
        return tuple(outputs)

    def _attach_rules(self) -> Function:
        record = self._call.record
        if record.derivative.constant is not None:
            return lambda *arrays: tuple(map(jax.lax.stop_gradient, self._run_kernel(*arrays)))
        if record.is_transparent and record.jvp is None:
            return self._run_kernel
        if record.derivative.backward is not None:
            function = jax.custom_vjp(self._run_kernel)
            function.defvjp(self._run_and_save, self._pull)
        else:
            function = jax.custom_jvp(self._run_kernel)
            has_rule = record.jvp is not None
            push = bind_jvp_rule(self._call.overload, self._call.layout) if has_rule else self._refuse
            function.defjvp(push, symbolic_zeros=True)
        return function

    def _refuse(self, primals: Sequence[Any], _tangents: Sequence[Any]) -> Any:
        """Raises the error that says which rule is missing."""
        make_linear(self._call, (), (True,) * len(primals), inputs=primals, outputs=())

    def _run_and_save(self, *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        wanted = tuple(has_gradient(value.dtype) for value in arrays)
        planned = None
        if self._call.record.derivative.forward is None:
            outputs = self._run_kernel(*arrays)
        else:
            found, *planned = self._run_forward(self._call, wanted, arrays)
            outputs = tuple(found)
            self.structure = planned[0].structure
        self.linear, residuals = make_linear(
            self._call,
            (),
            wanted,
            inputs=arrays,
            outputs=outputs,
            structure=self.structure,
            planned=None if planned is None else (planned[0], planned[1]),
        )
        return outputs, residuals

    def _pull(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(cotangents, self.linear.differentiable, strict=True)
        grads = iter(self.linear.pull(residuals, [cotangent for cotangent, has in pairs if has]))
        return tuple(next(grads) if want else None for want in self.linear.wanted)
