"""Trains a classifier of handwritten digits whose layers are ops registered through oplib.

    python examples/digits/train.py --out out/digits --epochs 30 --seed 0

The loop is the same as in PyTorch. The new part is in ``ops/``: each layer is an op with its own schema,
kernel and derivative, and the optimiser is an op that writes its arguments in place.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from tqdm import tqdm

import oplib
from data import CLASSES, SIDE, Digits, draw_batches, draw_offsets, load_split
from model import Params, classify, make_params
from ops import cross_entropy, sgd_, shift_images
from report import compare_gradients, draw_losses, measure_accuracy, write_graph

BATCH = 64
WARM_UP = 20
PEAK_RATE = 0.1


def schedule_rate(step: int, steps: int) -> float:
    """Returns the learning rate, which rises over the first steps and then falls along a cosine."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1)))


def train(params: Params, digits: Digits, epochs: int, rng: np.random.Generator) -> list[float]:
    """Trains ``params`` in place, and returns the loss of every step."""
    leaves = list(params.values())
    velocities = [oplib.zeros_like(param) for param in leaves]
    steps = epochs * (len(digits.labels) // BATCH)
    losses: list[float] = []
    with tqdm(total=steps, unit="step", desc="training") as bar:
        for _ in range(epochs):
            for images, labels in draw_batches(digits, BATCH, rng):
                offsets = oplib.tensor(draw_offsets(BATCH, rng))
                shifted = shift_images(oplib.tensor(images), offsets)
                loss = cross_entropy(classify(params, shifted), oplib.tensor(labels))
                loss.backward()
                with oplib.no_grad():
                    grads = [param.grad for param in leaves]
                    sgd_(leaves, velocities, grads, lr=schedule_rate(len(losses), steps))
                for param in leaves:
                    param.grad = None
                losses.append(loss.item())
                bar.update()
            bar.set_postfix(loss=f"{np.mean(losses[-20:]):.4f}")
    return losses


def parse_options() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/digits"), help="directory for the two files")
    parser.add_argument("--epochs", type=int, default=30, help="how often each image is seen")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the batches")
    return parser.parse_args()


def main() -> None:
    """Trains the network, and prints the report."""
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    training, test = load_split(options.seed)
    generator = oplib.Generator().manual_seed(options.seed)
    params = make_params(SIDE * SIDE, CLASSES, generator)

    losses = train(params, training, options.epochs, np.random.default_rng(options.seed))

    batch = Digits(*(part[:BATCH] for part in training))
    curve, graph = options.out / "loss.png", options.out / "graph.txt"
    draw_losses(losses, curve)
    write_graph(params, batch, graph)
    print(f"accuracy on {len(test.labels)} images not trained on: {measure_accuracy(params, test):.4f}")
    print(f"largest difference from jax.grad: {compare_gradients(params, batch):.1e}")
    print(f"loss curve: {curve}\nautograd graph of one step: {graph}")


if __name__ == "__main__":
    main()
