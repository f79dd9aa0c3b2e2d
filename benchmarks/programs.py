"""Complete training steps over the same steps on torch: op by op, and as one program of ``oplib.jit``.

Op by op they have the sizes of public programs, see ``PUBLIC_SIZES``, and then those of the tests, at which
torch and oplib do little but call. Compiled, they have those of the tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import oplib
from tests.programs.catalogue import PROGRAMS, Program, resize
from tests.programs.training import Maker

from .rounds import Case, Comparison, Effort, compare
from .table import Row

TITLE = "training steps, over torch"
CONTROL = "torch eager"
LEFT_OUT = "lstm_scan"  # torch has no scan
SMALL = "eager, small"
WORST = {"eager": 3.0, SMALL: None, "oplib.jit": 1.5}
MEAN = {"eager": 1.9, SMALL: None, "oplib.jit": 0.35}


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row for each program and way to run it, then the geometric means; without torch nothing."""
    if importlib.util.find_spec("torch") is None:
        yield Row("training steps", CONTROL, note="torch is not importable: install the extra 'bench'")
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    for way, compile_function in (("eager", _keep), (SMALL, _keep), ("oplib.jit", oplib.jit)):
        ratios: list[float] = []
        for name in PROGRAMS:
            if name != LEFT_OUT:
                program = resize(name) if way == "eager" else PROGRAMS[name]
                mine, its = make_step(program, oplib, compile_function), make_step(program, torch, _keep)
                measured = compare(mine, its, effort)
                ratios.append(measured.ratio)
                yield Row(f"{name}, {way}", CONTROL, WORST[way], measured)
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        yield Row(f"geometric mean, {way}", CONTROL, MEAN[way], Comparison((mean,), (1.0,)))


def _keep(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def make_step(program: Program, lib: Any, compile_function: Callable[[Any], Any]) -> Case:
    """A step of a program on a library, which has run twice."""
    maker = Maker(lib, "float32", compile_function)
    training = program.make(maker)
    tensors = maker.tensors(next(program.draw(np.random.default_rng(0))))

    def step() -> Any:
        losses = training.step(**tensors)
        return losses[0] if isinstance(losses, tuple) else losses

    for _ in range(2):
        step()
    return Case(step)
