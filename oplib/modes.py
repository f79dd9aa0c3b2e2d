"""Modes of the running thread: what a call does depends on them, and each thread has its own.

They live near the ground because the tensor, the tape and the dispatcher all ask for them, on every call.
"""

from __future__ import annotations

import threading


class ThreadModes(threading.local):
    """The modes of one thread; class attributes are what a new thread starts with.

    Attributes:
        grad_enabled: operations on tensors that require grad are recorded.
        inference: ``inference_mode`` is active.
        multithreading: the flag of ``set_multithreading_enabled``.
        tracing: name of the op whose compiled kernel or rule is being traced by oplib, or None.
        tracing_scope: counts such traces; a tensor made inside one carries its number.
        sequence_nr: number of the next node recorded in this thread.
        vmap_levels: how many of oplib's own maps over a batch dimension are being applied.
    """

    grad_enabled: bool = True
    inference: bool = False
    multithreading: bool = True
    tracing: str | None = None
    tracing_scope: int = 0
    sequence_nr: int = 0
    vmap_levels: int = 0


modes = ThreadModes()
