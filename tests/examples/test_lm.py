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
from tests.library.batching_and_sharding.shards import count_collectives

for package in ("matplotlib", "optax", "tqdm"):
    pytest.importorskip(package, reason="comes with the extra 'lm'")

gpt, kernels, plain, training = map(importlib.import_module, ("gpt", "kernels", "plain_gpt", "train_gpt"))
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


SIZE = gpt.Size(length=16, width=16)


@pytest.fixture(scope="module")
def expected() -> list[float]:
    """The losses of plain JAX on one device."""
    params = {name: jnp.asarray(value) for name, value in gpt.draw_params(SIZE).items()}
    text, batches = training.load_text(), []
    for number in range(STEPS):
        starts = np.random.default_rng(number).integers(0, len(text) - SIZE.length, 16)
        batches.append(jnp.asarray([text[start : start + SIZE.length + 1] for start in starts]))
    return plain.train(params, training.make_optimizer(STEPS), batches)


@pytest.mark.devices(8)
@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in LAYOUTS]
)
def test_the_losses_of_a_layout_are_those_of_plain_jax(kind, expected, forget_ops) -> None:
    run = training.Run(parse(**LAYOUTS[kind]), SIZE)
    run.train()
    np.testing.assert_allclose(run.losses, expected, rtol=3e-6)
    assert expected[-1] < expected[0] - 0.02


@pytest.mark.devices(8)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({"mesh": "data=8"}, marks=pytest.mark.slow),
        {"mesh": "data=4,model=2"},
        pytest.param({"mesh": "data=8", "fsdp": True}, marks=pytest.mark.slow),
        pytest.param({"mesh": "data=4,model=2", "fsdp": True}, marks=pytest.mark.slow),
    ],
)
def test_a_step_has_no_more_collectives_than_the_same_step_in_jax(kind) -> None:
    run = training.Run(parse(**kind, steps=40), SIZE)
    optimizer, batches = training.make_optimizer(40), [run.draw_batch(number).array for number in range(40)]
    params = {name: param.array for name, param in run.params.items()}
    control = plain.make_step(optimizer), params, optimizer.init(params), batches[0]
    found, allowed = count_collectives(run.step, batches[0]), count_collectives(*control)
    assert found["all-reduce"] <= allowed["all-reduce"]
    assert found.total() <= allowed.total(), (found, allowed)
    right = plain.train(params, optimizer, batches)
    run.train()
    np.testing.assert_allclose(run.losses, right, rtol=1e-6)
    assert right[-1] < right[0] - 1


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
        ({"mesh": "data=2,model=4", "pipeline": True, "fsdp": True}, "blocks.up", ("model", "data", None)),
        ({"mesh": "data=2,model=4", "pipeline": True}, "letters", (None, None)),
        ({"mesh": "data=4,model=2", "fsdp": True}, "norm", ("data",)),
    ],
)
def test_parameters_lie_where_their_layout_says(kind, name, spec, forget_ops) -> None:
    param = training.Run(parse(**kind), SIZE).params[name]
    assert tuple(param.sharding.spec) == spec
    np.testing.assert_array_equal(param.detach().numpy(), gpt.draw_params(SIZE)[name])


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


@pytest.mark.devices(8)
def test_a_device_has_its_windows_and_they_are_of_the_text() -> None:
    run = training.Run(parse(mesh="data=8"), SIZE)
    batch = run.draw_batch(7)
    assert {part.data.shape for part in batch.array.addressable_shards} == {(2, SIZE.length + 1)}
    text = bytes(run.text.tolist()).decode("ascii")
    assert all(bytes(window).decode("ascii") in text for window in batch.numpy().tolist())
    assert run.write(3)[: SIZE.length] == text[: SIZE.length]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mesh=data=two"], "--mesh"),
        (["--mesh=rows=2"], "invalid parse_mesh value: 'rows=2'"),
        (["--mesh=data=3", "--processes=2", "--batch=30"], "must divide the 3 devices"),
        (["--mesh=data=3"], "--batch 32: must be a multiple of 3"),
    ],
)
def test_an_option_that_cannot_be_is_refused(arguments, message, capsys) -> None:
    with pytest.raises(SystemExit):
        training.parse_options(arguments)
    assert message in capsys.readouterr().err
