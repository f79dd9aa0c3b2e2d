"""Observers: functions that see each call of an op on Tensors in their thread, below autograd.

An observer surrounds the execution of a call. It may inspect the call, run it, or return the outcome of an
earlier equal call; the call is recorded on the tape in each case. While an observer works it is inactive, and
the observers outside of it see the calls that it runs. Observers see the ops that a composite op calls, but
not the composite op itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from oplib.library.schema import split_values
from oplib.modes import modes
from oplib.tensor import Tensor, box

if TYPE_CHECKING:
    from .overload import OpOverload

Run = Callable[[], Any]
Read = Callable[[Any], Any]


class ObservedCall:
    """One call as an observer sees it.

    Attributes:
        overload: the op.
        run: runs the call and returns its outcome, whose form only the dispatcher knows.
        read: returns the results in an outcome, with new Tensors.
    """

    __slots__ = ("_values", "overload", "read", "run")

    def __init__(self, overload: OpOverload, values: Sequence[Any], run: Run, read: Read) -> None:
        self.overload = overload
        self._values = values
        self.run = run
        self.read = read

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of the call with defaults filled in: positional and keyword-only."""
        return split_values(self.overload._schema, self._values)


Observer = Callable[[ObservedCall], Any]
"""Takes a call and returns its outcome: that of ``call.run()``, or that of an equal call."""


class observing:  # noqa: N801  used like a function
    """Adds an observer for the calls of this thread, inside the observers that are active already."""

    __slots__ = ("_before", "_observer")

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._before: tuple[Observer, ...] = ()

    def __enter__(self) -> None:
        state = modes.state
        self._before = before = state.observers
        state.observers = (*before, self._observer)
        state.watchers += 1

    def __exit__(self, *exc_info: object) -> None:
        state = modes.state
        state.watchers -= 1
        state.observers = self._before


def is_observed() -> bool:
    """Tells whether the thread has an observer."""
    return bool(modes.state.observers)


def run_observed(overload: OpOverload, values: Sequence[Any], run: Run, read: Read) -> Any:
    """Runs a call through the observers of this thread, and returns its outcome."""
    state = modes.state
    observers = state.observers
    if not observers:
        return run()
    outer, innermost = observers[:-1], observers[-1]

    def run_outside() -> Any:
        return run_observed(overload, values, run, read)

    grad_mode = state.grad_enabled
    call = ObservedCall(overload, values, run_outside, read)
    try:
        state.grad_enabled = False
        state.observers = outer
        return innermost(call)
    finally:
        state.observers = observers
        state.grad_enabled = grad_mode


def map_arrays(outcome: Any, function: Callable[[Any], Any], kind: Any = jax.Array) -> Any:
    """Returns an outcome with each leaf of a kind replaced by what a function returns for it.

    Its Tensors become new ones around the new arrays.
    """

    def map_leaf(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return box(function(leaf._storage.array))
        return function(leaf) if isinstance(leaf, kind) else leaf

    return jax.tree_util.tree_map(map_leaf, outcome, is_leaf=lambda value: isinstance(value, Tensor))


def read_run(outcome: Any) -> Any:
    """Returns the results in the outcome of a kernel on arrays."""
    structure, outputs = outcome
    rest = list(map(box, outputs[structure.written_count :]))
    return structure.without_written().arrange(rest)


def read_recorded(outcome: Any) -> Any:
    """Returns the results in the outcome of a kernel on arrays that returned a plan for its backward."""
    plan = outcome[0]
    return read_run((plan.structure, outcome[1 : 1 + len(plan.outputs)]))


def copy_outcome(outcome: Any) -> Any:
    """Returns the outcome of a kernel on Tensors, which consists of its results."""
    return map_arrays(outcome, lambda array: array)
