"""Prints a digest of eight programs. Run with an argument, the process has computed much before.

``test_same_programs.py`` runs it in two processes and compares what they print.
"""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import optax

import oplib
import oplib.nn.functional as F


def evaluate_before() -> None:
    """Fills the caches of the process: constants, gradients, numbers, views and programs."""
    w = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for _ in range(3):
        (w * 2).sum().backward()
        (w.sin() * 3 + 1).mean().backward()
        (w / 2).max().backward()
        w[1:].sum().backward()
    for shape in ((), (2,), (3,), (4,), (8,), (4, 4), (8, 4), (4, 8)):
        for make in (oplib.zeros, oplib.ones, oplib.empty):
            made = make(shape)
            made = made + 1 - 0.5 + made * 2.0 + made**2
            _ = oplib.zeros_like(made), oplib.ones_like(made), oplib.full(shape, 2.0)
    matrix = oplib.ones(4, 4)
    for place in range(4):
        matrix[place] = 0.0
        matrix[:, place] = 1.0
        matrix[place, 1:3].mul_(2)
        _ = matrix[place], matrix[place : place + 1], matrix[1:, place], matrix.t()
    table = oplib.ones(8, 4, requires_grad=True)
    F.cross_entropy(table[oplib.tensor([1, 2])], oplib.tensor([0, 3])).backward()
    F.layer_norm(table, (4,)).sum().backward()
    F.softmax(table, -1).sum().backward()
    oplib.jit(lambda x: (x * 2).sum())(matrix)
    oplib.scan(lambda c, x: (c + x, c), oplib.zeros(4), matrix)


def make_programs() -> dict[str, object]:
    """The eight programs, lowered."""
    rng = np.random.default_rng(0)

    def draw(*shape: int, grad: bool = True) -> oplib.Tensor:
        return oplib.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=grad)

    at = {name: draw(4, 4) for name in ("up", "down", "table", "bias", "gate", "last")}
    optimizer = oplib.optim.Optimizer(optax.adamw(1e-3), at)
    x, target = draw(8, 4, grad=False), oplib.tensor(np.arange(8) % 4)

    def find_loss(x: oplib.Tensor) -> oplib.Tensor:
        hidden = F.relu(x @ at["up"] + at["bias"][0]) * 0.5 + oplib.ones(4)
        return F.cross_entropy(hidden @ at["down"] @ at["table"] * at["gate"].sum() + at["last"][0], target)

    def train(x: oplib.Tensor) -> oplib.Tensor:
        optimizer.zero_grad()
        loss = find_loss(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def penalize(x: oplib.Tensor) -> oplib.Tensor:
        loss = find_loss(x)
        grads = oplib.autograd.grad(loss, list(at.values()), create_graph=True)
        total = loss + sum((one * one).sum() for one in grads)
        total.backward()
        return total.detach()

    def write(x: oplib.Tensor) -> oplib.Tensor:
        made = oplib.zeros(8, 4)
        made[1] = x[0] * 2
        made[2:4, 1:] = 1.0
        made[:, 0].mul_(3)
        rows = made.clone()
        rows[3].add_(x[1])
        return rows.sum() + made.mean()

    def loop(x: oplib.Tensor) -> oplib.Tensor:
        h, _ = oplib.scan(lambda h, row: ((h * at["gate"][0] + row).sin(), None), oplib.zeros(4), x)
        h.sum().backward()
        return h.detach()

    def norm(x: oplib.Tensor) -> oplib.Tensor:
        weight = oplib.ones(4, requires_grad=True)
        y = F.layer_norm(x @ at["up"], (4,), weight) + F.softmax(x, -1)
        y.mean().backward()
        return weight.grad

    def draw_numbers(x: oplib.Tensor) -> oplib.Tensor:
        return F.dropout(x, 0.5) + oplib.randn(8, 4) * oplib.full((4,), 2.0)

    def make_leaf(x: oplib.Tensor) -> oplib.Tensor:
        leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
        (leaf * 2).sum().backward()
        return leaf.grad.sum() * x

    functions = (find_loss, train, penalize, write, loop, norm, draw_numbers, make_leaf)
    return {one.__name__: oplib.jit(one).lower(x) for one in functions}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        evaluate_before()
    oplib.manual_seed(0)
    for name, lowered in make_programs().items():
        text = lowered.as_text()
        sys.stdout.write(f"{name} {hashlib.sha256(text.encode()).hexdigest()}\n")
