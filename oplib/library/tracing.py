"""While oplib traces a kernel or a rule: the mode that makes frozen-in values an error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from oplib.modes import modes

_scopes = iter(range(1, 1 << 62))


@contextmanager
def tracing(op: str) -> Generator[None]:
    """Marks the running thread as tracing a kernel or rule of ``op``; nests."""
    before = modes.tracing, modes.tracing_scope
    modes.tracing, modes.tracing_scope = op, next(_scopes)
    try:
        yield
    finally:
        modes.tracing, modes.tracing_scope = before


@contextmanager
def grad_off() -> Generator[None]:
    """Switches recording off for kernels and rules."""
    before = modes.grad_enabled
    modes.grad_enabled = False
    try:
        yield
    finally:
        modes.grad_enabled = before


@contextmanager
def running_rule(op: str, *, eager: bool) -> Generator[None]:
    """Around a rule of ``op``: recording is off, and a compiled rule may not read tensors from outside."""
    with grad_off():
        if eager:
            yield
        else:
            with tracing(op):
                yield
