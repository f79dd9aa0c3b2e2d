"""What a type checker says of programs that use the package as it is installed, not as its own sources."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYRIGHT = Path(sys.executable).with_name("pyright")
SUBMODULES = ["oplib", "oplib.linalg", "oplib.fft", "oplib.special", "oplib.nn", "oplib.nn.functional"]
RIGHT = """
from typing import Any, assert_type

import oplib
import oplib.nn.functional as F
from oplib import Tensor

x = oplib.tensor([1.0], requires_grad=True)
m = oplib.ones(2, 2, dtype=oplib.float32)
assert_type(oplib.exp(x), Tensor)
assert_type(oplib.exp(x.numpy()), Any)
assert_type(oplib.softmax(x, 0), Tensor)
assert_type(oplib.softmax(x, axis=0), Tensor)
assert_type(oplib.where(x > 0, x, 0), Tensor)
assert_type(oplib.cat([x, x]), Tensor)
assert_type(oplib.max(m, 0).indices, Tensor)
assert_type(oplib.gather(m, 1, m.long()), Tensor)
assert_type(oplib.einsum("ij,jk->ik", m, m), Tensor)
assert_type(oplib.unique(x), Tensor)
assert_type(oplib.polygamma(1, x), Tensor)
assert_type(oplib.hann_window(4), Tensor)
assert_type(F.relu(x), Tensor)
assert_type(F.cross_entropy(m, x), Tensor)
assert_type(F.max_pool2d(m, 2), Tensor)
assert_type(oplib.linalg.svd(m)[0], Tensor)
assert_type(oplib.linalg.eigh(m).eigenvalues, Tensor)
assert_type(oplib.fft.rfft(x), Tensor)
assert_type(oplib.special.expit(x), Tensor)
assert_type(m.max(), Tensor)
assert_type(m.max(dim=0).values, Tensor)
assert_type(m.sort().values, Tensor)
assert_type(m.split(1), tuple[Tensor, ...])
assert_type(m.gather(dim=1, index=m.long()), Tensor)
assert_type(m[0] @ m.T + 1 - x.exp() * oplib.pi, Tensor)
"""
WRONG = [
    "oplib.softmx",
    "oplib.tensr",
    "oplib.fft.fftx",
    "oplib.special.erff",
    "oplib.linalg.cholesk",
    "oplib.nn.functionl",
    "oplib.nn.functional.reluu",
    "oplib.autograd.graph.nod",
    "oplib.tensor([1.0]).expp",
    "oplib.softmax(oplib.tensor([1.0]))",
]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """The lines of each program that pyright complains of, in its strictest mode, and what it says."""
    if not PYRIGHT.exists():
        pytest.skip("pyright is not installed beside this Python")
    folder = tmp_path_factory.mktemp("programs")
    names = [
        f"{submodule}.{name}"
        for submodule in SUBMODULES
        for name in importlib.import_module(submodule).__all__
    ]
    (folder / "right.py").write_text(RIGHT)
    (folder / "names.py").write_text(
        "\n".join(["import oplib", "import oplib.nn", *(f"print({name})" for name in names)])
    )
    (folder / "wrong.py").write_text("\n".join(["import oplib", *(f"print({line})" for line in WRONG)]))
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not run here: {done.stderr[-200:]}")
    found = {"right": [], "names": [], "wrong": []}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        found[Path(one["file"]).stem].append((one["range"]["start"]["line"], one["message"]))
    return found


@pytest.mark.slow
def test_a_right_program_has_no_type_errors_and_its_results_have_types(complaints):
    assert complaints["right"] == []


@pytest.mark.slow
def test_every_public_name_is_known_to_a_type_checker(complaints):
    assert complaints["names"] == []


@pytest.mark.slow
def test_a_missing_name_and_a_missing_dim_are_reported(complaints):
    told = {line for line, _ in complaints["wrong"]}
    assert [text for line, text in enumerate(WRONG, start=1) if line not in told] == []
