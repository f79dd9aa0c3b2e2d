"""Kernels that make Refs of their own (``jax.new_ref``), or call hijax primitives.

The effects of Refs end with the kernel: JAX removes them where it lowers a jitted function. It cannot remove
them from a primitive of ours. Reverse mode has a rule of its own for both, which the jvp rule of a primitive
of ours cannot ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.library.batching_and_sharding.bodies import calls_any

_HIJAX = frozenset({"call_hi_primitive"})


def find_effects(closed: Any) -> Any:
    """Returns the effects of a closed jaxpr on what is outside of it."""
    effects = closed.effects
    return {effect for effect in effects if effect not in _find_own_effects()} if effects else effects


def to_function(closed: Any) -> Callable[..., list[Any]]:
    """Returns a closed jaxpr as a function, for its lowering."""
    run: Callable[..., list[Any]] = bind_jaxpr(closed)
    return jax.jit(run) if makes_refs(closed) else run


def find_own_rule(closed: Any) -> str | None:
    """Says what in a closed jaxpr has a rule of its own for reverse mode; None if nothing has one."""
    if makes_refs(closed):
        return "makes Refs"
    return "calls a hijax primitive" if calls_any(closed, _HIJAX) else None


def makes_refs(closed: Any) -> bool:
    """Tells whether a closed jaxpr makes Refs of its own."""
    return len(find_effects(closed)) < len(closed.effects)


@cache
def _find_own_effects() -> frozenset[Any]:
    """Returns the effects of making a Ref: JAX has no public name for them."""
    return frozenset(jax.make_jaxpr(lambda: jax.freeze(jax.new_ref(jax.numpy.zeros(()))))().effects)
