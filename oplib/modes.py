"""The state of a thread, on which the behaviour of its calls depends: modes, active hooks, the current run.

They are on a low floor because the tensor, the tape and the dispatcher read them on every call. Hot code
reads ``modes.state`` once and then its plain attributes: one look-up in thread-local storage, not four.

Python delivers an interrupt when a function begins and after a call. So code of oplib changes a mode in
``try``, by plain attributes of ``state``, and changes it back in ``finally`` before it calls anything. A
generator with ``contextmanager`` changes no mode: an interrupted one is closed at some later time.

A block that a task of asyncio enters is the task's, see :func:`enter_block`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

from oplib.errors import MisplacedCallError

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class ModeState:
    """The modes of one thread, and what is active in it.

    Attributes:
        anomaly: whether anomaly detection is on.
        autocast: the settings of autocast, an object of the library floor, or None.
        capture_suspended: whether backward passes are not compiled, because a compiled one runs and no block
            of ``enable`` was entered inside it.
        check_nan: whether anomaly detection raises for a NaN.
        constant_in: the trace of JAX, as ``get_opaque_trace_state`` gives it, in which user code has switched
            recording off; None while it is on; ``UNCUT`` in hooks of saved tensors. See
            ``tensor/storage/cut.py``.
        creation_hooks: the functions that get each new node, the innermost last.
        draw_logs: the open logs of draws from Generators, the innermost last.
        dual_level: the open level of forward mode, an object of the autograd floor, or None.
        failed_reads: the reads of traced values that have failed in the trace that runs, see
            ``tensor/storage/failed_reads.py``; None outside of traces.
        forward_enabled: whether forward mode propagates tangents at an open level.
        grad_enabled: whether operations on tensors that require grad are recorded.
        hook_pairs: the hooks for saved tensors, the innermost pair last.
        hooks_disabled: the text of the error that refuses hooks for saved tensors, or None.
        in_compiled_region: whether a compiled backward pass runs.
        in_trace: whether this thread was in a trace of JAX when it last asked. Its calls then take the
            complete path, which gives results their trace.
        inference: whether ``inference_mode`` is active.
        locations: whether recorded nodes store the line of code that they come from. ``config.record_lines``
            must be set too.
        map_levels: the open levels of ``oplib.vmap``, the innermost last.
        multithreading: the flag of ``set_multithreading_enabled``.
        node_hooks: a pair of hooks, before and after, that each node gets that a backward pass runs; or None.
        observers: the observers of calls, the innermost last.
        region: the body of a control flow function that this thread traces, which decides what array a Tensor
            has there; an object of the transforms floor, or None.
        run: the innermost run of the engine, an object of the autograd floor, or None.
        sequence_nr: the number of the next node that this thread records.
        tracing: the op and the kernel or rule of it that oplib is tracing, for errors; None if there is none.
        tracing_scope: the number of such traces so far; a tensor made inside one stores it.
        view_replay: torch's flag of view replay, which has no effect.
        vmap_levels: the number of maps over a batch dimension that oplib has opened around a run.
        watchers: the number of reasons for the calls of this thread to take the complete path, such as a
            trace of oplib or a mode that must see each recorded call. The generated fast path reads only this
            number, so a new mode costs nothing while it is off.
    """

    anomaly: bool = False
    autocast: Any = None
    capture_suspended: bool = False
    check_nan: bool = True
    constant_in: object = None
    creation_hooks: tuple[Any, ...] = ()
    draw_logs: tuple[Any, ...] = ()
    dual_level: object = None
    failed_reads: list[Any] | None = None
    forward_enabled: bool = True
    grad_enabled: bool = True
    hook_pairs: tuple[Any, ...] = ()
    hooks_disabled: str | None = None
    in_compiled_region: bool = False
    in_trace: bool = False
    inference: bool = False
    locations: bool = True
    map_levels: tuple[Any, ...] = ()
    multithreading: bool = True
    node_hooks: tuple[Any, Any] | None = None
    observers: tuple[Any, ...] = ()
    region: Any = None
    run: Any = None
    sequence_nr: int = 0
    tracing: str | None = None
    tracing_scope: int = 0
    view_replay: bool = False
    vmap_levels: int = 0
    watchers: int = 0


@dataclass(slots=True, eq=False)
class BlockState(ModeState):
    """The modes in a block of a task: a copy that the block changes, and that ends with it.

    Attributes:
        outer: the modes around the block.
        open_blocks: the open blocks of the tasks of the thread.
    """

    outer: Any = None
    open_blocks: set[BlockState] = field(default_factory=set["BlockState"])


class _StateOfTask:
    """Looks up ``modes.state`` where the thread has no attribute of this name: while a task has a block open.

    A thread without such blocks has the attribute, which hides this descriptor: calls pay nothing for it.
    """

    def __get__(self, thread: ThreadModes, owner: object = None) -> ModeState:
        opened = thread.open_blocks
        if not opened:
            vars(thread)["state"] = thread.own
            return thread.own
        state = _block.get()
        if state in opened and thread.autocast_block is None:
            return state
        if state is not None and state.open_blocks is not opened:
            state = None  # a context that was copied to another thread
        blocks = []
        while isinstance(state, BlockState):
            if state in opened:
                blocks.append(state)
            state = state.outer
        if thread.autocast_block in opened and thread.autocast_block not in blocks:
            raise MisplacedCallError(
                "autocast: a task waits in a block of autocast, and another task runs. JAX keys programs by "
                "autocast, for all tasks of a thread. Decorate the coroutine function with autocast in place "
                "of the block, or leave the block before each await."
            )
        return blocks[0] if blocks else thread.own


def _delegate(name: str) -> property:
    def read(self: ThreadModes) -> object:
        return getattr(self.state, name)

    def write(self: ThreadModes, value: object) -> None:
        setattr(self.state, name, value)

    return property(read, write, doc=f"``state.{name}``.")


class ThreadModes(threading.local):
    """The modes of the current thread; a new thread starts with the defaults.

    Attributes:
        state: all modes, for code that reads several; in a block of a task those of the block.
        own: the modes outside of such blocks.
        open_blocks: the modes of the blocks that tasks of the thread have entered and not left.
        autocast_block: the modes in the innermost block of autocast. JAX knows one for the thread.
    """

    state: ModeState = _StateOfTask()  # type: ignore[assignment]

    def __init__(self) -> None:
        self.own = ModeState()
        self.open_blocks: set[BlockState] = set()
        self.autocast_block: Any = None
        vars(self)["state"] = self.own

    anomaly: bool = _delegate("anomaly")  # type: ignore[assignment]
    autocast: Any = _delegate("autocast")
    check_nan: bool = _delegate("check_nan")  # type: ignore[assignment]
    dual_level: object = _delegate("dual_level")
    forward_enabled: bool = _delegate("forward_enabled")  # type: ignore[assignment]
    grad_enabled: bool = _delegate("grad_enabled")  # type: ignore[assignment]
    inference: bool = _delegate("inference")  # type: ignore[assignment]
    locations: bool = _delegate("locations")  # type: ignore[assignment]
    multithreading: bool = _delegate("multithreading")  # type: ignore[assignment]
    tracing: str | None = _delegate("tracing")  # type: ignore[assignment]
    tracing_scope: int = _delegate("tracing_scope")  # type: ignore[assignment]
    region: Any = _delegate("region")
    sequence_nr: int = _delegate("sequence_nr")  # type: ignore[assignment]
    watchers: int = _delegate("watchers")  # type: ignore[assignment]


modes = ThreadModes()
_block: ContextVar[BlockState | None] = ContextVar("oplib_block", default=None)
_read_all = attrgetter(*(one.name for one in fields(ModeState)))


def call_in_grad_mode(enabled: bool, function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function in a grad mode.

    A backward pass changes the mode only around code that reads it: hooks, Functions and unpack hooks. So
    finalizers and signal handlers, which Python runs at any moment, find the mode of the code around it.
    """
    state = modes.state
    before = state.grad_enabled
    try:
        state.grad_enabled = enabled
        return function(*arguments)
    finally:
        state.grad_enabled = before


def enter_block() -> ModeState:
    """Returns the modes that a block may change until :func:`leave_block`.

    While asyncio runs in the thread they are a copy, which the running task alone sees, and the tasks that it
    starts in the block (ADR 55).
    """
    state, events = modes.state, sys.modules.get("asyncio.events")
    is_in_task = events is not None and events._get_running_loop() is not None
    if not (is_in_task or isinstance(state, BlockState)):
        return state
    block = BlockState(*_read_all(state), outer=state, open_blocks=modes.open_blocks)
    modes.open_blocks.add(block)
    _block.set(block)
    vars(modes).pop("state", None)
    return block


def leave_block(state: ModeState) -> None:
    """Ends a block, in whatever task or thread; its modes are changed back before."""
    if isinstance(state, BlockState):
        state.open_blocks.discard(state)
        outer = state.outer
        outer.sequence_nr = max(outer.sequence_nr, state.sequence_nr)
        if state.in_trace and not outer.in_trace:
            outer.in_trace, outer.watchers = True, outer.watchers + 1
