"""Writes of Tensors that are made within vmap, loops and ``jax.jit``: what torch gives op by op."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import oplib
from oplib import Tensor

from . import layouts
from .cells import expect, find_fault
from .layouts import LAYOUTS
from .paths import Path, find_path

pytestmark = [pytest.mark.slow, pytest.mark.spec("D.44")]
Step = Callable[[Any], dict[str, Any]]
BASES = np.stack([np.arange(1, 13), np.arange(12, 0, -1)]).astype(np.float32)
# A program takes long to compile, so most modes meet few layouts. No source overlaps its target there: XLA
# compiles such loops wrongly for CPUs, as `lax.scan` alone shows.
FEW = [
    "dense",
    "view of view",
    "transposed",
    "diagonal",
    "item of data of expanded",
    "expanded",
    "source requires grad",
    "view of leaf",
]
NAMES = [
    "add_", "copy_", "set first", "set a mask", "set_", "data", "data = source", "uniform_", "out of add",
    "sum into grad", "step", "mark_dirty", "op on arrays", "op on tensors",
]  # fmt: skip
# refused with a reason that is not true: a mapped tensor is set to an item of another one
_KNOWN = {("set_", "vmap", "source is an item")}
_NO_DRAW = "a draw inside"
_NOT_IN_VMAP = (
    "a Function must override the setup_context|cannot be called inside vmap|random operation while"
)
_NOT_IN_LOOP = f"{_NO_DRAW}|does not require grad and does not have a grad_fn"  # it has no backward


def _run(layout: str, path: Path, counts: dict[str, Any], d: Any) -> dict[str, Any]:
    """Makes the tensors of a layout, writes, and returns what each holds."""
    tensors = layouts.make(oplib, layout, d)
    path(oplib, tensors["target"], tensors["source"])
    for name, tensor in tensors.items():
        try:
            counts[name] = tensor._version > 0
        except RuntimeError:  # of inference mode
            counts[name] = None
    return {name: tensors[name].detach().clone() for name in sorted(tensors)}


def _take(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: tensor[index] for name, tensor in found.items()} for index in range(len(BASES))]


def _map(step: Step) -> list[dict[str, Any]]:
    return _take(oplib.vmap(step)(oplib.tensor(BASES)))


def _scan(step: Step) -> list[dict[str, Any]]:
    start, bases = oplib.tensor(0.0), oplib.tensor(BASES)
    return _take(oplib.scan(lambda carry, d: (carry + 1, step(d.clone())), start, bases)[1])


def _loop(step: Step) -> list[dict[str, Any]]:
    def run_on(array: Any) -> dict[str, Any]:
        return {name: tensor.array for name, tensor in step(Tensor.from_array(array)).items()}

    shapes = jax.eval_shape(run_on, jnp.asarray(BASES[0]))
    found = {name: oplib.tensor(np.zeros(spec.shape, spec.dtype)) for name, spec in shapes.items()}
    return [
        oplib.while_loop(
            lambda state: state[0] < 1,
            lambda state: (state[0] + 1, state[1], step(state[1].clone())),
            (oplib.tensor(0), oplib.tensor(base), found),
        )[2]
        for base in BASES
    ]


def _choose(step: Step) -> list[dict[str, Any]]:
    run = partial(oplib.cond, oplib.tensor(True), lambda d: step(d.clone()), lambda d: step(d.clone()))
    return [run(oplib.tensor(base)) for base in BASES]


def _compile(step: Step) -> list[dict[str, Any]]:
    run = jax.jit(lambda d: {name: t.array for name, t in step(Tensor.from_array(d)).items()})
    return [{k: Tensor.from_array(v) for k, v in run(base).items()} for base in BASES]


MODES: dict[str, tuple[Callable[[Step], Any], Iterable[str], str]] = {
    "vmap": (_map, LAYOUTS, _NOT_IN_VMAP),
    "jax.jit": (_compile, FEW, _NO_DRAW),
    "scan": (_scan, FEW, _NO_DRAW),
    "while_loop": (_loop, FEW, _NOT_IN_LOOP),
    "cond": (_choose, FEW, _NO_DRAW),
}


def list_faults(name: str, mode: str) -> list[str]:
    """Returns where a mode gives something else than torch, which runs op by op on each base."""
    own, plain = find_path(name)
    run, names, others = MODES[mode]
    faults: list[str] = []
    for layout in [layout for layout in names if (name, mode, layout) not in _KNOWN]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dues = [expect(name, layout, plain, torch.tensor(base)) for base in BASES]
        counts: dict[str, Any] = {}
        try:
            found = run(partial(_run, layout, own, counts))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            fault = find_fault(name, layout, dues[0], ("refused", (str(error), [])))
            if fault is not None and not re.search(others, fault):
                faults.append(f"{layout} {fault}")
            continue
        for due, one in zip(dues, found, strict=True):
            arrays = {key: [np.asarray(tensor.array), counts[key]] for key, tensor in one.items()}
            fault = find_fault(name, layout, due, ("written", (arrays, None)))
            if fault is not None:
                faults.append(f"{layout} {fault}")
    return faults


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_a_write_within_a_transformation_gives_the_values_of_torch(name: str, mode: str) -> None:
    assert list_faults(name, mode) == []
