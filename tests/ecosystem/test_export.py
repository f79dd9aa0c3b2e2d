"""Programs with ops, exported to disk, in a process that has no oplib."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from tests.ecosystem.packages import require
from tests.ecosystem.pairs import Pair

require("flatbuffers")

LOADER = """
import sys
sys.modules["oplib"] = None  # an import raises
from pathlib import Path
import jax, numpy as np
from jax import export

folder = Path(sys.argv[1])
x, w = np.load(folder / "x.npy"), np.load(folder / "w.npy")
program = export.deserialize(bytearray((folder / "program").read_bytes()))
pulled = program.vjp().call(x, w, np.ones(len(x), "f"), x, w)
np.savez(folder / "found.npz", *program.call(x, w), *pulled)
"""


@pytest.mark.slow
def test_another_process_without_oplib_runs_and_differentiates_the_program(
    bend: Pair, scale: Pair, tmp_path: Path
) -> None:
    def run(bend: Any, scale: Any, x: Any, w: Any) -> Any:
        def rows(x: Any, w: Any) -> Any:
            return bend(scale(x, w)).sum(-1)

        return rows(x, w), *jax.grad(lambda *args: rows(*args).sum(), (0, 1))(x, w)

    x, w = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), jnp.array([0.5, 1.0, 2.0])
    (length,) = jax.export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((length, 3), "float32"), jax.ShapeDtypeStruct((3,), "float32")
    program = jax.jit(lambda *args: run(bend.op, scale.op, *args))
    exported = jax.export.export(program, platforms=("cpu", "cuda", "tpu"))(*shapes)
    (tmp_path / "program").write_bytes(exported.serialize(vjp_order=1))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    command = [sys.executable, "-I", "-c", LOADER, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert not done.returncode, done.stderr

    values, pull = jax.vjp(lambda *args: run(bend.in_jax, scale.in_jax, *args), x, w)
    expected = [*values, *pull((jnp.ones(len(x)), x, w))]
    with np.load(tmp_path / "found.npz") as found:
        for name, value in zip(found.files, expected, strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_program_over_tensors_is_exported_as_one_over_arrays(bend: Pair) -> None:
    def step(w: Any) -> Any:
        tensor = oplib.Tensor.from_array(w, requires_grad=True)
        (grad,) = oplib.autograd.grad(bend.op(tensor).sum(), tensor)
        return grad.array

    w = jnp.linspace(-1.0, 1.0, 4)
    found = jax.export.export(jax.jit(step))(w).call(w)
    np.testing.assert_allclose(found, jax.grad(lambda w: bend.in_jax(w).sum())(w), rtol=1e-6)
