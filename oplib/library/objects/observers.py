"""Observers: functions that see each call of an op on Tensors in their thread, below autograd.

An observer stands around the execution of a call. It may look at it, run it, or hand back what an equal call
gave earlier: the call is recorded on the tape all the same. While an observer works, it is off, and those
outside of it see what it runs. Composite ops are not seen, but the ops that they are made of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
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
        run: runs the call and returns its outcome, which only the dispatcher understands.
        read: returns the results in an outcome, with fresh Tensors.
    """

    __slots__ = ("_values", "overload", "read", "run")

    def __init__(self, overload: OpOverload, values: Sequence[Any], run: Run, read: Read) -> None:
        self.overload = overload
        self._values = values
        self.run = run
        self.read = read

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the op was called with, defaults filled in: positional and keyword-only."""
        return split_values(self.overload._schema, self._values)


Observer = Callable[[ObservedCall], Any]
"""Gets a call, and returns its outcome: that of ``call.run()``, or one that an equal call gave."""


class _Stack(threading.local):
    """The observers of this thread, the innermost last."""

    observers: tuple[Observer, ...] = ()


_stack = _Stack()


@contextmanager
def observing(observer: Observer) -> Generator[None]:
    """Lets an observer see the calls of this thread, inside the observers that do so already."""
    before = _stack.observers
    _stack.observers = (*before, observer)
    try:
        with modes.state.watching():
            yield
    finally:
        _stack.observers = before


def is_observed() -> bool:
    """Whether an observer wants to see the calls of this thread."""
    return bool(_stack.observers)


def run_observed(overload: OpOverload, values: Sequence[Any], run: Run, read: Read) -> Any:
    """Runs a call through the observers of this thread, and returns its outcome."""
    observers = _stack.observers
    if not observers:
        return run()
    outer, innermost = observers[:-1], observers[-1]

    def run_outside() -> Any:
        return run_observed(overload, values, run, read)

    state = modes.state
    grad_mode, state.grad_enabled = state.grad_enabled, False
    _stack.observers = outer
    try:
        return innermost(ObservedCall(overload, values, run_outside, read))
    finally:
        _stack.observers = observers
        state.grad_enabled = grad_mode


def map_arrays(outcome: Any, function: Callable[[Any], Any]) -> Any:
    """Returns an outcome with other arrays; Tensors in it become new ones, around arrays that stay."""
    if isinstance(outcome, (tuple, list)):
        return type(outcome)(map_arrays(member, function) for member in outcome)
    if isinstance(outcome, Tensor):
        return box(function(outcome._storage.array))
    return function(outcome) if isinstance(outcome, jax.Array) else outcome


def read_run(outcome: Any) -> Any:
    """The results in the outcome of a kernel on arrays."""
    structure, outputs = outcome
    rest = [box(output) for output in outputs[structure.written_count :]]
    return structure.without_written().arrange(rest)


def read_recorded(outcome: Any) -> Any:
    """The results in the outcome of a kernel on arrays that came with a plan for its backward."""
    plan = outcome[0]
    return read_run((plan.structure, outcome[1 : 1 + len(plan.outputs)]))


def copy_outcome(outcome: Any) -> Any:
    """The results of a kernel on Tensors, which are its outcome."""
    return map_arrays(outcome, lambda array: array)
