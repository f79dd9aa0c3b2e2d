"""Pallas kernels that hold one block of some arrays and sweep over all blocks of others.

The computation for one pair of blocks is the same on every platform, but the sweep differs. On TPUs the last
axis of the grid is the sweep, and the carry stays in scratch memory from one step to the next. On GPUs
programs run in no order, so each program contains a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu

from oplib.library.axes.varying import match_varying

Function = Callable[..., Any]
ZERO = np.int32(0)  # not a Python number, which x64 makes an int64: accelerators cannot count in it


@dataclass(frozen=True)
class Sweep:
    """The computation of a sweep.

    Attributes:
        step: ``step(held, swept, carry, block, at) -> carry`` for one pair of blocks and their numbers.
        finish: maps the last carry to the results of the held block.
        starts: the shape and value of each part of the first carry, f32.
        find_range: ``find_range(block, count) -> (first, end)``, the range of ``count`` blocks that a held
            block needs.
    """

    step: Function
    finish: Function
    starts: Sequence[tuple[tuple[int, int], float]]
    find_range: Function


@dataclass(frozen=True)
class Operands:
    """The arrays of a sweep, ``[heads, positions, width]``, partitioned along their positions.

    Several heads may share a head of an array that has fewer heads.

    Attributes:
        held: the arrays of which a program holds one block.
        swept: the arrays over which it sweeps.
        sizes: the block sizes of the held and of the swept arrays.
        results: the width and dtype of each result; the results have the positions of the held arrays.
    """

    held: Sequence[Any]
    swept: Sequence[Any]
    sizes: tuple[int, int]
    results: Sequence[tuple[int, Any]]

    @classmethod
    def of(
        cls,
        held: Sequence[Any],
        swept: Sequence[Any],
        sizes: tuple[int, int],
        results: Sequence[tuple[int, Any]],
    ) -> Operands:
        """Makes operands of arrays; in ``jax.shard_map`` all are cast to vary over the same mesh axes."""
        arrays = match_varying([*held, *swept])
        return cls(arrays[: len(held)], arrays[len(held) :], sizes, results)

    @property
    def heads(self) -> int:
        """The number of programs that run in parallel for one block."""
        return max(array.shape[0] for array in (*self.held, *self.swept))

    @property
    def counts(self) -> tuple[int, int]:
        """The number of blocks of the held and of the swept arrays."""
        return self.held[0].shape[1] // self.sizes[0], self.swept[0].shape[1] // self.sizes[1]

    def split(self, refs: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Splits the references of a kernel: held, swept, results, and the others."""
        ends = (len(self.held), len(self.held) + len(self.swept))
        last = ends[1] + len(self.results)
        return refs[: ends[0]], refs[ends[0] : ends[1]], refs[ends[1] : last], refs[last:]

    def specify(self, array: Any, size: int, find: Function) -> Any:
        """Returns the block specification of one array: one head, ``size`` positions, the whole width."""
        share = np.int32(self.heads // array.shape[0])
        return pl.BlockSpec(
            (None, size, array.shape[2]), lambda head, *at: (lax.div(head, share), find(*at), ZERO)
        )

    def shape_results(self) -> list[jax.ShapeDtypeStruct]:
        """Returns the shapes of the results, which vary like the operands."""
        varying, length = jax.typeof(self.held[0]).manual_axis_type, self.held[0].shape[1]
        return [
            jax.ShapeDtypeStruct((self.heads, length, width), dtype, manual_axis_type=varying)
            for width, dtype in self.results
        ]


def sweep_on_grid(sweep: Sweep, operands: Operands, *, interpret: bool = False) -> list[Any]:
    """Runs a sweep in the form for TPUs."""
    count = operands.counts[1]

    def kernel(*refs: Any) -> None:
        held, swept, results, carry = operands.split(refs)
        block, at = pl.program_id(1), pl.program_id(2)
        first, end = sweep.find_range(block, count)

        def step() -> None:
            _write(carry, sweep.step(_read(held), _read(swept), _read(carry), block, at))

        pl.when(at == 0)(lambda: _write(carry, _start(sweep)))
        pl.when((at >= first) & (at < end))(step)
        pl.when(at == count - 1)(lambda: _write(results, sweep.finish(_read(carry))))

    shapes = operands.shape_results()
    sizes = operands.sizes
    return pl.pallas_call(
        kernel,
        grid=(operands.heads, *operands.counts),
        in_specs=[
            *[operands.specify(array, sizes[0], _held) for array in operands.held],
            *[operands.specify(array, sizes[1], _swept) for array in operands.swept],
        ],
        out_specs=[operands.specify(shape, sizes[0], _held) for shape in shapes],
        out_shape=shapes,
        scratch_shapes=[tpu.VMEM(shape, jnp.float32) for shape, _ in sweep.starts],
        interpret=interpret,
    )(*operands.held, *operands.swept)


def sweep_in_loop(
    sweep: Sweep, operands: Operands, *, interpret: bool = False, params: Any = None
) -> list[Any]:
    """Runs a sweep in the form for GPUs; ``params`` are the parameters of the compiler."""
    size = operands.sizes[1]

    def kernel(*refs: Any) -> None:
        held, swept, results, _ = operands.split(refs)
        block = pl.program_id(1)
        kept = _read(held)

        def step(at: Any, carry: Any) -> Any:
            cut = [ref[pl.ds(at * size, size), :] for ref in swept]
            return sweep.step(kept, cut, carry, block, at)

        first, end = sweep.find_range(block, operands.counts[1])
        _write(results, sweep.finish(lax.fori_loop(first, end, step, _start(sweep))))

    shapes = operands.shape_results()
    return pl.pallas_call(
        kernel,
        grid=(operands.heads, operands.counts[0]),
        in_specs=[
            *[operands.specify(array, operands.sizes[0], _held) for array in operands.held],
            *[operands.specify(array, array.shape[1], _whole) for array in operands.swept],
        ],
        out_specs=[operands.specify(shape, operands.sizes[0], _held) for shape in shapes],
        out_shape=shapes,
        compiler_params=params,
        interpret=interpret,
    )(*operands.held, *operands.swept)


def _held(*at: Any) -> Any:
    return at[0]


def _swept(*at: Any) -> Any:
    return at[1]


def _whole(*_at: Any) -> Any:
    return ZERO


def _start(sweep: Sweep) -> tuple[Any, ...]:
    return tuple(jnp.full(shape, value, jnp.float32) for shape, value in sweep.starts)


def _read(refs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(ref[...] for ref in refs)


def _write(refs: Sequence[Any], values: Sequence[Any]) -> None:
    for ref, value in zip(refs, values, strict=True):
        ref[...] = value.astype(ref.dtype)
