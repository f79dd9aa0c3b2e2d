"""The GPT of the example: the losses of every layout are those of plain JAX on one device."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from tests.documents import ROOT

for package in ("matplotlib", "optax", "tqdm"):
    pytest.importorskip(package, reason="comes with the extra 'lm'")

gpt, kernels, layouts, plain, text, training = map(
    importlib.import_module, ("gpt", "kernels", "layouts", "plain_gpt", "text", "train_gpt")
)
STEPS = 4
LAYOUTS = {
    "one device": {},
    "data and tensor parallel, sharded": {"mesh": "data=4,model=2", "fsdp": True},
    "pipeline": {"mesh": "data=2,model=2", "pipeline": True},
    "data parallel": {"mesh": "data=8"},
    "tensor parallel": {"mesh": "model=4"},
    "sharded pipeline": {"mesh": "data=2,model=4", "pipeline": True, "fsdp": True},
}
QUICK = ("one device", "data and tensor parallel, sharded", "pipeline")


def parse(mesh: str = "", fsdp: bool = False, pipeline: bool = False, steps: int = STEPS) -> Any:
    words = ["--batch=16", f"--steps={steps}", *([f"--mesh={mesh}"] if mesh else [])]
    words += [f"--{name}" for name, chosen in {"fsdp": fsdp, "pipeline": pipeline}.items() if chosen]
    return training.parse_options(words)


@pytest.fixture(scope="module")
def words() -> Any:
    return text.load_text()


@pytest.fixture(scope="module")
def size(words: Any) -> Any:
    return gpt.Size(-(-len(words.letters) // 128) * 128, length=16, width=16, heads=4, layers=4)


@pytest.fixture(scope="module")
def expected(words: Any, size: Any) -> list[float]:
    """The losses of plain JAX on one device."""
    params = {name: jnp.asarray(value) for name, value in gpt.draw_params(size).items()}
    shape, alone = (16, size.length + 1), layouts.make_layout({}).rows
    batches = [text.draw_batch(words, number, shape, alone) for number in range(STEPS)]
    return plain.train(params, training.make_optimizer(STEPS), batches)


@pytest.mark.devices(8)
@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in LAYOUTS]
)
def test_the_losses_of_a_layout_are_those_of_plain_jax(kind, words, size, expected, forget_ops) -> None:
    run = training.Run(parse(**LAYOUTS[kind]), words, size)
    run.train()
    np.testing.assert_allclose(run.losses, expected, rtol=3e-6)
    assert expected[-1] < expected[0] - 0.02


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "lm" / "train_gpt.py")
    for number in (1, 2):
        command = [sys.executable, script, "--mesh=data=2,model=2", "--steps=3", "--sample=3", "--batch=8"]
        subprocess.run([*command, f"--processes={number}", f"--out={tmp_path / str(number)}"], check=True)
    losses = [np.loadtxt(tmp_path / number / "losses.txt") for number in "12"]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert (tmp_path / "2" / "loss.png").stat().st_size > 1000


@pytest.mark.devices(8)
@pytest.mark.parametrize(
    ("kind", "name", "spec"),
    [
        ({"mesh": "data=4,model=2"}, "blocks.up", (None, None, "model")),
        ({"mesh": "data=4,model=2", "fsdp": True}, "blocks.up", (None, "data", "model")),
        ({"mesh": "data=2,model=4", "pipeline": True}, "blocks.up", ("model", None, None)),
        ({"mesh": "data=4,model=2", "fsdp": True}, "norm", ("data",)),
    ],
)
def test_parameters_lie_where_their_layout_says(kind, name, spec, size) -> None:
    options = parse(**kind)
    layout = layouts.make_layout(options.mesh, fsdp=options.fsdp, pipeline=options.pipeline)
    param = layout.place(gpt.draw_params(size))[name]
    assert tuple(param.sharding.spec) == spec
    np.testing.assert_array_equal(param.detach().numpy(), gpt.draw_params(size)[name])


@pytest.mark.parametrize("op", ["rms_norm", "attention", "cross_entropy"])
def test_the_formulas_are_the_derivatives(op, x64) -> None:
    draw = np.random.default_rng(0).standard_normal
    samples = {
        "rms_norm": [(draw((2, 3, 4)), draw(4))],
        "attention": [tuple(draw((2, 1, 3, 4)) for _ in range(3))],
        "cross_entropy": [(draw((2, 3, 5)), np.array([[0, 1, 4], [2, 2, 3]]))],
    }[op]
    arguments = [tuple(oplib.tensor(part) for part in sample) for sample in samples]
    for sample in arguments:
        for part in sample:
            part.requires_grad_(part.is_floating_point())
        oplib.library.opcheck(getattr(kernels, op), sample)


def test_windows_are_read_where_they_lie(words) -> None:
    layout = layouts.make_layout({"data": 4})
    windows = np.asarray(text.draw_batch(words, 7, (8, 5), layout.rows))
    whole = words.decode(words.codes)
    assert all(words.decode(window) in whole for window in windows)
    np.testing.assert_array_equal(words.encode(words.decode(windows[0])), windows[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mesh=data=two"], "--mesh"),
        (["--mesh=rows=2"], "names the axes; got rows=2"),
        (["--mesh=data=3", "--processes=2"], "must divide the 3 devices"),
        (["--mesh=data=3"], "--batch 32: must be a multiple of data=3"),
    ],
)
def test_an_option_that_cannot_be_is_refused(arguments, message, capsys) -> None:
    with pytest.raises(SystemExit):
        training.parse_options(arguments)
    assert message in capsys.readouterr().err
