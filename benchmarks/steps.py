"""``oplib.jit``: training steps against the same steps in pure JAX, and chains of small ops against torch."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from operator import mul
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib

from .rounds import Case, Comparison, Effort, compare, wait
from .table import Row

TITLE = "oplib.jit: a step as one program"
BY_HAND = "jax.jit of value_and_grad, donated, that returns the gradients too"
LINKS = 100
SIZES = {  # layers, width, batch, bound
    "50 small parameters": (25, 8, 16, 1.25),
    "12 large parameters": (6, 512, 64, 1.10),
}
TRIES = 3

Arrays = list[jax.Array]


def measure(effort: Effort) -> Iterator[Row]:
    """Yields steps, their first calls and the cost of a call; chains only where torch is installed."""
    for what, (layers, width, batch, bound) in SIZES.items():
        mine, by_hand = _make_steps(layers, width, batch)
        mine()  # the first call has no gradients yet
        yield Row(f"step of {what}", BY_HAND, bound, compare(Case(mine), Case(by_hand), effort))
    yield Row(
        "first call of the step of 50 small parameters", "the first call by hand", 1.5, _time_first_calls()
    )
    yield Row(
        "a call that captures 50 Tensors and writes them", "a budget in seconds", 60e-6, seconds=_time_call()
    )
    if importlib.util.find_spec("torch") is None:
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    for what, bound, make in (
        ("forward and backward inside", 0.15, _chain_inside),
        ("forward inside, backward outside", 0.4, _chain_outside),
    ):
        times = compare(Case(make()), Case(_chain_of_torch(torch)), effort)
        yield Row(f"{LINKS} chained multiplications, {what}", "torch eager", bound, times)


def _make_steps(layers: int, width: int, batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same step with momentum, imperative and pure."""
    random = np.random.default_rng(0)
    shapes = [shape for _ in range(layers) for shape in ((width, width), (width,))]
    values = [random.normal(0, 0.3 / width**0.5, shape).astype(np.float32) for shape in shapes]
    x, y = (random.normal(size=(batch, width)).astype(np.float32) for _ in range(2))
    return _make_imperative(values, x, y), _make_pure(values, x, y)


def _make_imperative(values: list[Any], x: Any, y: Any) -> Callable[[], Any]:
    weights = [oplib.tensor(value, requires_grad=True) for value in values]
    momenta = [oplib.zeros_like(weight) for weight in weights]

    @oplib.jit
    def step(x: oplib.Tensor, y: oplib.Tensor) -> oplib.Tensor:
        for weight in weights:
            weight.grad = None
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            x = (x @ weight + bias).tanh()
        loss = ((x - y) ** 2).mean()
        loss.backward()
        with oplib.no_grad():
            for weight, momentum in zip(weights, momenta, strict=True):
                momentum.mul_(0.9).add_(weight.grad)
                weight.sub_(momentum, alpha=0.01)
        return loss.detach()

    batch = oplib.tensor(x), oplib.tensor(y)
    return lambda: step(*batch)


def _make_pure(values: list[Any], x: Any, y: Any) -> Callable[[], Any]:
    def loss(weights: Arrays, x: Any, y: Any) -> Any:
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            x = jnp.tanh(x @ weight + bias)
        return jnp.mean((x - y) ** 2)

    def train(weights: Arrays, momenta: Arrays, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(weights, x, y)
        momenta = [0.9 * momentum + grad for momentum, grad in zip(momenta, grads, strict=True)]
        weights = [weight - 0.01 * momentum for weight, momentum in zip(weights, momenta, strict=True)]
        return value, weights, momenta, grads

    step = jax.jit(train, donate_argnums=(0, 1))
    state = [[jnp.array(value) for value in values], [jnp.zeros(value.shape) for value in values]]
    batch = jnp.array(x), jnp.array(y)

    def run() -> Any:
        value, state[0], state[1], _ = step(*state, *batch)
        return value

    return run


def _time_first_calls() -> Comparison:
    """Compiles the step for widths that nothing else has."""
    times: tuple[list[float], list[float]] = ([], [])
    for width in range(9, 9 + TRIES):
        for side, run in enumerate(_make_steps(25, width, 16)):
            start = time.perf_counter()
            wait(run())
            times[side].append(time.perf_counter() - start)
    return Comparison(tuple(times[0]), tuple(times[1]))


def _time_call() -> float:
    """Seconds of a call that does next to nothing but read and write its operands, less the bare program."""
    tensors = [oplib.zeros(1) for _ in range(50)]

    @oplib.jit
    def touch() -> None:
        for tensor in tensors:
            tensor.add_(1)

    bare = jax.jit(lambda arrays: [array + 1 for array in arrays], donate_argnums=0)
    state = [[jnp.zeros(1) for _ in tensors]]

    def run_bare() -> None:
        state[0] = bare(state[0])

    best = []
    for call in (touch, run_bare):
        call()
        best.append(min(Case(call).time(100, time.perf_counter) for _ in range(20)))
    return best[0] - best[1]


def _chain(x: Any, factor: Any) -> Any:
    for _ in range(LINKS):
        x = mul(x, factor)
    return x.sum()


def _make_leaves() -> tuple[oplib.Tensor, oplib.Tensor]:
    return oplib.ones(8, 8, requires_grad=True), oplib.full((8, 8), 1.01)


def _chain_inside() -> Callable[[], Any]:
    leaf, factor = _make_leaves()

    @oplib.jit
    def run() -> None:
        leaf.grad = None
        _chain(leaf, factor).backward()

    run()  # the first call has no gradient yet
    return lambda: (run(), leaf.grad)[1]


def _chain_outside() -> Callable[[], Any]:
    leaf, factor = _make_leaves()
    forward = oplib.jit(_chain)

    def run() -> Any:
        leaf.grad = None
        forward(leaf, factor).backward()
        return leaf.grad

    return run


def _chain_of_torch(torch: Any) -> Callable[[], Any]:
    leaf, factor = torch.ones(8, 8, requires_grad=True), torch.full((8, 8), 1.01)

    def run() -> Any:
        leaf.grad = None
        _chain(leaf, factor).backward()
        return leaf.grad

    return run
