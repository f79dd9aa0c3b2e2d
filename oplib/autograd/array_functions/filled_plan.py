"""Plans whose backward takes the gradients of all outputs. Zeros stand for absent ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from .array_function import ArrayFunction, Arrays, BackwardPlan, Mask, spread_gradients
from .array_types import zeros_of
from .compilation import bind_jaxpr


class FilledPlan(BackwardPlan):
    """The plan of a backward that is one function. Its residuals are intermediates of the call.

    Args:
        function: ``(*residuals, *gradients of all outputs that are not None) -> gradients of the inputs``.
        wanted: for each input, whether it has a gradient.
        outputs: the shape and dtype of each output; None for one without gradient.
        count: the number of residuals.
    """

    __slots__ = ("_function",)

    def __init__(self, function: ArrayFunction, wanted: Mask, outputs: Sequence[Any], count: int) -> None:
        first = len(wanted) + len(outputs)
        super().__init__(wanted, outputs, range(first, first + count))
        self._function = function

    def _make_backward(self, present: Mask) -> ArrayFunction:
        inner = self._function
        filled = fill_absent(inner.function, present, self.outputs, len(self.sources))
        return ArrayFunction(filled, inner.name, compiled=inner.compiled, is_formula=inner.is_formula)


def fill_absent(
    function: Callable[..., Arrays], present: Mask, specs: Sequence[Any], count: int = 0
) -> Callable[..., Arrays]:
    """Returns a function of the given gradients only. Zeros stand for the others.

    Args:
        function: takes other arrays, and the gradients of all slots that have a shape.
        present: for each slot, whether it has a gradient.
        specs: the shape and dtype of each slot; None if it never has a gradient.
        count: the number of the other arrays.
    """
    slots = [(has, spec) for has, spec in zip(present, specs, strict=True) if spec is not None]

    def filled(*arrays: Any) -> Arrays:
        rest = iter(arrays[count:])
        grads = [next(rest) if has else zeros_of(spec) for has, spec in slots]
        return function(*arrays[:count], *grads)

    return filled


def call_jaxpr(jaxpr: Any, wanted: Mask) -> Callable[..., Arrays]:
    """Returns a jaxpr as a function of its constants and arguments.

    Args:
        jaxpr: computes the gradients of the wanted inputs.
        wanted: for each input, whether it has a gradient.
    """
    count = len(jaxpr.constvars)

    def call(*arrays: Any) -> Arrays:
        return tuple(bind_jaxpr(ClosedJaxpr(jaxpr, arrays[:count]))(*arrays[count:]))

    return spread_gradients(call, wanted)
