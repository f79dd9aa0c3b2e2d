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

from .network_models import Network, make_perceptron, make_transformer, train
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
        mine, by_hand = make_steps(layers, width, batch)
        yield Row(f"step of {what}", BY_HAND, bound, compare(Case(mine), Case(by_hand), effort))
    yield Row("peak memory of the step of 12 large parameters", BY_HAND, 1.05, _compare_memory())
    yield Row(
        "first call of the step of 50 small parameters", "the first call by hand", 1.5, _time_first_calls()
    )
    yield Row(
        "a call that captures 50 Tensors and writes them", "a budget in seconds", 60e-6, seconds=_time_call()
    )
    yield Row("the guards of a call with 50 Tensors", "a budget in seconds", 15e-6, seconds=_time_guards())
    times = compare(*_make_calls(), effort)
    yield Row("a call of a compiled method", "a call of a compiled function", 1.5, times)
    if importlib.util.find_spec("torch") is None:
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    times = compare(Case(_chain_inside()), Case(_chain_of_torch(torch)), effort)
    what = f"{LINKS} chained multiplications, forward and backward inside"
    yield Row(what, "torch eager", 0.15, times)
    for network, bound in (
        (make_perceptron(64, (784, 256, 256, 10)), 0.8),
        (make_transformer(8, 64, 128, 4), 1.0),
    ):
        mine, its = (_train_network(library, network) for library in (oplib, torch))
        yield Row(f"{network.name}, a step of descent", "torch eager", bound, compare(mine, its, effort))


class _Scale:
    """An object with a Tensor and a compiled method."""

    def __init__(self) -> None:
        self.factor = oplib.ones(4)

    @oplib.jit
    def apply(self, x: oplib.Tensor) -> oplib.Tensor:
        return x * self.factor


def _make_calls() -> tuple[Case, Case]:
    """The same product as a method and as a function."""
    x, scale = oplib.ones(4), _Scale()
    factor = scale.factor
    return Case(lambda: scale.apply(x)), Case(oplib.jit(lambda x: x * factor), x)


def measure_chain_outside(effort: Effort) -> Iterator[Row]:
    """Yields the chain whose backward runs outside; nothing without torch."""
    if importlib.util.find_spec("torch") is None:
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    times = compare(Case(_chain_outside()), Case(_chain_of_torch(torch)), effort)
    what = f"{LINKS} chained multiplications, forward inside, backward outside"
    yield Row(what, "torch eager", 0.4, times)


def _train_network(library: Any, network: Network) -> Case:
    """A step of descent: one program of ``oplib.jit``, or eager torch."""
    parameters = [library.tensor(array, requires_grad=True) for array in network.parameters]
    inputs = [library.tensor(array) for array in network.inputs]
    if library is not oplib:
        inputs = [one.long() if one.dtype == library.int32 else one for one in inputs]  # for torch

    def step() -> None:
        train(library, network, parameters, inputs)

    run = oplib.jit(step) if library is oplib else step
    return Case(lambda: (run(), parameters[0])[1])


def _compare_memory() -> Comparison:
    """Bytes of a step: arguments, results and intermediate values, without results in donated buffers."""
    values, x, y = draw_step(*SIZES["12 large parameters"][:3])
    step, batch = _make_imperative(values, x, y)
    pure, state, arrays = _make_pure(values, x, y)
    return Comparison((_count_bytes(step.lower(*batch)),), (_count_bytes(pure.lower(*state, *arrays)),))


def _count_bytes(lowered: Any) -> float:
    found = lowered.compile().memory_analysis()
    sizes = found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes
    return float(sum(sizes) - found.alias_size_in_bytes)


def make_steps(layers: int, width: int, batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Returns the same step with momentum, imperative and pure."""
    values, x, y = draw_step(layers, width, batch)
    step, tensors = _make_imperative(values, x, y)
    pure, state, arrays = _make_pure(values, x, y)

    def run() -> Any:
        value, state[0], state[1], _ = pure(*state, *arrays)
        return value

    return lambda: step(*tensors), run


def draw_step(layers: int, width: int, batch: int) -> tuple[list[Any], Any, Any]:
    """Returns the parameters, the input and the target of the step."""
    random = np.random.default_rng(0)
    shapes = [shape for _ in range(layers) for shape in ((width, width), (width,))]
    values = [random.normal(0, 0.3 / width**0.5, shape).astype(np.float32) for shape in shapes]
    x, y = (random.normal(size=(batch, width)).astype(np.float32) for _ in range(2))
    return values, x, y


def _make_imperative(values: list[Any], x: Any, y: Any) -> tuple[Any, tuple[oplib.Tensor, oplib.Tensor]]:
    """The compiled function, and its arguments."""
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

    return step, (oplib.tensor(x), oplib.tensor(y))


def _make_pure(values: list[Any], x: Any, y: Any) -> tuple[Any, list[Arrays], tuple[jax.Array, jax.Array]]:
    """The compiled function, its first two arguments, which it donates, and the others."""

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
    return step, state, (jnp.array(x), jnp.array(y))


def _time_first_calls() -> Comparison:
    """Compiles the step for widths that nothing else has."""
    times: tuple[list[float], list[float]] = ([], [])
    for width in range(9, 9 + TRIES):
        for side, run in enumerate(make_steps(25, width, 16)):
            start = time.perf_counter()
            wait(run())
            times[side].append(time.perf_counter() - start)
    return Comparison(tuple(times[0]), tuple(times[1]))


def _time_call() -> float:
    """Seconds of a call that does next to nothing but read and write its operands, less the bare program."""
    best = []
    for call in make_writes(50):
        call()
        best.append(min(Case(call).time(100, time.perf_counter) for _ in range(20)))
    return best[0] - best[1]


def make_writes(number: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Returns the same write of so many Tensors: in ``oplib.jit``, and in ``jax.jit`` with donation."""
    tensors = [oplib.zeros(1) for _ in range(number)]

    @oplib.jit
    def touch() -> None:
        for tensor in tensors:
            tensor.add_(1)

    bare = jax.jit(lambda arrays: [array + 1 for array in arrays], donate_argnums=0)
    state = [[jnp.zeros(1) for _ in tensors]]

    def run_bare() -> Any:
        state[0] = bare(state[0])
        return state[0][0]

    return lambda: (touch(), tensors[0])[1], run_bare


def _time_guards() -> float:
    """Seconds of ``explain``, which does what each call does before its program runs."""
    tensors = [oplib.zeros(1) for _ in range(50)]
    add = oplib.jit(lambda: sum(tensors, oplib.zeros(1)))
    add()
    case = Case(add.explain)
    return min(case.time(100, time.perf_counter) for _ in range(20))


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
