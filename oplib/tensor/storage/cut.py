"""What the tape does not differentiate is a constant for JAX too.

Under a transformation of JAX the tape does not see the derivatives. So ``detach``, ``data`` and blocks of
``no_grad`` cut them there (ADR 49): a result is read through ``stop_gradient``, and a written value keeps the
derivative of the old one. In the trace of ``oplib.jit`` itself only the tape differentiates: nothing is cut.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.modes import ModeState, modes

from .escape import note_trace
from .known import note_computation, run_noted
from .overlay import overlays
from .storage import LayeredStorage, Storage

UNCUT = object()
"""Stands for the trace in hooks of saved tensors: the unpacked value has the history of the packed one."""


def find_constant_trace() -> object:
    """Returns the trace of JAX in which the calling code runs; None if JAX will not differentiate it."""
    state = modes.state
    if state.constant_in is UNCUT:
        return UNCUT
    trace = note_trace(state)
    overlay = overlays.current
    is_own = overlay is not None and overlay.takes_writes and overlay.trace == trace
    return None if is_own else trace


def cuts_results(state: ModeState) -> bool:
    """Returns whether results are constants here: user code has switched recording off in this trace."""
    return state.constant_in is not None and state.constant_in == get_opaque_trace_state()


def stop(array: Any) -> Any:
    """Returns an array without a derivative under JAX."""
    if not isinstance(array, Tracer):
        return array
    return run_noted(lambda array: (jnp.asarray(jax.lax.stop_gradient(array)),), array)[0]


def keep_derivative(old: Any, new: Any) -> Any:
    """Returns a new value with the derivative of an old one, of the same shape and dtype."""
    if not (isinstance(old, Tracer) or isinstance(new, Tracer)) or not jnp.issubdtype(new.dtype, jnp.inexact):
        return new
    kept = _replace(old, new)
    note_computation((kept,), lambda new: (new,), new)
    return kept


def fit_written(storage: Storage, array: Any) -> Any:
    """Returns what a write puts into a storage: where results are constants, it leaves the derivative."""
    return keep_derivative(storage.array, array) if cuts_results(modes.state) else array


@jax.custom_jvp
def _replace(old: Any, new: Any) -> Any:
    # The second derivative of a scan forgets the rule and differentiates this, which is right where `old` is
    # finite. The differences are 0.0, and a zero of either sign less 0.0 is itself.
    difference = jax.lax.stop_gradient(old) - old
    zero = jnp.where(jnp.isfinite(old), difference, jnp.zeros_like(old))
    return jax.lax.stop_gradient(new) - zero


@_replace.defjvp
def _replace_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    result = _replace(*primals)  # derivatives of higher order use this rule too
    tangent = tangents[0]
    if jax.typeof(tangent) != jax.typeof(result):  # it varies over fewer axes of a mesh
        tangent = tangent + jnp.zeros_like(result)
    return result, tangent


class CutStorage(LayeredStorage):
    """The storage of a detached Tensor in a trace: the values of another one, and a derivative of its own.

    Attributes:
        base: the other storage. A write leaves the derivative there.
        history: the array whose derivative this one has, as it was last written; None for none.
    """

    __slots__ = ("history",)

    def __init__(self, base: Storage, history: Any = None) -> None:
        self.base = base
        self.history = history

    @property
    def array(self) -> Any:
        """The current array."""
        value = self.base.array
        return stop(value) if self.history is None else keep_derivative(self.history, value)

    def write(self, array: Any) -> None:
        """Writes into the base, and counts the write there."""
        self.base.write(keep_derivative(self.base.array, array))
        self.history = array

    def replace(self, array: Any) -> None:
        """Writes into the base without counting."""
        self.base.replace(keep_derivative(self.base.array, array))
        self.history = array

    def exchange(self, seen: Any, array: Any, *, counted: bool = True) -> bool:
        """Writes into the base, unless another thread has written since the owner held ``seen``."""
        is_done = self.base.exchange(seen, keep_derivative(self.base.array, array), counted=counted)
        if is_done:
            self.history = array
        return is_done


def cut_storage(storage: Storage) -> Storage:
    """Returns what a detached Tensor has for a storage: the same one where JAX differentiates nothing.

    The cut is below views and aliases. Above them it would hide which items share memory.
    """
    trace = find_constant_trace()
    return storage if trace is None or trace is UNCUT else storage.rebuild(CutStorage)


def cut_once(storage: Storage) -> Storage:
    """Returns the storage of a view without history: what is cut already is not cut again."""
    return storage.rebuild(lambda below: below if isinstance(below, CutStorage) else CutStorage(below))
