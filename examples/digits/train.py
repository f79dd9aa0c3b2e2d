"""Trains a classifier of handwritten digits whose layers are ops registered through oplib.

    python examples/digits/train.py --out out/digits --epochs 30 --seed 0

The step is the same as in PyTorch, and ``oplib.jit`` compiles it as it is. The new part is in ``ops/``: each
layer is an op with its own schema, kernel and derivative, and the optimiser is an op that writes its
arguments in place.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

import oplib
from data import CLASSES, SIDE, Digits, draw_batches, draw_offsets, load_split
from model import Params, classify, make_params
from oplib import Tensor
from ops import cross_entropy, sgd_, shift_images
from report import compare_gradients, draw_losses, measure_accuracy, write_graph

BATCH = 64
WARM_UP = 20
PEAK_RATE = 0.1
COMPARED = 5


def schedule_rate(step: int, steps: int) -> float:
    """Returns the learning rate, which rises over the first steps and then falls along a cosine."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1)))


Step = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def make_step(params: Params) -> Step:
    """Returns the step of training, which writes ``params`` and returns the loss."""
    leaves = list(params.values())
    velocities = [oplib.zeros_like(param) for param in leaves]

    def step(images: Tensor, offsets: Tensor, labels: Tensor, rate: float) -> Tensor:
        loss = cross_entropy(classify(params, shift_images(images, offsets)), labels)
        loss.backward()
        with oplib.no_grad():
            sgd_(leaves, velocities, [param.grad for param in leaves], lr=rate)
        for param in leaves:
            param.grad = None
        return loss.detach()

    return step


def draw_inputs(digits: Digits, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields images, offsets and labels of each step of one epoch."""
    for images, labels in draw_batches(digits, BATCH, rng):
        yield oplib.tensor(images), oplib.tensor(draw_offsets(BATCH, rng)), oplib.tensor(labels)


def compare_steps(params: Params, digits: Digits, count: int, seed: int) -> float:
    """Returns the largest difference between the losses of compiled and uncompiled steps of copies."""
    losses: list[list[float]] = []
    for compile_step in (oplib.jit, lambda step: step):
        copies = {name: param.detach().clone().requires_grad_() for name, param in params.items()}
        step: Step = compile_step(make_step(copies))
        inputs = islice(draw_inputs(digits, np.random.default_rng(seed)), count)
        losses.append([step(*given, PEAK_RATE).item() for given in inputs])
    return float(np.abs(np.subtract(*losses)).max())


def train(params: Params, digits: Digits, epochs: int, rng: np.random.Generator) -> list[float]:
    """Trains ``params`` in place, and returns the loss of every step."""
    step: Step = oplib.jit(make_step(params))
    steps = epochs * (len(digits.labels) // BATCH)
    losses: list[float] = []
    with tqdm(total=steps, unit="step", desc="training") as bar:
        for _ in range(epochs):
            for given in draw_inputs(digits, rng):
                losses.append(step(*given, schedule_rate(len(losses), steps)).item())
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

    difference = compare_steps(params, training, COMPARED, options.seed)
    losses = train(params, training, options.epochs, np.random.default_rng(options.seed))

    batch = Digits(*(part[:BATCH] for part in training))
    curve, graph = options.out / "loss.png", options.out / "graph.txt"
    draw_losses(losses, curve)
    write_graph(params, batch, graph)
    print(f"accuracy on {len(test.labels)} images not trained on: {measure_accuracy(params, test):.4f}")
    print(f"largest difference from jax.grad: {compare_gradients(params, batch):.1e}")
    print(f"largest difference of {COMPARED} compiled steps from uncompiled ones: {difference:.1e}")
    print(f"loss curve: {curve}\nautograd graph of one step: {graph}")


if __name__ == "__main__":
    main()
