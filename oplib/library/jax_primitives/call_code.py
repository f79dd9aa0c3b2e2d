"""The traced and compiled forms of one op with fixed static arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from oplib.autograd.array_functions.array_function import Mask
from oplib.library.arguments.structure import Results
from oplib.library.batching_and_sharding.levels import Level, Levels
from oplib.library.derivatives.formula import FormulaPlan
from oplib.library.derivatives.setup import Forwarded
from oplib.protocols import AnyFunction

from .vmap_rule import Batched


class CallCode:
    """The traced and compiled forms of a call, by what they depend on.

    Args:
        run: the kernel, as a function of arrays.
        is_transient: JAX's caches must not keep the call alive.
    """

    def __init__(self, run: Callable[..., Results], *, is_transient: bool) -> None:
        self._run = run
        self.life: Any = ClosedJaxpr(_make_empty_jaxpr().replace(), ()) if is_transient else None
        self.applied: dict[Any, AnyFunction] = {}
        self.batched: dict[Level, Callable[..., Batched]] = {}
        self.forwards: dict[Any, Callable[..., Forwarded]] = {}
        self.levelled: dict[tuple[Levels, bool, bool], Any] = {}
        self.plans: list[FormulaPlan] = []
        self.shared: dict[Any, Mask] = {}
        self.planners: dict[tuple[Levels, Mask], Callable[..., tuple[FormulaPlan, list[Any]]]] = {}

    @cached_property
    def single(self) -> Any:
        """The kernel, compiled; most calls of plain Python never ask for it."""
        return jax.jit(self._run, inline=True)


@cache
def _make_empty_jaxpr() -> Any:
    return jax.make_jaxpr(lambda: ())().jaxpr
