"""The node of a call of a compiled function whose results are differentiated outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from oplib.autograd.array_functions.array_function import ArrayFunction, BackwardPlan, Mask
from oplib.autograd.nodes.node import Gradients
from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.saved.saved_tensor import second_pass_error
from oplib.errors import AutogradError, SavedTensorError
from oplib.tensor import box


class CallPlan(BackwardPlan):
    """The plan of a whole call. The tape has traced its backward.

    Args:
        name: of the function.
        pull: the jaxpr of the backward, from residuals and cotangents to the gradients that there are.
        count: how many residuals it has. For the plan each is an intermediate of the call.
        specs: the shapes of the results that can be differentiated.
        reached: for each edge whether it has a gradient.
        refused: why some of these results cannot be differentiated, by their slots.
    """

    __slots__ = ("_name", "_pull", "_refused")

    def __init__(
        self,
        name: str,
        pull: Any,
        count: int,
        *,
        specs: Sequence[Any],
        reached: Sequence[bool],
        refused: Mapping[int, str],
    ) -> None:
        first = len(reached) + len(specs)
        super().__init__(tuple(reached), specs, range(first, first + count))
        self._name, self._pull, self._refused = name, pull, refused

    @property
    def op_name(self) -> str:  # noqa: D102  described in BackwardPlan
        return self._name

    def check_slots(self, given: Mask) -> None:
        """Raises if a gradient arrives at a result that cannot be differentiated."""
        for slot, reason in self._refused.items():
            if given[slot]:
                raise SavedTensorError(reason)

    def _make_backward(self, given: Mask) -> ArrayFunction:
        self.check_slots(given)
        count = len(self.sources)

        def pull_back(*arrays: Any) -> tuple[Any, ...]:
            pull = jaxpr_as_fun(ClosedJaxpr(self._pull, arrays[:count]))
            rest = iter(arrays[count:])
            specs: Any = zip(given, self.outputs, strict=True)
            found = iter(
                pull(*[next(rest) if has else jnp.zeros(one.shape, one.dtype) for has, one in specs])
            )
            return tuple([next(found) if reached else None for reached in self.wanted])

        return ArrayFunction(pull_back, self._name, is_formula=True)


class CompiledCallBackward(FormulaNode):
    """Runs the backward of a whole call as one compiled program.

    Attributes:
        again: gives the gradients of a pass that is recorded, from cotangents as Tensors.
    """

    plan: CallPlan  # pyright: ignore[reportIncompatibleVariableOverride]  the only kind here

    def again(self, _: Sequence[Any]) -> Sequence[Any]:
        """Raises for a node that ``oplib.vmap`` has built again: the call itself is not mapped.

        Raises:
            AutogradError: always.
        """
        raise AutogradError(
            f"{self.name()}: it was recorded inside vmap, and a derivative of higher order traces "
            f"{self.op_name()} again, without the map. Take both derivatives inside vmap."
        )

    def _apply_recorded(self, grads: Gradients, given: Mask) -> Gradients:
        self.plan.check_slots(given)
        rest = iter(grads)
        specs = zip(given, self.input_metadata, strict=True)
        full = [next(rest) if has else box(jnp.zeros(spec.shape, spec.dtype)) for has, spec in specs]
        found = iter(self.again(full))
        return tuple([next(found) if reached else None for reached in self.plan.wanted])

    def release(self) -> None:
        """Frees the residuals."""
        super().release()
        self.again = _refuse


def _refuse(_: Sequence[Any]) -> Sequence[Any]:
    raise second_pass_error("CompiledCallBackward")
