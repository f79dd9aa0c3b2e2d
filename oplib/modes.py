"""The modes of a thread, on which the behaviour of its calls depends.

They are on a low floor because the tensor, the tape and the dispatcher read them on every call. Hot code
reads ``modes.state`` once and then its plain attributes: one look-up in thread-local storage, not four.

Python delivers an interrupt when a function begins and after a call. So code of oplib changes a mode in
``try``, by plain attributes of ``state``, and changes it back in ``finally`` before it calls anything. A
generator with ``contextmanager`` changes no mode: an interrupted one is closed at some later time.
"""

from __future__ import annotations

import threading
from typing import Any


class ModeState:
    """The modes of one thread.

    Attributes:
        anomaly: whether anomaly detection is on.
        autocast: the settings of autocast, an object of the library floor, or None.
        check_nan: whether anomaly detection raises for a NaN.
        dual_level: the open level of forward mode, an object of the autograd floor, or None.
        forward_enabled: whether forward mode propagates tangents at an open level.
        grad_enabled: whether operations on tensors that require grad are recorded.
        inference: whether ``inference_mode`` is active.
        locations: whether each recorded node stores the line of code that it comes from.
        multithreading: the flag of ``set_multithreading_enabled``.
        region: the body of a control flow function that this thread traces, which decides what array a Tensor
            has there; an object of the transforms floor, or None.
        tracing: the name of the op whose compiled kernel or rule oplib is tracing, or None.
        tracing_scope: the number of such traces so far; a tensor made inside one stores it.
        sequence_nr: the number of the next node that this thread records.
        watchers: the number of reasons for the calls of this thread to take the complete path, such as a
            trace of oplib or a mode that must see each recorded call. The generated fast path reads only this
            number, so a new mode costs nothing while it is off.
    """

    __slots__ = (
        "anomaly",
        "autocast",
        "check_nan",
        "dual_level",
        "forward_enabled",
        "grad_enabled",
        "inference",
        "locations",
        "multithreading",
        "region",
        "sequence_nr",
        "tracing",
        "tracing_scope",
        "watchers",
    )

    def __init__(self) -> None:
        self.anomaly = False
        self.autocast: Any = None
        self.check_nan = True
        self.dual_level: object = None
        self.forward_enabled = True
        self.grad_enabled = True
        self.inference = False
        self.locations = False
        self.multithreading = True
        self.region: Any = None
        self.tracing: str | None = None
        self.tracing_scope = 0
        self.sequence_nr = 0
        self.watchers = 0


def _delegate(name: str) -> property:
    def read(self: ThreadModes) -> object:
        return getattr(self.state, name)

    def write(self: ThreadModes, value: object) -> None:
        setattr(self.state, name, value)

    return property(read, write, doc=f"``state.{name}``.")


class ThreadModes(threading.local):
    """The modes of the current thread; a new thread starts with the defaults.

    Attributes:
        state: all modes, for code that reads several.
    """

    def __init__(self) -> None:
        self.state = ModeState()

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
