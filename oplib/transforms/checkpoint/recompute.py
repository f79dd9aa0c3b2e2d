"""The non-reentrant checkpoint: saved values of a region are dropped, and computed again when read.

In the forward of a region each saved tensor is packed into an empty *holder*. When a backward pass reads the
first holder, the region runs again, and each saved tensor fills the holder of the same number. So a region
must save the same tensors in the same order each time.

Only the node that saved a value keeps its holder. The value in a holder belongs to the pass that computed it.
It is dropped when the pass ends, also with an error, or when the node frees its saved values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd import enable_grad
from oplib.autograd.graph import saved_tensors_hooks
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.recording.view import has_lost_history
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor
from oplib.errors import CheckpointError
from oplib.library.autocast.settings import AutocastScope
from oplib.modes import modes
from oplib.tensor import Tensor, box
from oplib.tensor.random.draw_log import DrawLog

from .region_contexts import copy_containers, run_again, run_and_restore

Metadata = Callable[[Tensor], Any]


class StopRecomputation(BaseException):
    """Stops the repetition of a region in which all needed values are computed. It is not an error."""


class Holder:
    """The place of one saved tensor.

    Attributes:
        values: the tensor, for each backward pass that has computed it.
    """

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: weakref.WeakKeyDictionary[Any, Tensor] = weakref.WeakKeyDictionary()


class _Pass:
    """One backward pass, or one read of saved tensors outside of a pass."""


class CheckpointedCall:
    """One call of a checkpointed function: its arguments, for the repetition, and its holders."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        preserve_rng_state: bool,
        context: AbstractContextManager[Any],
        early_stop: bool,
        metadata: Metadata,
    ) -> None:
        self._function = function
        self._args = list(map(_Argument, args))
        self._kwargs = {name: _Argument(value) for name, value in kwargs.items()}
        self._draw_log = DrawLog()
        self._notes_draws = preserve_rng_state
        self._context = context
        self._early_stop = early_stop
        self._autocast = modes.autocast
        self._metadata = metadata
        self._holders: list[weakref.ref[Holder]] = []
        self._saved: list[Any] = []  # their metadata
        self._passes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_open = False  # a backward ran inside of the forward, so counts may differ
        self._has_returned = False

    def run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        context: AbstractContextManager[Any],
    ) -> Any:
        """Runs the forward on the arguments and returns its result.

        Args:
            args: the arguments of the call.
            kwargs: the keyword arguments of the call.
            context: the context of the forward.

        Raises:
            CheckpointError: the context suppressed an error of the function.
        """

        def run_forward() -> Any:
            draws = self._draw_log.noting() if self._notes_draws else nullcontext()
            with saved_tensors_hooks(self.pack, self.unpack), draws, context:
                result = self._function(*args, **kwargs)
                self._has_returned = True
                return result
            raise CheckpointError(
                "checkpoint: the forward context provided by context_fn suppressed an exception raised "
                "during the checkpointed forward. There is no result to return. Let the context pass "
                "exceptions on."
            )

        return run_and_restore(run_forward)

    def pack(self, tensor: Tensor) -> Holder:
        """Returns an empty holder for a tensor."""
        holder = Holder()
        self._holders.append(weakref.ref(holder))
        self._saved.append(self._metadata(tensor))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """Returns a saved tensor. The region runs again if this pass has not computed it.

        Raises:
            CheckpointError: the repetition saves other tensors than the forward.
        """
        key = _find_pass()
        if key not in self._passes:
            self._compute_again(key)
            self._passes.add(key)
        tensor = holder.values.get(key)
        if tensor is None:
            raise CheckpointError(
                "checkpoint: a tensor was not computed again. The pass repeated the region before the tensor "
                f"was saved; the region has saved {len(self._holders)}. Take gradients outside of the "
                "function."
            )
        return tensor

    def _compute_again(self, key: Any) -> None:
        values = _set_apart([argument.read() for argument in (*self._args, *self._kwargs.values())])
        args = values[: len(self._args)]
        kwargs = dict(zip(self._kwargs, values[len(self._args) :], strict=True))
        repetition = _Repetition(self, key)

        def repeat() -> None:
            with (
                saved_tensors_hooks(repetition.pack, _return),
                enable_grad(),
                self._draw_log.repeating(),
                AutocastScope(self._autocast),
                self._context,
            ):
                self._function(*args, **kwargs)

        with suppress(StopRecomputation):
            run_again(repeat)
        self._check(repetition.count, key)

    def fill(self, index: int, tensor: Tensor, key: Any) -> bool:
        """Fills the holder of this number. Returns whether it was the last.

        Raises:
            CheckpointError: the holder does not exist.
        """
        if index >= len(self._holders):
            if not self._has_returned:
                self._is_open = True
                return False
            raise CheckpointError(
                "checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass. The forward saved {len(self._holders)}.{_HOW_TO_SEE}"
            )
        holder = self._holders[index]()
        if holder is not None:
            # Take the current array: the function may write the tensor later.
            holder.values[key] = box(tensor._storage.array)
        return self._early_stop and index + 1 == len(self._holders)

    def _check(self, count: int, key: Any) -> None:
        if self._is_open:
            return
        if count != len(self._holders):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self._holders)}\nNumber of "
                f"tensors saved during recomputation: {count}.{_HOW_TO_SEE}"
            )
        differing = "".join(self._compare(index, key) for index in range(count))
        if differing:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\n{differing.rstrip()}{_HOW_TO_SEE}"
            )

    def _compare(self, index: int, key: Any) -> str:
        holder = self._holders[index]()
        if holder is None:
            return ""
        saved, again = self._saved[index], self._metadata(holder.values[key])
        if saved == again:
            return ""
        return f"tensor at position {index}:\nsaved metadata: {saved}\nrecomputed metadata: {again}\n"


