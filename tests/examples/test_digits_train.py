"""The digits demo as a whole: it learns, its gradients are correct, and it writes its files."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import oplib

for package in ("matplotlib", "sklearn", "tqdm"):
    pytest.importorskip(package, reason="comes with the extra 'demo'")

demo = importlib.import_module("train")


@pytest.fixture(scope="module")
def digits():
    return demo.load_split(0)


def make_network():
    return demo.make_params(64, 10, oplib.Generator().manual_seed(0))


@pytest.mark.slow
def test_a_few_epochs_reduce_the_loss(digits):
    losses = demo.train(make_network(), digits[0], 2, np.random.default_rng(0))
    assert len(losses) == 2 * (len(digits[0].labels) // demo.BATCH)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_compiled_steps_are_those_of_the_uncompiled_run(digits):
    params = make_network()
    before = {name: param.tolist() for name, param in params.items()}
    assert 0 <= demo.compare_steps(params, digits[0], 5, 0) < 1e-5
    assert {name: param.tolist() for name, param in params.items()} == before


@pytest.mark.slow
def test_training_is_repeatable(digits):
    first, again = (demo.train(make_network(), digits[0], 1, np.random.default_rng(0)) for _ in range(2))
    assert first == again


@pytest.mark.slow
def test_training_leaves_no_gradient_behind(digits):
    params = make_network()
    demo.train(params, digits[0], 1, np.random.default_rng(0))
    assert all(param.grad is None and param.is_leaf and param.requires_grad for param in params.values())


@pytest.mark.slow
def test_the_gradients_of_the_network_are_those_of_jax(digits):
    batch = next(demo.draw_batches(digits[0], 64, np.random.default_rng(0)))
    assert 0 <= demo.compare_gradients(make_network(), batch) < 1e-5


def test_the_split_keeps_a_fifth_back_and_shows_every_digit(digits):
    training, test = digits
    assert len(test.labels) == 360
    assert len(training.labels) + len(test.labels) == 1797
    assert set(test.labels) == set(range(10))
    assert training.images.dtype == np.float32
    assert training.images.max() == 1.0


def test_a_batch_holds_no_image_twice(digits):
    batches = list(demo.draw_batches(digits[0], 64, np.random.default_rng(0)))
    assert {len(batch.labels) for batch in batches} == {64}
    images = np.concatenate([batch.images for batch in batches])
    assert len(np.unique(images, axis=0)) == len(images)


def test_images_are_moved_sideways_only():
    offsets = demo.draw_offsets(200, np.random.default_rng(0))
    assert set(offsets[:, 0]) == {0}
    assert set(offsets[:, 1]) == {-1, 0, 1}


def test_the_rate_rises_and_then_falls_to_almost_nothing():
    rates = [demo.schedule_rate(step, 500) for step in range(500)]
    assert rates.index(max(rates)) == pytest.approx(demo.WARM_UP, abs=1)
    assert max(rates) == demo.PEAK_RATE
    assert rates[-1] < 1e-4


@pytest.mark.slow
def test_the_script_reaches_its_accuracy_and_prints_the_paths_of_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.py", "--out", str(tmp_path / "new")])
    demo.main()
    printed = capsys.readouterr().out
    assert float(printed.partition("trained on: ")[2].split()[0]) >= 0.95
    assert float(printed.partition("jax.grad: ")[2].split()[0]) < 1e-5
    assert float(printed.partition("uncompiled ones: ")[2].split()[0]) < 1e-5
    assert str(tmp_path / "new" / "loss.png") in printed
    assert (tmp_path / "new" / "loss.png").read_bytes().startswith(b"\x89PNG")
    graph = (tmp_path / "new" / "graph.txt").read_text()
    for name in ("cross_entropy", "linear", "rms_norm", "branches", "stem.weight", "head.norm"):
        assert name in graph
    assert "no gradient reaches" not in graph


def test_an_untrained_network_guesses(digits):
    assert demo.measure_accuracy(make_network(), digits[1]) < 0.5
