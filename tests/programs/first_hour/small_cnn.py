"""A small CNN moved from torch, with a schedule, checkpoint and resume, early stop and autocast."""

import io
from typing import Any

import numpy as np
import optax

import oplib
import oplib.nn.functional as F

CLASSES = 3


class Net:
    """Two convolutions and a linear layer; what was a Module in torch is a class with Tensors."""

    def __init__(self) -> None:
        oplib.manual_seed(0)
        self.params = {
            "conv1": (oplib.randn(8, 1, 3, 3) * 0.3).requires_grad_(),
            "conv2": (oplib.randn(16, 8, 3, 3) * 0.1).requires_grad_(),
            "head": (oplib.randn(CLASSES, 16) * 0.2).requires_grad_(),
            "bias": oplib.zeros(CLASSES, requires_grad=True),
        }

    def __call__(self, x: oplib.Tensor) -> oplib.Tensor:
        x = F.max_pool2d(F.conv2d(x, self.params["conv1"], padding=1).relu(), 2)
        x = F.conv2d(x, self.params["conv2"], padding=1).relu().mean((2, 3))
        return F.linear(x, self.params["head"], self.params["bias"])


class Run:
    """The network, its optimizer, and the step that trains both."""

    def __init__(self) -> None:
        self.net = Net()
        schedule = optax.cosine_decay_schedule(3e-2, 60)
        self.optimizer = oplib.optim.Optimizer(optax.adam(schedule), self.net.params)
        self.step = oplib.jit(self._step)

    def _step(self, images: oplib.Tensor, labels: oplib.Tensor) -> oplib.Tensor:
        with oplib.autocast("cpu", dtype=oplib.bfloat16):
            loss = F.cross_entropy(self.net(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def save(self, file: Any) -> None:
        oplib.save({"params": self.net.params, "optimizer": self.optimizer.state_dict()}, file)

    def load(self, file: Any) -> None:
        stored = oplib.load(file)
        with oplib.no_grad():
            for name, param in self.net.params.items():
                param.copy_(stored["params"][name])
        self.optimizer.load_state_dict(stored["optimizer"])


def draw_batches(count: int) -> list[tuple[oplib.Tensor, oplib.Tensor]]:
    """Returns images of a horizontal bar, a vertical bar or a square, with noise."""
    rng = np.random.default_rng(0)
    shapes = np.zeros((CLASSES, 12, 12), np.float32)
    shapes[0, 5:7], shapes[1, :, 5:7], shapes[2, 3:9, 3:9] = 2.0, 2.0, 1.0
    labels = rng.integers(CLASSES, size=(count, 16))
    noise = rng.normal(scale=0.3, size=(count, 16, 12, 12)).astype(np.float32)
    return [
        (oplib.tensor((shapes[one] + more)[:, None]), oplib.tensor(one))
        for one, more in zip(labels, noise, strict=True)
    ]


def main() -> None:
    batches = draw_batches(20)
    run, file = Run(), io.BytesIO()
    for batch in batches[:10]:
        run.step(*batch)
    run.save(file)
    due = [run.step(*batch).item() for batch in batches[10:]]

    resumed = Run()
    file.seek(0)
    resumed.load(file)
    assert [resumed.step(*batch).item() for batch in batches[10:]] == due

    best, patience = np.inf, 3  # early stop
    for _ in range(10):
        loss = np.mean([resumed.step(*batch).item() for batch in batches])
        best, patience = (loss, 3) if loss < best * 0.99 else (best, patience - 1)
        if patience == 0 or best < 0.05:
            break
    images, labels = batches[0]
    assert (resumed.net(images).argmax(1) == labels).float().mean().item() > 0.9, best
    assert run.step.compilations == resumed.step.compilations == 1


if __name__ == "__main__":
    main()
