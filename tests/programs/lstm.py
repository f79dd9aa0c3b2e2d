"""An LSTM that adds marked numbers of a sequence, with momentum. Each step starts from the last state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.optimizers import Momentum
from tests.programs.training import Batches, Maker, Training


class LSTMSizes(NamedTuple):
    """The width of the state, the number of sequences, and their length."""

    width: int = 12
    batch: int = 6
    length: int = 7


SMALL = LSTMSizes()


class LSTM:
    """One layer, whose last hidden state the next call starts from."""

    def __init__(self, make: Maker, inputs: int, width: int, batch: int, *, uses_scan: bool) -> None:
        self.lib, self.uses_scan = make.lib, uses_scan and hasattr(make.lib, "scan")
        self.weights = {
            "input": make.parameter(4 * width, inputs),
            "hidden": make.parameter(4 * width, width),
        }
        self.bias = make.full(0.0, 4 * width)
        self.hidden = make.full(0.0, batch, width, requires_grad=False)
        self.cell = make.full(0.0, batch, width, requires_grad=False)

    def advance(self, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
        gates = x @ self.weights["input"].T + hidden @ self.weights["hidden"].T + self.bias
        enter, forget, new, leave = gates.chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * cell.tanh(), cell

    def __call__(self, xs: Any) -> Any:
        state = self.hidden, self.cell
        if self.uses_scan:
            state, outputs = self.lib.scan(self.run_step, state, xs)
        else:
            made = []
            for x in xs.unbind(0):
                state, output = self.run_step(state, x)
                made.append(output)
            outputs = self.lib.stack(made)
        self.hidden, self.cell = [one.detach() for one in state]
        return outputs

    def run_step(self, state: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], Any]:
        state = self.advance(*state, x)
        return state, state[0]


def make_lstm(make: Maker, sizes: LSTMSizes = SMALL, *, uses_scan: bool = False) -> Training:
    model = LSTM(make, 2, sizes.width, sizes.batch, uses_scan=uses_scan)
    head = make.parameter(1, sizes.width)
    parameters = [*model.weights.values(), model.bias, head]
    optimizer = Momentum(make.lib, parameters, rate=0.05)

    @make.compile
    def step(xs: Any, ys: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(xs) @ head.T - ys) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, parameters)


def draw_lstm(random: np.random.Generator, sizes: LSTMSizes = SMALL) -> Batches:
    shape = (sizes.length, sizes.batch, 1)
    while True:
        numbers, marks = random.normal(size=shape), random.random(shape) > 0.5
        xs = np.concatenate([numbers, marks], -1)
        yield {"xs": xs, "ys": np.cumsum(numbers * marks, 0) / 3}
