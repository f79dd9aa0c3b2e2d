"""The node of a call of a compiled function whose results are differentiated outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.autograd.saved.saved_tensor import check_version, second_pass_error
from oplib.errors import SavedTensorError
from oplib.tensor import Storage, box


def _refuse(_: Sequence[Any]) -> Sequence[Any]:
    raise second_pass_error("CompiledCallBackward")


class CompiledCallBackward(TapeNode):
    """Runs the backward of a whole call as one compiled program.

    Attributes:
        function: of the call, for errors.
        run: ``(*residuals, *cotangents) -> gradients``, one for each edge that is reached.
        reached: for each edge whether it has a gradient.
        refused: why some results cannot be differentiated, by their slots.
        saved: the residuals; None once they are freed.
        read: the storages that residuals were read from, with their versions.
        token: stands for ``run`` in keys.
        again: gives the gradients of a pass that is recorded, from cotangents as Tensors.
    """

    results_are_checked = True
    function: str
    run: Callable[..., Sequence[Any]]
    reached: Sequence[bool]
    refused: Mapping[int, str]
    saved: tuple[Any, ...] | None
    read: tuple[tuple[Storage, int], ...]
    again: Callable[..., Sequence[Any]]
    token: int

    def op_name(self) -> str:  # noqa: D102  described in TapeNode
        return self.function

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: D102  described in TapeNode
        saved = self._checked()
        given = tuple([grad is not None for grad in grads])
        if not any(given):
            return (None,) * len(self.edges)
        self._check_slots(given)
        if run.representation.tensor_mode:
            zeros = [box(jnp.zeros(spec.shape, spec.dtype)) for spec in self.input_metadata]
            found = iter(
                self.again([zero if grad is None else grad for grad, zero in zip(grads, zeros, strict=True)])
            )
            return tuple([next(found) if reached else None for reached in self.reached])
        full = [
            jnp.zeros(spec.shape, spec.dtype) if grad is None else grad
            for grad, spec in zip(grads, self.input_metadata, strict=True)
        ]
        found = iter(self.run(*saved, *full))
        return tuple([next(found) if reached else None for reached in self.reached])

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: D102  described in TapeNode
        saved = self._checked()
        operands += saved
        return CompiledCallBackward.class_token, self.token

    def find_function(self, given: Mask) -> ArrayFunction:  # noqa: D102  described in TapeNode
        run, reached, specs, count = (
            self.run,
            tuple(self.reached),
            tuple(self.input_metadata),
            len(self._checked()),
        )
        self._check_slots(given)

        def spread(*arrays: Any) -> tuple[Any, ...]:
            grads = iter(arrays[count:])
            full = [
                next(grads) if has else jnp.zeros(spec.shape, spec.dtype)
                for has, spec in zip(given, specs, strict=True)
            ]
            found = iter(run(*arrays[:count], *full))
            return tuple([next(found) if one else None for one in reached])

        return ArrayFunction(spread, self.function)

    def _check_slots(self, given: Mask) -> None:
        """Raises if a gradient arrives at a result that cannot be differentiated."""
        for slot, reason in self.refused.items():
            if given[slot]:
                raise SavedTensorError(reason)

    def _checked(self) -> tuple[Any, ...]:
        """Returns the residuals, which nothing has written or freed since the call."""
        if self.saved is None:
            raise second_pass_error(self.name())
        for storage, version in self.read:
            if storage.version != version:
                check_version(self.name(), storage, version)
        return self.saved

    def release(self) -> None:
        """Frees the residuals."""
        self.saved = None
        self.read = ()
        self.again = _refuse
