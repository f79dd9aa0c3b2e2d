"""The Jacobian in forward mode: one run of the function on dual tensors, mapped over unit tangents."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.tensor import Tensor, box

from .arguments import OUTPUTS, Tensors, take_tuple
from .basis import count_items, make_basis
from .evaluation import Function

Matrix = tuple[Tensors, ...]


def find_columns(func: Function, inputs: Tensors) -> tuple[bool, Matrix]:
    """Runs a function in forward mode, and returns its Jacobian.

    Args:
        func: takes Tensors and returns a Tensor or a tuple of Tensors.
        inputs: its arguments.

    Returns:
        Whether the function returned a tuple; and for each output, a Tensor ``[*output, *input]`` for each
        input.
    """
    notes: list[bool] = []

    def push(*tangents: Any) -> list[Any]:
        with dual_level():
            duals = [make_dual(one, box(tangent)) for one, tangent in zip(inputs, tangents, strict=True)]
            is_tuple, outputs = take_tuple(func(*duals), OUTPUTS, "jacobian")
            notes.append(is_tuple)
            return [_read_tangent(output) for output in outputs]

    columns = jax.vmap(push)(*make_basis(inputs))
    counts = list(map(count_items, inputs))
    return notes[-1], tuple(_arrange(rows, inputs, counts) for rows in columns)


def _read_tangent(output: Tensor) -> Any:
    """Returns the array of an output's tangent, or zeros."""
    tangent = unpack_dual(output).tangent
    return jnp.zeros_like(output._storage.array) if tangent is None else tangent._storage.array


def _arrange(rows: Any, inputs: Tensors, counts: list[int]) -> Tensors:
    """Splits the mapped tangents of one output by inputs, and moves the dimensions of the inputs last."""
    sizes = rows.shape[1:]
    blocks: list[Tensor] = []
    start = 0
    for one, count in zip(inputs, counts, strict=True):
        block = jnp.moveaxis(rows[start : start + count], 0, -1)
        blocks.append(box(block.reshape(*sizes, *one._storage.array.shape)))
        start += count
    return tuple(blocks)
