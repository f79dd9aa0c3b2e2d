"""Checkpoints of orbax with Tensors in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from tests.ecosystem.packages import require

checkpoints, optax = require("orbax.checkpoint"), require("optax")


def make_tree(fill: float) -> dict[str, Any]:
    params = {"w": oplib.full((2, 3), fill), "b": oplib.full((3,), 2 * fill, requires_grad=True)}
    plain = {name: tensor.detach() for name, tensor in params.items()}
    return {"params": params, "state": optax.adam(0.1).init(plain), "rate": jnp.array(fill)}


@pytest.mark.slow
def test_a_tree_with_tensors_returns_from_disk(tmp_path: Path) -> None:
    saved = make_tree(1.5)
    with checkpoints.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "tree", saved)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "tree", make_tree(0.0))
    assert jax.tree.structure(restored) == jax.tree.structure(saved)
    jax.tree.map(np.testing.assert_array_equal, restored, saved)
    assert isinstance(restored["params"]["w"], oplib.Tensor)
    assert restored["params"]["b"].requires_grad


@pytest.mark.slow
def test_an_optimizer_of_tensors_continues_from_disk(tmp_path: Path) -> None:
    def make() -> tuple[Any, Any]:
        w = oplib.tensor([1.0, -2.0], requires_grad=True)
        return w, oplib.optim.Optimizer(optax.adam(0.1), [w])

    def step(w: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()

    w, optimizer = make()
    step(w, optimizer)
    with checkpoints.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "run", {"w": w.detach(), "state": optimizer.state_dict()["state"]})
        checkpointer.wait_until_finished()
        again, other = make()
        target = {"w": again.detach(), "state": other.state_dict()["state"]}
        restored = checkpointer.restore(tmp_path / "run", target)
    with oplib.no_grad():
        again.copy_(restored["w"])
    other.load_state_dict({**other.state_dict(), "state": restored["state"]})
    step(w, optimizer)
    step(again, other)
    np.testing.assert_array_equal(again.detach().numpy(), w.detach().numpy())
