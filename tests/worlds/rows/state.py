"""Rows: effects on what stands outside of the code: Generators, Tensors, a host."""

from __future__ import annotations

import jax
import numpy as np

import oplib
from tests.worlds.row import clear, drop, journal, row

generator = oplib.Generator()
total = oplib.zeros(2)


VMAP = dict.fromkeys(
    ["oplib vmap", "grad of oplib vmap"], "randomness error mode|would change a Generator made outside"
)
DRAW = VMAP | dict.fromkeys(
    ["body", "jax", "jax jit", "tape in jax jit", "records nothing"],
    "would change a Generator made outside|reads values",
)
WRITE = dict.fromkeys(
    [
        "oplib vmap",
        "grad of oplib vmap",
        "body",
        "jax jit",
        "tape in jax jit",
        "jit of grad",
        "grad of jit",
        "vmap of grad",
        "grad of vmap",
        "grad of checkpoint",
        "grad of shard map",
        "derived",
    ],
    "made outside this trace|not mapped|reads a Tensor from outside",
)
CONSTANT = WRITE | dict.fromkeys(["oplib vmap", "grad of oplib vmap", "vmap of grad", "grad of vmap"])
ORDERED = dict.fromkeys(
    ["vmap of grad", "grad of vmap", "oplib vmap", "grad of oplib vmap"], "vmap of an op with Tag.ordered"
)
# JAX's own refusal.
REMAT = {"grad of checkpoint": "Effects not supported in (partial-eval|AD) of `checkpoint`"}
ORDERED |= REMAT


def _add_twice(values):
    return [value * 2 for value in values]


def _note_twice(notes):
    return notes * 2


TWO_WRITES = {"runs twice": _add_twice}
# A checkpoint runs the effects of ops again. D.53: JAX drops those in loops that it differentiates.
TWO_NOTES = {"runs twice": _note_twice, "checkpoint of oplib jit": _note_twice}
NOTES = TWO_NOTES | dict.fromkeys(["grad of lax scan", "grad of oplib scan"], drop)


def _seed():
    generator.manual_seed(3)


def _read_generator():
    return str(generator.get_state())


def _clear_total():
    total.zero_()


def _read_total():
    return total.tolist()


@row(refuses=VMAP)
def generator_made_inside(t, square):
    own = oplib.Generator().manual_seed(5)
    return square(t) * (oplib.rand(2, generator=own) + oplib.rand(2, generator=own))


@row(refuses=VMAP)
def generator_from_a_key(t, square):
    own = oplib.Generator.from_key(jax.random.key(5))
    return square(t) * oplib.rand(2, generator=own)


@row(before=_seed, after=_read_generator, refuses=DRAW)
def generator_from_outside(t, square):
    return square(t) * oplib.rand(2, generator=generator)


@row(before=_seed, after=_read_generator, refuses=DRAW)
def generator_in_a_block_without_recording(t, square):
    with oplib.no_grad():
        noise = oplib.rand(2, generator=generator)
    return square(t) * noise


@row(before=_clear_total, after=_read_total, effects=TWO_WRITES, refuses=WRITE)
def write_into_a_Tensor_from_outside(t, square):
    y = square(t)
    total.add_(y.detach())
    return y * t


@row(before=_clear_total, after=_read_total, effects=TWO_WRITES, refuses=CONSTANT)
def write_of_a_constant_into_a_Tensor_from_outside(t, square):
    total.add_(1)
    return square(t) * t


@row(before=_clear_total, after=_read_total, refuses=CONSTANT)
def written_Tensor_from_outside_read(t, square):
    total.fill_(3)
    return square(t) * t * total


@oplib.library.custom_op(tags=oplib.Tag.ordered)
def note(x: np.ndarray) -> None:
    journal.append(float(np.round(x.sum(), 3)))


def _read_notes():
    jax.effects_barrier()
    return list(journal)


@row(before=clear, after=_read_notes, effects=NOTES, refuses=ORDERED)
def effect(t, square):
    y = square(t)
    note(y.detach())
    return y * t


@row(
    before=clear,
    after=_read_notes,
    effects=TWO_NOTES | dict.fromkeys(["grad of lax scan", "grad of oplib scan"], _note_twice),
    refuses=REMAT,
)
def effect_of_a_constant(t, square):
    note(oplib.ones(2))
    note(oplib.ones(2) * 2)
    return square(t) * t


@row(before=clear, after=_read_notes, effects=NOTES, refuses=ORDERED)
def effect_of_what_is_differentiated(t, square):
    y = square(t)
    note(y)
    return y * t


@row(before=clear, after=_read_notes, effects=NOTES, refuses=ORDERED)
def effect_without_recording(t, square):
    y = square(t)
    with oplib.no_grad():
        note(y)
    return y * t
