"""Trains a GPT on characters, on one device or many, in one process or several.

    python examples/lm/train_gpt.py --mesh data=4,model=2 --fsdp --steps 200 --out out/lm

A run that ended early goes on from its last checkpoint if it is started again with the same ``--out``.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import optax
from matplotlib.figure import Figure
from tqdm import tqdm

import oplib
from gpt import Size, compute_loss, draw_params, predict
from layouts import MICROBATCHES, make_layout
from oplib import Tensor
from text import Text, draw_batch, load_text

if TYPE_CHECKING:
    from checkpoints import Checkpoints


def make_optimizer(steps: int) -> optax.GradientTransformation:
    """Returns Adam with a learning rate that rises, and then falls along a cosine until the last step."""
    return optax.adamw(optax.warmup_cosine_decay_schedule(1e-3, 3e-3, 20, max(steps, 21), 3e-4))


class Run:
    """A model on its devices, its optimizer, and the losses so far."""

    def __init__(self, options: argparse.Namespace, text: Text, size: Size | None = None) -> None:
        self.options, self.text = options, text
        self.size = size or Size(letters=-(-len(text.letters) // 128) * 128)
        self.layout = make_layout(options.mesh, fsdp=options.fsdp, pipeline=options.pipeline)
        self.params = self.layout.place(draw_params(self.size))
        self.optimizer = oplib.optim.Optimizer(make_optimizer(options.steps), self.params)
        self.losses: list[float] = []

    @oplib.jit
    def step(self, windows: Tensor) -> Tensor:
        """Takes one step, and returns the loss before it."""
        loss = compute_loss(self.params, windows, self.layout.apply_blocks)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def train(self, checkpoints: Checkpoints | None = None) -> None:
        """Takes the steps that are left. The loss of a step is read while the next one runs."""
        shape, running = (self.options.batch, self.size.length + 1), None
        steps = range(len(self.losses), self.options.steps)
        with tqdm(steps, initial=len(self.losses), total=len(steps), disable=jax.process_index() > 0) as bar:
            for number in bar:
                windows = Tensor.from_array(draw_batch(self.text, number, shape, self.layout.rows))
                last, running = running, self.step(windows)
                if last is not None:
                    self.losses.append(last.item())
                    bar.set_postfix(loss=f"{self.losses[-1]:.3f}")
                if checkpoints is not None and (number + 1) % self.options.save_every == 0:
                    checkpoints.save(number + 1, self.collect(), [*self.losses, running.item()])
        if running is not None:
            self.losses.append(running.item())

    def collect(self) -> dict[str, Any]:
        """Returns the arrays that the next step depends on."""
        tensors = {"params": self.params, "state": self.optimizer.state_dict()["state"]}
        return oplib.pytree.tree_map(lambda tensor: tensor.array, tensors)

    def restore(self, arrays: dict[str, Any], losses: list[float]) -> None:
        """Goes on from arrays that ``collect`` returned, in this run's layout."""
        params, state = oplib.pytree.tree_map(Tensor.from_array, (arrays["params"], arrays["state"]))
        with oplib.no_grad():
            for name, param in self.params.items():
                param.copy_(params[name])
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        self.losses = losses

    def write(self, words: str, count: int) -> str:
        """Returns ``words`` with further characters, each drawn from what the model predicts."""
        rng, length, whole = np.random.default_rng(0), self.size.length, self.layout.whole
        guess = oplib.jit(oplib.no_grad()(lambda window: predict(self.params, window).softmax(-1)))
        codes = list(self.text.encode(words))
        for _ in range(count):
            window = np.zeros((1, length), np.int32)
            window[0, : len(codes)] = codes[-length:]
            chances = guess(Tensor.from_array(jax.device_put(window, whole))).array
            row = np.asarray(jax.device_put(chances, whole), np.float64)[0, min(len(codes), length) - 1]
            codes.append(int(rng.choice(len(row), p=row / row.sum())))
        return self.text.decode(codes)


def draw_losses(losses: list[float], path: Path) -> None:
    """Draws the loss of each step."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="cross-entropy in nats")
    figure.savefig(path)


def parse_mesh(words: str) -> dict[str, int]:
    """Returns {"data": 4, "model": 2} for ``data=4,model=2``."""
    sizes = {name: int(count) for name, _, count in (part.partition("=") for part in words.split(","))}
    if not sizes.keys() <= {"data", "model"} or min(sizes.values()) < 1:
        raise argparse.ArgumentTypeError(f"data=4,model=2 names the axes; got {words}")
    return sizes


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a GPT on characters.")
    parser.add_argument("--mesh", type=parse_mesh, default={}, help="devices by axis, as data=4,model=2")
    parser.add_argument("--fsdp", action="store_true", help="share parameters over the axis data too")
    parser.add_argument("--pipeline", action="store_true", help="the axis model has whole layers")
    parser.add_argument("--processes", type=int, default=1, help="start so many processes on this machine")
    parser.add_argument("--steps", type=int, default=200, help="steps of the whole run")
    parser.add_argument("--batch", type=int, default=32, help="windows of a step, over all devices")
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0 writes none")
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--out", type=Path, default=Path("out/lm"), help="folder of checkpoints and results")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    rows, layers = options.mesh.get("data", 1), options.mesh.get("model", 1)
    if rows * layers % options.processes:
        parser.error(f"--processes {options.processes}: must divide the {rows * layers} devices of --mesh")
    if options.batch % (rows * (MICROBATCHES if options.pipeline else 1)):
        parser.error(f"--batch {options.batch}: must be a multiple of data={rows}, times 4 with --pipeline")
    return options


def start_processes(options: argparse.Namespace) -> int:
    """Starts the processes of a run on this machine, and ends them all if one fails."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, *sys.argv, f"--port={port}"]
    running = [subprocess.Popen([*command, f"--process={number}"]) for number in range(options.processes)]
    while not (ended := [process for process in running if process.poll() is not None]):
        time.sleep(0.2)
    status = ended[0].returncode
    for process in running:
        if status:
            process.kill()  # it would wait for the one that failed
        status = status or process.wait()
    return abs(status)


def set_up_devices(options: argparse.Namespace) -> None:
    """Makes as many devices of the CPU as the mesh asks for, and joins the processes."""
    devices = int(np.prod(list(options.mesh.values())))
    jax.config.update("jax_num_cpu_devices", devices // options.processes)
    if options.process is not None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{options.port}", options.processes, options.process)


def main() -> int:
    """Trains, writes the losses and their picture, and prints a sample."""
    options = parse_options()
    if options.processes > 1 and options.process is None:
        return start_processes(options)
    set_up_devices(options)
    options.out.mkdir(parents=True, exist_ok=True)
    run, checkpoints = Run(options, load_text()), None
    if options.save_every:
        from checkpoints import Checkpoints  # noqa: PLC0415 -- only this needs orbax

        checkpoints = Checkpoints(options.out / "checkpoints")
        if checkpoints.latest is not None:
            run.restore(*checkpoints.load(run.collect()))
    run.train(checkpoints)
    if checkpoints is not None:
        checkpoints.close()
    sample = run.write("The ", options.sample)
    if jax.process_index() == 0:
        np.savetxt(options.out / "losses.txt", run.losses)
        draw_losses(run.losses, options.out / "loss.png")
        print(f"loss: {run.losses[0]:.4f} at first, {run.losses[-1]:.4f} at last, {options.out}/loss.png")
        print(sample)
    return 0


if __name__ == "__main__":
    sys.exit(main())