_HOW_TO_SEE = (
    "\nMake the function do the same each time it is called with the same arguments. It runs as Python in "
    "both computations, and can print what it does."
)


def _find_pass() -> Any:
    """Returns the object that stands for the reading pass. It lives as long as the pass."""
    run = modes.state.run
    return _Pass() if run is None else run.notes.setdefault(_Pass, _Pass())


class _Repetition:
    """One repetition of a region."""

    def __init__(self, call: CheckpointedCall, key: Any) -> None:
        self._call = call
        self._key = key
        self.count = 0

    def pack(self, tensor: Tensor) -> Tensor:
        """Fills the next holder. The returned tensor is read only if the region itself runs a backward."""
        index = self.count
        self.count += 1
        if self._call.fill(index, tensor, self._key):
            raise StopRecomputation
        return box(tensor._storage.array)


class _Argument:
    """An argument of the region. A Tensor is saved with history and version, through enclosing hooks."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self._value = SavedTensor(value.detach() if has_lost_history(value) else value)
        else:
            self._value = copy_containers(value)

    def read(self) -> Any:
        value = self._value
        return value.unpack(_NODE) if isinstance(value, SavedTensor) else copy_containers(value)


def _set_apart(values: list[Any]) -> list[Any]:
    """Returns traced arguments as values that XLA treats as different ones.

    Otherwise XLA would see that both computations are equal, run one of them, and keep its values.
    """
    indices = [
        index
        for index, value in enumerate(values)
        if isinstance(value, Tensor) and isinstance(value._storage.array, Tracer)
    ]
    if not indices:
        return values
    arrays = jax.lax.optimization_barrier(tuple(values[index]._storage.array for index in indices))
    for index, array in zip(indices, arrays, strict=True):
        original: Tensor = values[index]
        values[index] = apart = ARRAYS.box(array)
        apart._requires_grad = original._requires_grad
        apart._grad_fn, apart._output_nr = original._grad_fn, original._output_nr
    return values


class _ArgumentNode:
    """The node that errors name if an argument was written after the forward."""

    def name(self) -> str:
        return "checkpoint"


_NODE: Any = _ArgumentNode()


def _return(tensor: Tensor) -> Tensor:
    return tensor
