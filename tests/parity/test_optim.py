"""Optimizers of optax on oplib, beside those of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import oplib

torch = pytest.importorskip("torch")

PAIRS: dict[str, Any] = {
    "sgd": (optax.sgd(0.05, momentum=0.9), lambda params: torch.optim.SGD(params, 0.05, momentum=0.9)),
    "adam": (optax.adam(0.05), lambda params: torch.optim.Adam(params, 0.05)),
    "adamw": (
        optax.adamw(0.05, weight_decay=0.1),
        lambda params: torch.optim.AdamW(params, 0.05, weight_decay=0.1),
    ),
}


def train(lib: Any, make: Any) -> list[Any]:
    """Fits a small network for 20 steps; returns losses and parameters."""
    numbers = np.random.default_rng(0)
    params = [lib.tensor(numbers.normal(size=shape), requires_grad=True) for shape in ((4, 3), (3,), (3, 1))]
    x, y = lib.tensor(numbers.normal(size=(8, 4))), lib.tensor(numbers.normal(size=(8, 1)))
    optimizer, losses = make(params), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (((x @ params[0] + params[1]).tanh() @ params[2] - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, *(param.detach().numpy() for param in params)]


@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("name", PAIRS)
def test_twenty_steps_are_those_of_torch(name: str) -> None:
    transformation, make = PAIRS[name]
    found = train(oplib, lambda params: oplib.optim.Optimizer(transformation, params))
    for one, other in zip(found, train(torch, make), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)
