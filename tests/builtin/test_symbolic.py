"""Built-in ops on a symbolic leading dimension: exported once, for batches of any length."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib import Tensor

CASES: dict[str, Callable[[Tensor], Any]] = {
    "all but the first": lambda t: t[1:],
    "all but the last": lambda t: t[:-1],
    "the last two": lambda t: t[-2:],
    "one row": lambda t: t[0],
    "rows at places": lambda t: t[oplib.tensor([1, 0])],
    "expand": lambda t: t.unsqueeze(1).expand(-1, 2, -1),
    "zeros_like": lambda t: oplib.zeros_like(t) + t,
    "new_full": lambda t: t.new_full(t.shape, 1.5) * t,
    "ones": lambda t: oplib.ones(*t.shape) - t,
    "arange": lambda t: t * oplib.arange(t.shape[0]).unsqueeze(1),
    "times its length": lambda t: t.shape[0] * t / t.numel(),
    "masked_fill": lambda t: t.masked_fill(t > 0, -1.0),
    "take": lambda t: t.take(oplib.tensor([0, 5])),
    "write rows": lambda t: write(t.clone(), slice(1, None)),
    "write a column": lambda t: write(t.clone(), (slice(None), 2)),
    "batch_norm": lambda t: F.batch_norm(t, None, None, training=True),
    "block_diag": lambda t: oplib.block_diag(t, t[:1], t.mT),
    "diagflat": lambda t: oplib.diagflat(t, 1),
    "pinv": lambda t: 0.1 * oplib.linalg.pinv(t, rtol=1e-3),
    "cross_entropy": lambda t: F.cross_entropy(t, t.argmax(1)),
}
VALUES = jnp.asarray(np.random.default_rng(3).normal(size=(5, 4)), jnp.float32)


def write(t: Tensor, index: Any) -> Tensor:
    t[index] = 7.0
    return t


def run_all(array: jax.Array) -> dict[str, Any]:
    """Returns each case with the gradient of the sum of its squares."""
    found: dict[str, Any] = {}
    for name, case in CASES.items():
        t = Tensor.from_array(array, requires_grad=True)
        result = case(t)
        result.square().sum().backward()
        found[name] = result.detach().array, t.grad.array
    return found


@cache
def export_and_call() -> dict[str, Any]:
    (batch,) = jax.export.symbolic_shape("batch", constraints=["batch >= 2"])
    shape = jax.ShapeDtypeStruct((batch, 4), jnp.float32)
    return jax.export.export(jax.jit(run_all))(shape).call(VALUES)


@cache
def run_at_known_size() -> dict[str, Any]:
    return jax.jit(run_all)(VALUES)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", CASES)
def test_an_op_and_its_gradient_are_exported_for_any_batch(name: str) -> None:
    for got, due in zip(export_and_call()[name], run_at_known_size()[name], strict=True):
        np.testing.assert_allclose(got, due, rtol=1e-5, atol=1e-6)
