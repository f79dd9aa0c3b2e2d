"""Kernels for accelerators beside those of ``jax.nn``, where JAX has an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.nn import functional

from .rounds import Case, Effort, compare
from .table import Row

TITLE = "attention on an accelerator: the kernels of oplib beside jax.nn"
SHAPES = ((4, 16, 1024, 64), (2, 16, 4096, 64), (1, 16, 8192, 128))  # batch, heads, length, width
DTYPE = "bfloat16"
ABSENT = "no accelerator"
TOLERANCE = 0.05


def measure(effort: Effort) -> Iterator[Row]:
    """Yields two rows for each shape: the forward, and the forward with the backward."""
    is_here = jax.default_backend() != "cpu"
    for shape in SHAPES:
        for what, (subject, reference) in _pair().items():
            name = f"{what}, {shape[0]}x{shape[1]} heads of {shape[2]}x{shape[3]}"
            if not is_here:
                yield Row(name, "jax.nn.dot_product_attention", note=ABSENT)
                continue
            operands = [
                jnp.asarray(np.random.default_rng(seed).standard_normal(shape), DTYPE) for seed in range(3)
            ]
            measured = compare(Case(subject, *operands), Case(reference, *operands), effort)
            exact = _agree(subject(*operands), reference(*operands))
            yield Row(name, "jax.nn.dot_product_attention", None, measured, exact=exact)


def _pair() -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    def by_op(query: Any, key: Any, value: Any) -> Any:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def by_jax(query: Any, key: Any, value: Any) -> Any:
        turned = [jnp.swapaxes(each, 1, 2) for each in (query, key, value)]
        return jnp.swapaxes(jax.nn.dot_product_attention(*turned, is_causal=True), 1, 2)

    def derive(function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(jax.grad(lambda *x: (function(*x).astype("float32") ** 2).sum(), (0, 1, 2)))

    return {
        "forward": (jax.jit(by_op), jax.jit(by_jax)),
        "forward and backward": (derive(by_op), derive(by_jax)),
    }


def _agree(found: Any, expected: Any) -> bool:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    arrays = [[np.asarray(each, np.float32) for each in pair] for pair in pairs]
    return all(np.abs(mine - its).max() <= TOLERANCE * np.abs(its).max() for mine, its in arrays)
