"""Exports whose arguments and results are Tensors, as bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import pytest

import oplib
from oplib import Tensor, tensor

pytest.importorskip("flatbuffers")
READ = """
import sys, jax, oplib
stored = jax.export.deserialize(open(sys.argv[1], "rb").read())
result = stored.call({"w": oplib.tensor([1.0, 2.0], requires_grad=True)}, oplib.tensor([3.0, 4.0]))
print(type(result["y"]) is oplib.Tensor, result["y"].tolist())
"""


def step(parameters: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
    return {"y": (parameters["w"] * x).detach()}


def store() -> bytearray:
    arguments = {"w": tensor([1.0, 2.0], requires_grad=True)}, tensor([3.0, 4.0])
    return jax.export.export(jax.jit(step))(*arguments).serialize()


def test_tensors_among_arguments_and_results_are_stored_with_their_structure() -> None:
    stored = jax.export.deserialize(store())
    result = stored.call({"w": tensor([2.0, 2.0], requires_grad=True)}, tensor([3.0, 4.0]))["y"]
    assert type(result) is Tensor
    assert result.tolist() == [6.0, 8.0]


def test_whether_an_argument_requires_grad_is_part_of_what_is_stored() -> None:
    stored = jax.export.deserialize(store())
    with pytest.raises(ValueError, match="same pytree structure"):
        stored.call({"w": tensor([2.0, 2.0])}, tensor([3.0, 4.0]))


@pytest.mark.slow
def test_another_process_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "stored"
    file.write_bytes(store())
    root = Path(oplib.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-c", READ, str(file)], cwd=root, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "True [3.0, 8.0]"
