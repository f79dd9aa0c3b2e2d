"""A step over layers in ``oplib.scan`` with checkpoints, over the same in JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib
from oplib.utils.checkpoint import checkpoint

from .rounds import Case, Comparison, Effort, compare
from .table import Row

LAYERS, ROWS, WIDTH = 12, 256, 64
BLOCKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tanh": (lambda x: x.tanh(), jnp.tanh),
    "sin": (lambda x: x.sin(), jnp.sin),
    "gelu": (oplib.nn.functional.gelu, lambda x: jax.nn.gelu(x, approximate=False)),
}


def measure(effort: Effort) -> Iterator[Row]:
    """Yields for each activation the time and the temporary memory of a step."""
    random = np.random.default_rng(0)
    shapes = (LAYERS, WIDTH, 4 * WIDTH), (LAYERS, 4 * WIDTH, WIDTH)
    weights = [random.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
    x = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
    for name, (act, act_by_hand) in BLOCKS.items():
        step, leaves = _make_step(act, weights)
        by_hand, arrays = _make_step_by_hand(act_by_hand), [*map(jnp.array, weights)]
        tensor, array = oplib.tensor(x), jnp.array(x)

        def run(step: Any = step, leaves: Any = leaves, tensor: Any = tensor) -> Any:
            step(tensor)
            return [leaf.grad for leaf in leaves]

        what = f"scan over {LAYERS} layers with checkpoint, {name}"
        times = compare(Case(run), Case(lambda *args: list(by_hand(*args)), arrays, array), effort)  # noqa: B023
        yield Row(what, "jax.checkpoint in jax.lax.scan", 1.05, times)
        memory = [
            (float(lowered.compile().memory_analysis().temp_size_in_bytes),)
            for lowered in (step.lower(tensor), by_hand.lower(arrays, array))
        ]
        yield Row(f"{what}: temporary memory", "jax.checkpoint in jax.lax.scan", 1.1, Comparison(*memory))


def _make_step(act: Callable[..., Any], weights: list[Any]) -> tuple[Any, list[oplib.Tensor]]:
    leaves = [oplib.tensor(weight, requires_grad=True) for weight in weights]

    def block(h: Any, up: Any, down: Any) -> Any:
        return h + act(h @ up) @ down

    @oplib.jit
    def step(x: oplib.Tensor) -> None:
        for leaf in leaves:
            leaf.grad = None
        body = lambda h, layer: (checkpoint(block, h, *layer, use_reentrant=False), None)  # noqa: E731
        (oplib.scan(body, x, tuple(leaves))[0] ** 2).mean().backward()

    return step, leaves


def _make_step_by_hand(act: Callable[..., Any]) -> Any:
    @jax.checkpoint
    def block(h: Any, up: Any, down: Any) -> Any:
        return h + act(h @ up) @ down

    def loss(weights: list[Any], x: Any) -> Any:
        return jnp.mean(jax.lax.scan(lambda h, layer: (block(h, *layer), None), x, tuple(weights))[0] ** 2)

    return jax.jit(jax.grad(loss))
