"""Checkpoints of the GPT: what does not fit the run is refused, and a half-written one is not there."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

import oplib
from oplib import Tensor
from tests.ecosystem.packages import require

require("orbax.checkpoint")

checkpoints = importlib.import_module("examples.lm.checkpoints")


def make_tensors(**others: Any) -> dict[str, Tensor]:
    """Returns the Tensors of a run, with others or without some."""
    tensors = {"w": oplib.arange(8.0), "v": oplib.ones(3), "[0].count": oplib.zeros((), dtype=oplib.int32)}
    return {name: tensor for name, tensor in {**tensors, **others}.items() if tensor is not None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    kept = checkpoints.Checkpoints(folder)
    kept.save(1, make_tensors(), [2.5])
    kept.close()
    shutil.copytree(folder / "1", folder / "2.orbax-checkpoint-tmp-1")  # the process has ended while it wrote
    return folder


def load(folder: Path, tensors: dict[str, Tensor]) -> list[float]:
    kept = checkpoints.Checkpoints(folder)
    try:
        return kept.load(tensors)
    finally:
        kept.close()


def test_the_last_complete_checkpoint_is_read(folder: Path) -> None:
    tensors = make_tensors(w=oplib.zeros(8, requires_grad=True))
    assert load(folder, tensors) == [2.5]
    assert tensors["w"].tolist() == list(range(8))
    assert tensors["w"].is_leaf


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"v": oplib.ones(3, dtype=oplib.bfloat16)}, r"1: v is float32\[3\], the run has bfloat16\[3\]"),
        ({"w": oplib.zeros(4)}, r"1: w is float32\[8\], the run has float32\[4\]"),
        ({"v": None}, r"\bv\b"),
        ({"u": oplib.ones(3)}, r"\bu\b"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(folder: Path, others: Any, told: str) -> None:
    tensors = make_tensors(**{"w": oplib.zeros(8), **others})
    with pytest.raises(ValueError, match=told):
        load(folder, tensors)
    assert not tensors["w"].any()
