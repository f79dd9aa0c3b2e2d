"""Cells of the matrix: one write on a layout, what torch gives for it, and how oplib may differ."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

import oplib

from . import layouts
from .layouts import INFERENCE, LAYOUTS, OVERLAPPING, REPEATED, SOURCES
from .paths import Path, find_path

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


def read(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [read(member) for member in value]
    if isinstance(value, (torch.Tensor, oplib.Tensor)):
        array = np.asarray(value.detach().numpy())
        return array.astype(np.int32) if array.dtype == np.int64 else array
    return None


def observe(tensors: dict[str, Any]) -> Any:
    """Returns values, and whether each was written."""
    return {name: [read(tensor), _is_counted(tensor)] for name, tensor in tensors.items()}


def _is_counted(tensor: Any) -> bool | None:
    try:
        return tensor._version > 0
    except RuntimeError:  # of inference mode
        return None


def are_equal(some: Any, others: Any) -> bool:
    if isinstance(some, dict):
        return all(are_equal(some[name], others[name]) for name in some)
    if isinstance(some, list):
        return len(some) == len(others) and all(map(are_equal, some, others))
    if isinstance(some, np.ndarray):
        is_alike = some.shape == others.shape and some.dtype == others.dtype
        return is_alike and np.allclose(some, others, rtol=1e-5, atol=1e-5, equal_nan=True)
    return some == others


def _call(lib: Any, path: Path, target: Any, source: Any) -> Any:
    return path(lib, target, source)


def write(lib: Any, layout: str, path: Path, run: Run = _call, d: Any = None) -> Found:
    """Returns what is there after a write; for a refusal its text, and what has changed."""
    tensors = layouts.make(lib, layout, d)
    before = observe(tensors)
    try:
        result = run(lib, path, tensors["target"], tensors["source"])
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        after = observe(tensors)
        return "refused", (str(error), [name for name in before if not are_equal(before[name], after[name])])
    return "written", (observe(tensors), read(result))


def expect(name: str, layout: str, path: Path, d: Any = None) -> Found:
    """Returns what torch gives; where it refuses an overlap of target and source, what a clone gives."""
    base = None if d is None else d.clone()
    kind, found = write(torch, layout, path, d=base)
    if (kind == "refused" and _OVERLAP in found[0]) or (name in _READS_WHAT_IT_WROTE and layout in SOURCES):
        return write(torch, layout, lambda lib, t, s: path(lib, t, s.clone()), d=d)
    return kind, found


def _compare(due: dict[str, Any], found: dict[str, Any]) -> str | None:
    wrong = [name for name in due if not are_equal(due[name], found[name])]
    return f"gives {[(name, found[name], due[name]) for name in wrong]}, torch the latter" if wrong else None


def find_fault(name: str, layout: str, due: Found, found: Found) -> str | None:
    """Returns how oplib differs from torch in one cell; None if it may."""
    if found[0] == "written":
        if due[0] == "written":
            return _compare(due[1][0], found[1][0])
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


def list_faults(name: str, run: Run = _call, names: Iterable[str] = LAYOUTS) -> list[str]:
    """Returns the faults of a path beside torch."""
    own, plain = find_path(name)
    faults: list[str] = []
    for layout in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            due = expect(name, layout, lambda lib, t, s: run(lib, plain, t, s))
        fault = find_fault(name, layout, due, write(oplib, layout, own, run))
        if fault is not None:
            faults.append(f"{layout} {fault}")
    return faults
