"""Contexts of MLIR for the tests: JAX 0.10 makes one for each program that it lowers, in 4 ms of CPU.

A context takes 1.3 MB, and each compiled program keeps its own. The tests lower a hundred thousand programs,
mostly tiny ones, so each thread lowers some of them in one context.
"""

from __future__ import annotations

import threading
from importlib.metadata import version

from jax._src.interpreters import mlir  # noqa: TID251  there is no public way to share a context

LOWERINGS = 50
"""Programs that are lowered in one context. It keeps their constants."""


class _Kept(threading.local):
    """The context of a thread, and the programs that may still be lowered in it."""

    context: object = None
    left = 0


kept = _Kept()


def keep_contexts() -> None:
    """Makes JAX lower several programs in one context, which later versions do by themselves."""
    if not version("jaxlib").startswith("0.10."):
        return
    make = mlir.make_ir_context

    def make_ir_context() -> object:
        if not kept.left:
            kept.context, kept.left = make(), LOWERINGS
        kept.left -= 1
        return kept.context

    mlir.make_ir_context = make_ir_context
