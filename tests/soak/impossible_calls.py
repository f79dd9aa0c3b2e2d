"""Calls whose results fit into no memory, with random sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import oplib
import oplib.fft
import oplib.nn.functional as F
from oplib.tensor.devices.memory import find_memory


def draw_shape(numbers: random.Random) -> tuple[int, ...]:
    """Returns a shape of one to four dimensions, of which already the bytes are more than the memory."""
    least = find_memory() * 2
    axes = [2 ** numbers.randrange(1, 40) + numbers.randrange(3) for _ in range(numbers.randrange(1, 5))]
    axes[numbers.randrange(len(axes))] *= -(-least // math.prod(axes)) * 2 ** numbers.randrange(3)
    return tuple(min(axis, 2**62) for axis in axes)


def draw_length(numbers: random.Random) -> int:
    """Returns a length of more bytes than the memory has."""
    return find_memory() * numbers.randrange(2, 2**20)


def expand(numbers: random.Random) -> Any:
    """Returns a tensor that needs one item of memory, and whose copy needs more than there is."""
    while math.prod(shape := draw_shape(numbers)) >= 2**60:
        pass
    return oplib.ones((), requires_grad=numbers.random() < 0.5).expand(shape)


def draw_pair(numbers: random.Random) -> tuple[Any, Any]:
    """Returns two vectors whose products, a matrix, need more than the memory."""
    rows = 2 ** numbers.randrange(10, 24)
    columns = find_memory() // rows * 2
    is_recorded = numbers.random() < 0.5
    return oplib.ones(1, requires_grad=is_recorded).expand(rows), oplib.ones(1).expand(columns)


def draw_matrices(numbers: random.Random) -> tuple[Any, Any]:
    """Returns a column and a row whose product needs more than the memory."""
    column, row = draw_pair(numbers)
    return column.unsqueeze(1), row.unsqueeze(0)


CALLS: dict[str, Callable[[random.Random], Any]] = {
    "zeros": lambda n: oplib.zeros(draw_shape(n)),
    "ones": lambda n: oplib.ones(*draw_shape(n), requires_grad=True),
    "empty": lambda n: oplib.empty(draw_shape(n), dtype=oplib.float16),
    "full": lambda n: oplib.full(draw_shape(n), 2.5),
    "rand": lambda n: oplib.rand(draw_shape(n)),
    "randn": lambda n: oplib.randn(*draw_shape(n)),
    "randint": lambda n: oplib.randint(0, 5, draw_shape(n)),
    "normal": lambda n: oplib.normal(0.0, 1.0, draw_shape(n)),
    "zeros_like": lambda n: oplib.zeros_like(expand(n)),
    "rand_like": lambda n: oplib.rand_like(expand(n)),
    "new_zeros": lambda n: oplib.ones(1).new_zeros(draw_shape(n)),
    "new_full": lambda n: oplib.ones(1).new_full(draw_shape(n), 1.0),
    "eye": lambda n: oplib.eye(2 ** n.randrange(20, 40), draw_length(n)),
    "arange": lambda n: oplib.arange(draw_length(n)),
    "linspace": lambda n: oplib.linspace(0, 1, draw_length(n)),
    "logspace": lambda n: oplib.logspace(0, 1, draw_length(n)),
    "hann_window": lambda n: oplib.hann_window(draw_length(n)),
    "repeat": lambda n: oplib.ones(3).repeat(draw_length(n)),
    "repeat of dims": lambda n: oplib.ones(3, 1).repeat(n.randrange(1, 5), draw_length(n)),
    "repeat_interleave": lambda n: oplib.ones(3).repeat_interleave(draw_length(n)),
    "tile": lambda n: oplib.tile(oplib.ones(2), (draw_length(n),)),
    "stack": lambda n: oplib.stack([oplib.ones(1).expand(draw_length(n))] * n.randrange(2, 5)),
    "cat": lambda n: oplib.cat([oplib.ones(1).expand(draw_length(n))] * n.randrange(2, 5)),
    "pad": lambda n: F.pad(oplib.ones(3), (n.randrange(3), draw_length(n))),
    "mul": lambda n: expand(n) * n.random(),
    "exp": lambda n: expand(n).exp(),
    "add": lambda n: expand(n) + oplib.ones(1),
    "clone": lambda n: expand(n).clone(),
    "contiguous": lambda n: expand(n).contiguous(),
    "where": lambda n: oplib.where(expand(n) > 0, 1.0, 0.0),
    "cumsum": lambda n: expand(n).cumsum(0),
    "softmax": lambda n: expand(n).softmax(-1),
    "to": lambda n: expand(n).to(oplib.float16),
    "masked_fill": lambda n: expand(n).masked_fill(oplib.tensor(True), 3.0),
    "flip": lambda n: expand(n).flip(0),
    "roll": lambda n: expand(n).roll(1, 0),
    "numpy": lambda n: expand(n).detach().numpy(),
    "outer": lambda n: oplib.outer(*draw_pair(n)),
    "matmul": lambda n: oplib.matmul(*draw_matrices(n)),
    "mul of a column": lambda n: oplib.mul(*draw_matrices(n)),
    "einsum": lambda n: oplib.einsum("i,j->ij", *draw_pair(n)),
    "cdist": lambda n: oplib.cdist(*(one.reshape(-1, 1) for one in draw_pair(n))),
    "kron": lambda n: oplib.kron(*draw_pair(n)),
    "diag": lambda n: oplib.ones(1).expand(2 ** n.randrange(24, 27)).diag(),
    "vander": lambda n: oplib.vander(oplib.ones(3), draw_length(n)),
    "one_hot": lambda n: F.one_hot(oplib.tensor([1]), draw_length(n)),
    "bincount": lambda n: oplib.bincount(oplib.tensor([1]), minlength=draw_length(n)),
    "histc": lambda n: oplib.histc(oplib.ones(3), bins=draw_length(n)),
    "tril_indices": lambda n: oplib.tril_indices(2 ** n.randrange(22, 30), 2**22),
    "fft": lambda n: oplib.fft.fft(oplib.ones(3), n=draw_length(n)),
    "interpolate": lambda n: F.interpolate(oplib.ones(1, 1, 2), size=draw_length(n)),
    "embedding": lambda n: F.embedding(expand(n).long(), oplib.ones(2, 3)),
    "index_select": lambda n: oplib.ones(3, 2**20).index_select(0, oplib.tensor([0]).expand(draw_length(n))),
    "indexing": lambda n: oplib.ones(3, 2**20)[oplib.tensor([0]).expand(draw_length(n))],
    "conv_transpose1d": lambda n: F.conv_transpose1d(
        oplib.ones(1, 1, 3), oplib.ones(1, 1, 2), stride=draw_length(n)
    ),
}
