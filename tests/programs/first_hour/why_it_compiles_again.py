"""Why a step compiles again: ``explain`` names the argument, and padding the last batch ends it."""

import numpy as np

import oplib


def main() -> None:
    weight = oplib.zeros(3, requires_grad=True)

    @oplib.jit
    def step(x: oplib.Tensor, y: oplib.Tensor, mask: oplib.Tensor) -> oplib.Tensor:
        loss = (((x @ weight - y) ** 2) * mask).sum() / mask.sum()
        (weight.grad,) = oplib.autograd.grad(loss, weight)
        with oplib.no_grad():
            weight.sub_(0.1 * weight.grad)
        weight.grad = None
        return loss.detach()

    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32)
    batches = [(x[start : start + 8], y[start : start + 8]) for start in range(0, 20, 8)]
    for rows, due in batches[:2]:
        step(oplib.tensor(rows), oplib.tensor(due), oplib.ones(len(due)))
    assert step.compilations == 1

    rows, due = batches[2]  # four rows are left
    reason = step.explain(oplib.tensor(rows), oplib.tensor(due), oplib.ones(4))
    assert reason.endswith("argument 'x' is f32[4,3], and was f32[8,3]"), reason

    def fill(part: np.ndarray) -> oplib.Tensor:
        return oplib.tensor(np.pad(part, [(0, 8 - len(part)), *[(0, 0)] * (part.ndim - 1)]))

    losses = [
        step(fill(rows), fill(due), fill(np.ones(len(due), np.float32))).item()
        for _ in range(40)
        for rows, due in batches
    ]
    assert step.compilations == 1
    assert losses[-1] < 1e-3 * losses[0]


if __name__ == "__main__":
    main()
