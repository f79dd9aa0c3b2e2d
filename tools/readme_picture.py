"""The picture of the README: the graph of a loss, drawn by ``oplib.visual``; a test compares the two."""

from __future__ import annotations

from pathlib import Path

from oplib.visual import Graph

PICTURE = Path("docs/pictures/graph.svg")
PROGRAM = """\
import jax
import jax.numpy as jnp

import oplib


def length(x: jax.Array) -> jax.Array:
    return jnp.sqrt((x * x).sum(-1))


safe_length = oplib.library.custom_op("demo::length", length, autograd="derive")
weight = oplib.ones(64, 32, requires_grad=True)
bias = oplib.zeros(32, requires_grad=True)


def layer(x):
    return oplib.tanh(x @ weight + bias)


def penalty(hidden):
    return (safe_length(hidden) - 1.0).square().mean()


x = oplib.ones(128, 64)
hidden = layer(x)
loss = penalty(hidden) + weight.square().mean()
picture = oplib.visual.graph(loss, {"weight": weight, "bias": bias})
"""


def draw_picture() -> str:
    """Returns the SVG."""
    namespace: dict[str, Graph] = {}
    exec(compile(PROGRAM, "model.py", "exec"), namespace)
    return f"{namespace['picture'].svg()}\n"


def write_picture() -> None:
    """Writes the picture; the working directory is the root of the repository."""
    PICTURE.write_text(draw_picture())
