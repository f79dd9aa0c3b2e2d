"""Checkpoints of the GPT: what does not fit the run is refused, and a half-written one is not there."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tests.ecosystem.packages import require

require("orbax.checkpoint")

checkpoints = importlib.import_module("examples.lm.checkpoints")

ARRAYS = {"params": {"w": jnp.arange(8.0), "v": jnp.ones(3)}, "count": jnp.zeros((), jnp.int32)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    kept = checkpoints.Checkpoints(folder)
    kept.save(1, ARRAYS, [2.5])
    kept.close()
    shutil.copytree(folder / "1", folder / "2.orbax-checkpoint-tmp-1")  # the process has ended while it wrote
    return folder


def load(folder: Path, arrays: Any) -> Any:
    kept = checkpoints.Checkpoints(folder)
    try:
        return kept.load(arrays)
    finally:
        kept.close()


def test_the_last_complete_checkpoint_is_read(folder: Path) -> None:
    arrays, losses = load(folder, ARRAYS)
    assert losses == [2.5]
    assert arrays["params"]["w"].tolist() == ARRAYS["params"]["w"].tolist()


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (
            {"w": jnp.arange(8.0), "v": jnp.ones(3, jnp.bfloat16)},
            r"1: \['params'\]\['v'\] is float32\[3\], the run has bfloat16\[3\]",
        ),
        ({"w": jnp.arange(4.0), "v": jnp.ones(3)}, r"\['w'\] is float32\[8\], the run has float32\[4\]"),
        ({"w": jnp.arange(8.0)}, r"params\.v"),
        ({"w": jnp.arange(8.0), "v": jnp.ones(3), "u": jnp.ones(3)}, r"params\.u"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(folder: Path, part: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        load(folder, {**ARRAYS, "params": part})
