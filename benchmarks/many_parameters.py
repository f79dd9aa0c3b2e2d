"""Steps of many small parameters, over pure JAX: their time, their first call, and their equations."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import jax

import oplib

from .rounds import Case, Comparison, Effort, compare, wait
from .steps import BY_HAND, draw_step, make_steps
from .table import Row

WIDTH, BATCH, TRIES = 8, 16, 3


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the steps, then their first calls, then the number of equations."""
    for count in (100, 1_000):
        times = compare(*map(Case, make_steps(count // 2, WIDTH, BATCH)), effort)
        yield Row(f"step of {count:,} small parameters", BY_HAND, 1.2, times)
    for count in (100, 800):
        what = f"first call of a step of {count} small parameters, without XLA"
        yield Row(what, "the first call by hand", 1.5, _time_first_calls(count // 2))
    yield Row("equations of a recorded and differentiated program", "jax.grad", 1.2, _count_equations())


def _time_first_calls(layers: int) -> Comparison:
    """Makes the step for widths that nothing else has, without the time that XLA compiles and computes."""
    compiling: list[float] = []

    def note(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiling.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(note)
    times: tuple[list[float], list[float]] = ([], [])
    for width in range(3, 3 + TRIES):
        for side, run in enumerate(make_steps(layers, width, BATCH)):
            gc.collect()
            compiling.clear()
            start = time.perf_counter()
            result = run()
            times[side].append(time.perf_counter() - start - sum(compiling))
            wait(result)
    return Comparison(tuple(times[0]), tuple(times[1]))


def _count_equations() -> Comparison:
    values, x, y = draw_step(50, WIDTH, BATCH)

    def find_loss(weights: list[Any], x: Any, y: Any) -> Any:
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            x = tanh(x @ weight + bias)
        return ((x - y) ** 2).mean()

    def record(values: list[Any], x: Any, y: Any) -> list[Any]:
        weights = [oplib.Tensor.from_array(value, requires_grad=True) for value in values]
        find_loss(weights, *map(oplib.Tensor.from_array, (x, y))).backward()
        return [weight.grad.array for weight in weights if weight.grad is not None]

    tanh: Any = oplib.tanh
    mine = _count(jax.make_jaxpr(record)(values, x, y))
    tanh = jax.numpy.tanh
    its = _count(jax.make_jaxpr(jax.grad(find_loss))(values, x, y))
    return Comparison((float(mine),), (float(its),))


def _count(jaxpr: Any) -> int:
    """Returns the number of equations of a jaxpr, with those inside of others in place of these."""
    total = 0
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        bodies = [value for value in jax.tree.leaves(equation.params) if hasattr(value, "eqns")]
        total += sum(map(_count, bodies)) if bodies else 1
    return total
