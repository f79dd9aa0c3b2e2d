"""Each path that writes, with each layout of what it writes: torch's values, or a refusal before a write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import jax
import pytest

import oplib
from oplib.autograd.compiled_autograd import enable

from .cells import Run, are_equal, list_faults, write
from .layouts import HISTORIES, LAYOUTS
from .paths import GRADS, OPS, PATHS, Path, find_path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spec("D.44"),
    pytest.mark.filterwarnings(
        "ignore:.*output with one or more elements", "ignore:.*oplib.jit has compiled"
    ),
]
_ONLY_IN_TRACES = "tensor from outside|items under a traced mask is not known"


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", [*PATHS, *OPS])
def test_a_write_gives_the_values_of_torch_or_is_refused_before_it_is_made(name: str) -> None:
    assert list_faults(name) == []


def _call_without_grad(lib: Any, path: Path, target: Any, source: Any) -> Any:
    with lib.no_grad():
        return path(lib, target, source)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", [name for name in [*PATHS, *OPS] if name not in GRADS])
def test_a_write_without_grad_gives_the_values_of_torch(name: str) -> None:
    assert list_faults(name, _call_without_grad, HISTORIES) == []


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
        due, found = write(oplib, layout, own), write(oplib, layout, own, run)
        if found[0] == "refused":
            text, changed = found[1]
            if changed and not (due[0] == "refused" and due[1][1]):
                faults.append(f"{layout} changes {changed} and refuses: {text}")
            elif due[0] == "written" and not re.search(_ONLY_IN_TRACES, text):
                faults.append(f"{layout} refuses: {text}")
        elif due[0] == "refused":
            if "the source has too few items" not in due[1][0]:  # which a program does not know
                faults.append(f"{layout} is written, op by op: {due[1][0]}")
        elif not are_equal(due[1][0], found[1][0]):
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
