"""Asks torch which ops take complex128, and which of these it differentiates.

``python -m tests.parity.complex_answers`` writes the answers into ``tests/builtin/grid/complex_ops.py``,
where lanes without torch read them too.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import jax
import torch

import tests.builtin.grid.complex_ops as written
from tests.builtin.grid.calls import OPS, Call, find_call
from tests.builtin.grid.check import is_all_real
from tests.builtin.samples.samples import find_samples

from .counterparts import has_counterpart
from .torch_samples import function_of, make_arguments, to_list

# Of these torch is not asked: it has no such call, or its answer is about something else.
OWN_ANSWERS = {
    "setitem": "x[...] = y of torch takes complex numbers, and differentiates",
    "scatter.src": "torch's gradient asks for an index of the shape of src, whatever the dtype",
}
HEADER = '''"""Which ops take complex numbers, and which are differentiated then: torch's answers, written by
``python -m tests.parity.complex_answers``.
"""

from __future__ import annotations

# ruff: noqa: SIM905  a name in quotes on each line would be a page
'''


def takes_complex(name: str) -> tuple[bool, bool]:
    """Whether torch takes complex128 in every sample of an op, and differentiates."""
    if name in OWN_ANSWERS:
        return True, True
    answers: list[bool] = []
    differentiates = False
    for number, sample in enumerate(find_samples(OPS[name])):
        if is_all_real(sample) and has_counterpart(name):
            call = find_call(name, number, is_complex=True)
            answers.append(try_torch(call, requires_grad=False))
            differentiates |= try_torch(call, requires_grad=True)
    return bool(answers) and all(answers), differentiates


def try_torch(call: Call, *, requires_grad: bool) -> bool:
    """Whether torch computes; with ``requires_grad``, whether it differentiates."""
    try:
        args, kwargs, _ = make_arguments(torch, call, requires_grad=requires_grad)
        results = to_list(function_of(torch, call.name)(*args, **kwargs))
        return has_gradient(results) if requires_grad else True
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False


def has_gradient(results: list[Any]) -> bool:
    floating = [one for one in results if one.requires_grad]
    if floating:
        torch.autograd.backward(floating, [torch.ones_like(one) for one in floating])
    return bool(floating)


def ask_torch() -> dict[str, frozenset[str]]:
    """Returns what ``tests/builtin/grid/complex_ops.py`` should say."""
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = {name: takes_complex(name) for name in OPS}
    return {
        "ACCEPT_COMPLEX": frozenset(name for name, answer in answers.items() if answer[0]),
        "DIFFERENTIATE_COMPLEX": frozenset(name for name, answer in answers.items() if answer[1]),
    }


def write_answers() -> None:
    lines = [HEADER]
    for title, names in ask_torch().items():
        lines += [f"{title} = frozenset(", '    """']
        lines += wrap(sorted(names))
        lines += ['    """.split()', ")"]
    Path(written.__file__).write_text("\n".join(lines) + "\n", encoding="utf-8")


def wrap(names: list[str], width: int = 110) -> list[str]:
    lines = ["   "]
    for name in names:
        if len(lines[-1]) + 1 + len(name) > width:
            lines.append("   ")
        lines[-1] += f" {name}"
    return lines


if __name__ == "__main__":
    write_answers()
