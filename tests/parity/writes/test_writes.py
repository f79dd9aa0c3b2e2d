"""Each path that writes, with each layout of what it writes: torch's values, or a refusal before a write."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import oplib
from oplib.autograd.compiled_autograd import enable

from . import layouts
from .layouts import HISTORIES, INFERENCE, LAYOUTS, OVERLAPPING, REPEATED, SOURCES
from .paths import GRADS, OPS, PATHS, Path, find_path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spec("D.44"),
    pytest.mark.filterwarnings(
        "ignore:.*output with one or more elements", "ignore:.*oplib.jit has compiled"
    ),
]
Run = Callable[[Any, Path, Any, Any], Any]
Found = tuple[str, Any]
# Here torch only advises against items that share memory: the last one stays, in some order.
_UNORDERED = {
    "masked_fill_",
    "masked_fill_ by source",
    "set a mask",
    "set a list",
    "index_put_",
    "index_put_ sums",
    "index_fill_",
    "scatter_",
    "scatter_add_",
    "out of sum",
}
_READS_WHAT_IT_WROTE = {"out of sum", "masked_scatter_"}  # torch, where target and source overlap
_ONLY_IN_TRACES = "tensor from outside|items under a traced mask is not known"
_ONE_ITEM = "more than one element of the written-to tensor refers to a single memory location"
_OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory"
# What oplib refuses and torch does not, see docs/use/beside_torch.md and docs/write_an_op/mutation.md
_STRICTER = (
    "two written arguments share memory|in-place operation. Argument '[ab]' is|which has no derivative|"
    "must be resized|is a view and cannot get another shape|a complex value cannot be stored|"
    "new value of a written argument does not"
)
# dtypes of `out=`, which oplib converts, and an index into no items
_WIDER = "Found dtype|Expected out type|expects mantissa|out of bounds for dimension 0 with size 0"


def _read(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_read(member) for member in value]
    if isinstance(value, (torch.Tensor, oplib.Tensor)):
        array = np.asarray(value.detach().numpy())
        return array.astype(np.int32) if array.dtype == np.int64 else array
    return None


def _observe(tensors: dict[str, Any]) -> Any:
    """Returns values, and whether each was written."""
    return {name: [_read(tensor), _is_counted(tensor)] for name, tensor in tensors.items()}


def _is_counted(tensor: Any) -> bool | None:
    try:
        return tensor._version > 0
    except RuntimeError:  # of inference mode
        return None


def _are_equal(some: Any, others: Any) -> bool:
    if isinstance(some, dict):
        return all(_are_equal(some[name], others[name]) for name in some)
    if isinstance(some, list):
        return len(some) == len(others) and all(map(_are_equal, some, others))
    if isinstance(some, np.ndarray):
        is_alike = some.shape == others.shape and some.dtype == others.dtype
        return is_alike and np.allclose(some, others, rtol=1e-5, atol=1e-5, equal_nan=True)
    return some == others


def _call(lib: Any, path: Path, target: Any, source: Any) -> Any:
    return path(lib, target, source)


def _write(lib: Any, layout: str, path: Path, run: Run = _call) -> Found:
    """Returns what is there after a write; for a refusal its text, and what has changed."""
    tensors = layouts.make(lib, layout)
    before = _observe(tensors)
    try:
        result = run(lib, path, tensors["target"], tensors["source"])
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        after = _observe(tensors)
        return "refused", (str(error), [name for name in before if not _are_equal(before[name], after[name])])
    return "written", (_observe(tensors), _read(result))


def _expect(name: str, layout: str, path: Path) -> Found:
    """Returns what torch gives; where it refuses an overlap of target and source, what a clone gives."""
    kind, found = _write(torch, layout, path)
    if (kind == "refused" and _OVERLAP in found[0]) or (name in _READS_WHAT_IT_WROTE and layout in SOURCES):
        return _write(torch, layout, lambda lib, t, s: path(lib, t, s.clone()))
    return kind, found


def _find_fault(name: str, layout: str, due: Found, found: Found) -> str | None:
    """Returns how oplib differs from torch in one cell; None if it may."""
    if found[0] == "written":
        if due[0] == "written":
            return None if _are_equal(due[1][0], found[1][0]) else f"gives {found[1][0]}, torch {due[1][0]}"
        text = due[1][0]
        is_wider = name == "fill_ with an item" and _ONE_ITEM in text
        return None if is_wider or re.search(_WIDER, text) else f"is written, torch: {text}"
    text, changed = found[1]
    of_kernel = name.startswith("op on tensors") and text.startswith(("add_", "mul_"))  # counted, as in torch
    if changed and not of_kernel and not (due[0] == "refused" and due[1][1]):
        return f"changes {changed} and refuses: {text}"
    is_cast = name.startswith("out of") and "can't be cast to the desired output type" in text
    if due[0] == "refused" or is_cast or re.search(_STRICTER, text):
        return None
    is_repeated = layout in {*REPEATED, "expanded leaf", "expanded as leaf"}
    has_order = layout in OVERLAPPING or (is_repeated and name in _UNORDERED)
    if (
        name == "detach" and layout in INFERENCE and "outside InferenceMode" in text
    ):  # torch counts no version
        return None
    return None if has_order and _ONE_ITEM in text else f"refuses: {text}"


def _list_faults(name: str, run: Run = _call, names: Iterable[str] = LAYOUTS) -> list[str]:
    """Returns the faults of a path beside torch."""
    own, plain = find_path(name)
    faults: list[str] = []
    for layout in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            due = _expect(name, layout, lambda lib, t, s: run(lib, plain, t, s))
        fault = _find_fault(name, layout, due, _write(oplib, layout, own, run))
        if fault is not None:
            faults.append(f"{layout} {fault}")
    return faults


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", [*PATHS, *OPS])
def test_a_write_gives_the_values_of_torch_or_is_refused_before_it_is_made(name: str) -> None:
    assert _list_faults(name) == []


def _call_without_grad(lib: Any, path: Path, target: Any, source: Any) -> Any:
    with lib.no_grad():
        return path(lib, target, source)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", [name for name in [*PATHS, *OPS] if name not in GRADS])
def test_a_write_without_grad_gives_the_values_of_torch(name: str) -> None:
    assert _list_faults(name, _call_without_grad, HISTORIES) == []


_OFTEN_ALIKE = {  # for a program, beside other layouts
    "view of view",
    "strided",
    "imaginary part of a slice",
    "windows apart",
    "view of data",
    "item of expanded",
    "item of data of expanded",
    "column of expanded",
    "column of overlapping",
    "each second window",
    "expanded item",
    "expanded matrix",
    "row of detached expanded",
    "view of expanded",
    "part of expanded",
    "overlapping windows",
    "source is transposed",
    "source of integers",
    "source of halves",
    "integers",
    "booleans",
    "view of inference tensor",
}
_OF_PROGRAMS = [name for name in LAYOUTS if name not in _OFTEN_ALIKE]


def _list_changes(own: Path, run: Run, names: Iterable[str] = LAYOUTS) -> list[str]:
    """Returns where a mode gives something else than op by op, or refuses after a write."""
    faults: list[str] = []
    for layout in names:
        due, found = _write(oplib, layout, own), _write(oplib, layout, own, run)
        if found[0] == "refused":
            text, changed = found[1]
            if changed and not (due[0] == "refused" and due[1][1]):
                faults.append(f"{layout} changes {changed} and refuses: {text}")
            elif due[0] == "written" and not re.search(_ONLY_IN_TRACES, text):
                faults.append(f"{layout} refuses: {text}")
        elif due[0] == "refused":
            if "the source has too few items" not in due[1][0]:  # which a program does not know
                faults.append(f"{layout} is written, op by op: {due[1][0]}")
        elif not _are_equal(due[1][0], found[1][0]):
            faults.append(f"{layout} gives {found[1][0]}, op by op {due[1][0]}")
    return faults


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", [*PATHS, *OPS])
def test_a_program_writes_as_op_by_op(name: str) -> None:
    """One program serves all layouts, so each call meets what was compiled for other layouts."""
    own, _ = find_path(name)
    step = oplib.jit(lambda t, s: own(oplib, t, s))

    def run(lib: Any, path: Path, target: Any, source: Any) -> Any:
        return step(target, source)

    first, second = (_list_changes(own, run, _OF_PROGRAMS) for _ in range(2))
    assert (first, second) == ([], [])


def _call_compiled(lib: Any, path: Path, target: Any, source: Any) -> Any:
    with enable(jax.jit):
        return path(lib, target, source)


@pytest.mark.parametrize("name", GRADS)
def test_a_compiled_backward_writes_as_op_by_op(name: str) -> None:
    assert _list_changes(PATHS[name], _call_compiled) == []
