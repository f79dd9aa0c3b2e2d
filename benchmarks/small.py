"""Small calls, where Python around one program is what costs."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from . import small_programs as programs
from .rounds import Effort, compare
from .table import Row

TITLE = "small calls"
TORCH = "the same in torch"
ABSENT = "torch is not importable: install the extra 'bench'"
ROWS: list[tuple[str, str, float, Callable[[], programs.Pair]]] = [
    ("autograd.grad of one op", "backward() of it", 1.3, programs.grad_of_one_op),
    ("oplib.jit of one op, warm", "jax.jit", 3.0, programs.one_op),
    ("step of 10 small parameters", "jax.jit by hand", 1.45, programs.step(10)),
    ("step of 50 small parameters", "jax.jit by hand", 1.2, programs.step(50)),
    ("step of 200 small parameters", "jax.jit by hand", 1.12, programs.step(200)),
    ("recorded call with 50 parameters", "jax.jit of the forward", 3.0, programs.recorded_call),
    (
        "forward inside, backward outside, 50 parameters",
        "jax.jit of value_and_grad",
        2.2,
        programs.backward_outside,
    ),
    (
        "Optimizer.step of Adam, 50 parameters",
        "jax.jit of the update",
        1.4,
        programs.optimizer_step,
    ),
    ("a token with a cache, in oplib.jit", "jax.jit, donated", 1.3, programs.compiled_decoding),
    ("x[2:4].fill_(1)", "jax.jit of .at[].set, donated", 3.0, programs.window_write),
    ("fill_ of a held view", "jax.jit of .at[].set, donated", 2.0, programs.held_write),
    ("a step with second derivatives", "jax.jit by hand", 1.1, programs.informed_step),
    ("a backward that adds to two gradients", "one that stores them", 1.28, programs.added_gradients),
    ("writes of 50 Tensors in oplib.jit", "jax.jit, donated", 1.35, programs.written_tensors),
]
SLOW: list[tuple[str, str, float, Callable[[], programs.Pair]]] = [
    ("first stack of 100 Tensors and its backward", "jax.grad", 2.5, programs.first_stack),
    ("a new shape of an oplib.jit function", "jax.jit", 1.5, programs.new_shapes),
    ("lowering of 1,000 ops", "jax.numpy", 1.3, programs.lowering),
    ("save of 128 MB", "numpy.savez", 2.5, programs.large_save),
]
BESIDE_TORCH: list[tuple[str, float, Callable[[Any], programs.Pair]]] = [
    ("a custom op, forward and backward", 0.42, programs.custom_op),
    ("a policy of three ops in oplib.jit, rolled out", 2.0, programs.rollout),
    ("a token with a cache, op by op", 3.5, programs.decoding),
    ("x[0, 0].item()", 3.0, programs.read_item),
    ("load of 1,000 small Tensors", 1.2, programs.many_loads),
]


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row for each program; the slow ones are run a few times."""
    few = replace(effort, seconds=0.0, least_rounds=3)
    for rows, own in ((ROWS, effort), (SLOW, few)):
        for what, control, bound, make in rows:
            yield Row(what, control, bound, compare(*make(), own))
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None  # optional, and slow to import
    for what, bound, make in BESIDE_TORCH:
        if torch is None:
            yield Row(what, TORCH, bound, note=ABSENT)
        else:
            yield Row(what, TORCH, bound, compare(*make(torch), effort))
