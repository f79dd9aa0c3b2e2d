"""Trains a GPT on characters, on one device or many, in one process or several.

    python examples/lm/train_gpt.py --mesh data=4,model=2 --fsdp --steps 200 --out out/lm

A run that ended early goes on from its last checkpoint if it is started again with the same ``--out``.
"""

import argparse
import math
import multiprocessing
import socket
import sys
from multiprocessing.connection import wait
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from matplotlib.figure import Figure
from tqdm import tqdm

import oplib
from gpt import Size, apply_blocks, compute_loss, draw_params, predict
from layouts import MICROBATCHES, choose_spec, make_pipeline
from oplib import Tensor


def load_text() -> np.ndarray:
    """Returns 450,000 characters of English and Python, the topics of ``help``, as numbers in ASCII."""
    words = "\n\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(words.encode("ascii", "replace"), np.uint8).astype(np.int32)


def make_optimizer(steps: int) -> optax.GradientTransformation:
    """Returns Adam with a learning rate that rises, and then falls along a cosine until the last step."""
    return optax.adamw(optax.warmup_cosine_decay_schedule(1e-3, 3e-3, 20, max(steps, 21), 3e-4))


class Run:
    """A model on its devices, its optimizer, and the losses so far."""

    def __init__(self, options: argparse.Namespace, size: Size | None = None) -> None:
        self.options, self.text, self.size = options, load_text(), size or Size()
        self.mesh = jax.make_mesh(options.mesh, ("data", "model"), axis_types=(AxisType.Auto,) * 2)
        self.apply_blocks = make_pipeline(self.mesh) if options.pipeline else apply_blocks
        self.params: dict[str, Tensor] = {}
        for name, value in draw_params(self.size).items():
            spec = choose_spec(name, fsdp=options.fsdp, pipeline=options.pipeline)
            self.params[name] = self.place(value.shape, spec, value.__getitem__).requires_grad_()
        self.optimizer = oplib.optim.Optimizer(make_optimizer(options.steps), self.params)
        self.losses: list[Any] = []

    def place(self, shape: tuple[int, ...], spec: P, read: Any) -> Tensor:
        """Returns a Tensor on the mesh. Each process reads only the parts of its own devices."""
        return Tensor.from_array(jax.make_array_from_callback(shape, NamedSharding(self.mesh, spec), read))

    def draw_batch(self, step: int) -> Tensor:
        """Returns the windows [batch, length + 1] of a step. All processes draw the same starts."""
        windows = np.lib.stride_tricks.sliding_window_view(self.text, self.size.length + 1)
        starts = np.random.default_rng(step).integers(0, len(windows), self.options.batch)
        shape = (self.options.batch, self.size.length + 1)
        return self.place(shape, P("data"), lambda index: windows[starts[index[0]]])

    @oplib.jit
    def step(self, windows: Tensor) -> Tensor:
        """Takes one step, and returns the loss before it."""
        loss = compute_loss(self.params, windows, self.apply_blocks)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def train(self, checkpoints: Any = None) -> None:
        """Takes the steps that are left."""
        done, steps = len(self.losses), self.options.steps
        with tqdm(total=steps, initial=done, disable=jax.process_index() > 0) as bar:
            for number in range(done, steps):
                self.losses.append(self.step(self.draw_batch(number)))
                bar.set_postfix(loss=f"{float(self.losses[-2:][0]):.3f}")  # the last is not computed yet
                bar.update()
                if checkpoints and (number + 1) % self.options.save_every == 0:
                    checkpoints.save(number + 1, self.tensors, [float(loss) for loss in self.losses])
        self.losses = [float(loss) for loss in self.losses]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All that the next step depends on."""
        return {**self.params, **self.optimizer.state_dict()["state"]}

    def write(self, count: int) -> str:
        """Returns the beginning of the text, and characters that the model draws after it."""
        rng, length = np.random.default_rng(0), self.size.length
        whole = NamedSharding(self.mesh, P())  # each process reads the logits

        @oplib.jit
        @oplib.no_grad()
        def guess(window: Tensor) -> Tensor:
            return oplib.with_sharding_constraint(predict(self.params, window)[0, -1], whole)

        codes = list(self.text[:length])
        for _ in range(count):
            logits = guess(oplib.tensor(np.array([codes[-length:]]))).numpy()
            codes.append(np.argmax(logits + rng.gumbel(size=logits.shape)))  # draws from their softmax
        return bytes(codes).decode("ascii")

    def draw_losses(self, path: Path) -> None:
        """Draws the loss of each step."""
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot(self.losses)
        axes.set(xlabel="step", ylabel="cross-entropy in nats")
        figure.savefig(path)


def parse_mesh(words: str) -> tuple[int, int]:
    """Returns (4, 2) for ``data=4,model=2``."""
    given = {name: int(count) for name, _, count in (part.partition("=") for part in words.split(","))}
    data, model = ({"data": 1, "model": 1} | given).values()  # another axis would be a third value
    return data, model


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a GPT on characters.")
    parser.add_argument("--mesh", type=parse_mesh, default=(1, 1), help="devices by axis, as data=4,model=2")
    parser.add_argument("--fsdp", action="store_true", help="share parameters over the axis data too")
    parser.add_argument("--pipeline", action="store_true", help="the axis model has whole layers")
    parser.add_argument("--processes", type=int, default=1, help="start so many processes on this machine")
    parser.add_argument("--steps", type=int, default=200, help="steps of the whole run")
    parser.add_argument("--batch", type=int, default=32, help="windows of a step, over all devices")
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0 writes none")
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--out", type=Path, default=Path("out/lm"), help="folder of checkpoints and results")
    options = parser.parse_args(arguments)
    rows = options.mesh[0] * (MICROBATCHES if options.pipeline else 1)
    if options.batch % rows:
        parser.error(f"--batch {options.batch}: must be a multiple of {rows}, the parts that --mesh asks for")
    if math.prod(options.mesh) % options.processes:
        parser.error(f"--processes {options.processes}: must divide the {math.prod(options.mesh)} devices")
    return options


def run(options: argparse.Namespace, process: int = 0, port: int = 0) -> None:
    """Trains on as many devices of the CPU as the mesh asks for, and writes losses, picture and sample."""
    jax.config.update("jax_num_cpu_devices", math.prod(options.mesh) // options.processes)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", options.processes, process)
    options.out.mkdir(parents=True, exist_ok=True)
    trained, checkpoints = Run(options), None
    if options.save_every:
        from checkpoints import Checkpoints  # noqa: PLC0415 -- only this needs orbax

        checkpoints = Checkpoints(options.out / "checkpoints")
        if checkpoints.latest is not None:
            trained.losses = checkpoints.load(trained.tensors)
    trained.train(checkpoints)
    if checkpoints:
        checkpoints.close()
    sample = trained.write(options.sample)
    if process == 0:
        np.savetxt(options.out / "losses.txt", trained.losses)
        trained.draw_losses(options.out / "loss.png")
        first, *_, last = trained.losses
        print(f"loss: {first:.4f} at first, {last:.4f} at last, {options.out}/loss.png\n{sample}")


def run_processes(options: argparse.Namespace) -> None:
    """Trains in several processes on this machine. If one fails, they all end."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port = listener.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=run, args=(options, n, port)) for n in range(options.processes)]
    for process in started:
        process.start()
    running = {process.sentinel: process for process in started}
    while running:
        ended = running.pop(wait(running)[0])
        ended.join()
        if ended.exitcode:
            for process in running.values():
                process.kill()  # it would wait for the one that failed
            sys.exit(1)


if __name__ == "__main__":
    options = parse_options()
    run(options) if options.processes == 1 else run_processes(options)
