"""The report of the demo: accuracy, a check of the gradients, and two files."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import oplib
import plain
from data import Digits
from model import Params, classify
from oplib import Tensor
from oplib.visual import graph_text
from ops import cross_entropy


def compute_loss(params: Params, digits: Digits) -> Tensor:
    """Returns the loss of a batch, as training computes it."""
    images = oplib.tensor(digits.images)
    return cross_entropy(classify(params, images), oplib.tensor(digits.labels))


def measure_accuracy(params: Params, digits: Digits) -> float:
    """Returns the share of digits that are classified correctly."""
    with oplib.no_grad():
        logits = classify(params, oplib.tensor(digits.images))
    return float(np.mean(logits.numpy().argmax(axis=1) == digits.labels))


def compare_gradients(params: Params, digits: Digits) -> float:
    """Returns the largest difference between oplib's gradients and those of ``jax.grad``."""
    mine = oplib.autograd.grad(compute_loss(params, digits), list(params.values()))
    arrays = {name: param.detach().array for name, param in params.items()}
    expected = jax.jit(jax.grad(plain.compute_loss))(arrays, digits.images, digits.labels)
    differences = [
        np.abs(grad.numpy() - expected[name]).max() for name, grad in zip(params, mine, strict=True)
    ]
    return float(max(differences))


def write_graph(params: Params, digits: Digits, path: Path) -> None:
    """Writes the graph that one step records."""
    path.write_text(graph_text(compute_loss(params, digits), params=params) + "\n")


def draw_losses(losses: list[float], path: Path) -> None:
    """Draws the loss of every step, and the mean of the last twenty losses."""
    window = min(20, len(losses))
    smooth = np.convolve(losses, np.full(window, 1 / window), mode="valid")
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)  # writes to files, without a display
    axes = figure.add_subplot()
    axes.semilogy(losses, color="tab:blue", alpha=0.3, label="step")
    axes.semilogy(np.arange(window - 1, len(losses)), smooth, color="tab:blue", label=f"mean of {window}")
    axes.set(title="Digits: training", xlabel="step", ylabel="cross-entropy")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
