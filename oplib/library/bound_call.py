"""One op with its static arguments fixed, as a function of its arrays.

This is what the carrier's primitives have as parameter: below the tape, and inside every JAX transformation,
a registered op is a :class:`BoundCall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .fake_kernel import run_fake_kernel
from .kernels import trace_kernel
from .layout import Layout
from .levels import map_call
from .structure import Structure
from .varying import match_varying
from .vmap_rule import run_vmap_rule

if TYPE_CHECKING:
    from .levels import Level, Levels
    from .overload import OpOverload
    from .record import Record


class BoundCall:
    """An overload with a layout.

    Two are equal if op, layout and record version are: JAX keys its caches by this. The kernels are looked up
    in the overload's record when it is traced, so JAX's tables keep none alive.

    Attributes:
        overload: the op.
        layout: the static arguments and the places of the arrays.
        version: of the record it was made for.
    """

    __slots__ = ("_batched", "_hash", "_levelled", "_single", "layout", "overload", "version")

    def __init__(self, overload: OpOverload, layout: Layout) -> None:
        self.overload = overload
        self.layout = layout
        self.version = overload.record.version
        self._hash = hash((overload.name(), layout, self.version))
        self._single: Callable[..., Any] = jax.jit(self._run, inline=True)

        self._batched: dict[Level, Callable[..., Any]] = {}
        self._levelled: dict[Levels, Callable[..., Any]] = {}

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, BoundCall)
            and self.version == other.version
            and self.overload is other.overload
            and self.layout == other.layout
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.overload.name()

    @property
    def record(self) -> Record:
        """The record in force."""
        return self.overload.record

    def run(self, *arrays: Any) -> tuple[Structure, tuple[Any, ...]]:
        """Runs the kernel on arrays or tracers; one trace serves shapes, lowering and mapping."""
        return self._single(*arrays)

    def _run(self, *arrays: Any) -> tuple[Structure, tuple[Any, ...]]:
        structure, flat = trace_kernel(self.record, self.layout, arrays)
        return structure, tuple(make_strong(value) for value in flat)

    def trace(self, levels: Levels, arrays: Sequence[Any]) -> Any:
        """Returns the closed jaxpr of the call, mapped over levels of vmap; once per levels and signature."""
        found = self._levelled.get(levels)
        if found is None:
            mapped = map_call(self, levels)
            found = self._levelled[levels] = jax.jit(
                lambda *values: match_varying(mapped(*values)[1], like=values)
            )
        return found.trace(*arrays).jaxpr

    def run_batched(self, level: Level, *arrays: Any) -> tuple[Structure, tuple[Any, ...]]:
        """Runs the registered batching rule in place of the kernel; one trace per level and signature."""
        found = self._batched.get(level)
        if found is None:

            def run(*values: Any) -> tuple[Structure, tuple[Any, ...]]:
                structure, flat = run_vmap_rule(self.record, self.layout, level, values)
                return structure, tuple(make_strong(value) for value in flat)

            found = self._batched[level] = jax.jit(run, inline=True)
        return found(*arrays)

    def abstract(self, *arrays: Any) -> tuple[Structure, tuple[Any, ...]]:
        """What ``run`` gives, as far as shapes go: by the fake kernel where there is one."""
        if self.record.fake is None:
            return self._single(*arrays)
        return run_fake_kernel(self.record, self.layout, arrays)

    def shapes(self, arrays: Sequence[Any]) -> tuple[Structure, tuple[Any, ...]]:
        """Returns the structure and the shapes of the results for arrays or their avals."""
        return jax.eval_shape(self.abstract, *arrays)


def make_strong(value: Any) -> Any:
    """Strips weak typing, which would leak a Python number's promotion out of the op."""
    return jax.lax.convert_element_type(value, value.dtype) if jax.typeof(value).weak_type else value
