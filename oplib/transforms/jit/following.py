"""Calls that follow another of the same program, between which nobody reads what the program writes.

Such a call takes the arrays where the other has left them, and leaves its own there. See ADR 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import make_gather
from oplib.tensor import Tensor
from oplib.tensor.storage.fresh import FreshStorage, ProgramOutputs
from oplib.transforms.tracing.paths import CapturedPath

from .operands import ExpectedOperands, Found

_DEFAULTS: dict[str, Any] = {
    name: getattr(Tensor, name, None)
    for name in (
        "_storage", "_requires_grad", "_grad_fn", "_backward_hooks", "_post_accumulate_hooks", "_views",
        "_grad",
    )
}  # fmt: skip


class FollowingOperands:
    """Finds the operands of a call that follows another of the same program.

    Each storage and each gradient must be the one that the other call has left. The arrays come from the
    outputs of that call.

    Args:
        paths: of the operands.
        before: for each of them its attributes before the trace.
        unread: the numbers of those whose gradient before the call is not read.
        written: the numbers of the operands that are written.
        leaves: the numbers of those that get a gradient.
        inputs: the numbers of those whose arrays the program takes, in its order.
    """

    def __init__(
        self,
        paths: Sequence[CapturedPath],
        before: Sequence[dict[str, Any]],
        unread: frozenset[int],
        written: Sequence[int],
        leaves: Sequence[int],
        inputs: Sequence[int],
    ) -> None:
        def expect(some: Sequence[int]) -> ExpectedOperands:
            return ExpectedOperands(
                [paths[number] for number in some],
                [before[number] for number in some],
                frozenset(index for index, number in enumerate(some) if number in unread),
            )

        others = sorted({*range(len(paths))} - {*written})
        self._written, self._others = expect(written), expect(others)
        _hold_attributes([paths[number].value for number in written])
        self._take_written, self._take_others = make_gather(written), make_gather(others)
        self._take_leaves = make_gather(leaves)
        self._count = len(written)
        order = {number: index for index, number in enumerate((*written, *others))}
        self._take_arrays = make_gather([order[number] for number in inputs])

    def match(self, tensors: Sequence[Tensor], rest: Sequence[Any], outputs: ProgramOutputs) -> Found | None:
        """Returns the operands; None if the call does not follow the one that has left the outputs."""
        if not outputs.is_whole:
            return None
        written: Sequence[Any] = self._take_written(tensors)
        leaves: Sequence[Any] = self._take_leaves(tensors)
        try:
            slots = [tensor._storage.slot for tensor in written]
            slots += [leaf._grad._storage.slot for leaf in leaves]
        except AttributeError:  # no gradient, or an ordinary storage
            return None
        if slots != outputs.slots or not self._written.fit_kinds(written):
            return None
        others = self._others.match(self._take_others(tensors))
        if others is None or _hold_output(others.owners, outputs):
            return None
        arrays = outputs.arrays[: self._count]
        if not outputs.is_known:
            if not self._written.fit_arrays(arrays):
                return None
            outputs.is_known = True  # those of the calls that follow come from the same executable
        return Found(tensors, (), self._take_arrays([*arrays, *others.arrays]), rest, outputs)


def _hold_attributes(tensors: Sequence[Tensor]) -> None:
    """Gives Tensors the attributes that each call reads, and whose defaults their class holds.

    CPython finds an attribute twice as fast where the instance holds it, at the same place of its dictionary
    as the instances before it. The caller holds the lock of traces, because a trace in another thread may
    change these dictionaries.
    """
    for tensor in tensors:
        if type(tensor) is Tensor:
            # The line calls nothing, so no other thread sets an attribute between the read and the write.
            tensor.__dict__ = {**_DEFAULTS, **tensor.__dict__}


def _hold_output(owners: Sequence[Any], outputs: ProgramOutputs) -> bool:
    """Whether one of the storages holds an output, so that two Tensors share memory."""
    return any(owner.outputs is outputs for owner in owners if owner.__class__ is FreshStorage)
