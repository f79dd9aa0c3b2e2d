"""Derivatives by forward mode: input column by input column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.modes import modes
from oplib.tensor import Tensor

from .backward import check_gradient_kind, zeros_like
from .batching import require_same, run_mapped
from .comparison import Matrix, Options
from .coordinates import Vector, count_coordinates, draw_arrays, from_coordinates, read_gradient, stack_rows
from .problem import Problem, as_tuple

_ROWS = 2


def push_forward(problem: Problem, index: int, direction: Vector, options: Options) -> dict[int, Vector]:
    """Returns the tangent of each floating output for a tangent of one input.

    Raises GradcheckError for one of another shape or dtype than its output.
    """
    tangent = from_coordinates(direction, problem.inputs[index].array)
    derivatives: dict[int, Vector] = {}
    for output, value in _push(problem, {index: Tensor.from_array(tangent)}).items():
        due = problem.outputs[output].array
        if value is not None:
            check_gradient_kind(value.array, due, f"output {output}", check_dtype=options.check_grad_dtypes)
        derivatives[output] = read_gradient(value, due)
    return derivatives


def forward_jacobian(problem: Problem, index: int, options: Options) -> dict[int, Matrix]:
    """Returns for each floating output the derivatives with respect to one input, a row for each entry."""
    size = count_coordinates(problem.inputs[index].array)
    rows = [push_forward(problem, index, row, options) for row in np.eye(size)]
    dues = {output: problem.outputs[output].array for output in problem.inexact}
    return {output: stack_rows([row[output] for row in rows], due) for output, due in dues.items()}


def _push(problem: Problem, tangents: Mapping[int, Tensor]) -> dict[int, Tensor | None]:
    """Calls the function with dual tensors at these places. Returns the tangents of its floating outputs."""
    with dual_level():
        inputs = [
            make_dual(value.detach(), tangents[index])
            if index in tangents
            else value.detach()
            if index in problem.wanted
            else value
            for index, value in enumerate(problem.inputs)
        ]
        outputs = as_tuple(problem.func(*inputs))
        return {index: unpack_dual(outputs[index]).tangent for index in problem.inexact}


def check_undefined_tangents(problem: Problem) -> None:
    """Raises GradcheckError if no tangent of an input gives other results than a tangent of zeros."""
    tangents = {index: Tensor.from_array(_draw(problem, index)[0]) for index in problem.wanted}
    for index in problem.wanted:
        (zero,) = zeros_like([problem.inputs[index]])
        defined = _push(problem, tangents | {index: zero})
        undefined = _push(problem, {at: value for at, value in tangents.items() if at != index})
        for output in problem.inexact:
            due = problem.outputs[output].array
            require_same(
                read_gradient(undefined[output], due),
                read_gradient(defined[output], due),
                f"the tangent of output {output}, when input {index} has an undefined tangent value,",
                how="with it undefined",
                instead="with zeros",
            )


def check_batched_tangents(problem: Problem) -> None:
    """Raises GradcheckError if forward mode, mapped over two tangents, fails or differs from a loop."""
    for index in problem.wanted:
        tangents = _draw(problem, index)
        expected = [_push(problem, {index: Tensor.from_array(row)}) for row in tangents]
        mapped = run_mapped(lambda at=index, rows=tangents: _push_batch(problem, at, rows), "forward mode")
        for output in problem.inexact:
            due = problem.outputs[output].array
            require_same(
                read_gradient(mapped[output], due, _ROWS),
                np.concatenate([read_gradient(row[output], due) for row in expected]),
                f"the tangent of output {output} with respect to input {index}",
            )


def _push_batch(problem: Problem, index: int, tangents: list[Any]) -> dict[int, Tensor | None]:
    def push_one(tangent: Any) -> dict[int, Any]:
        state = modes.state
        state.vmap_levels += 1
        try:
            pushed = _push(problem, {index: ARRAYS.box(tangent)})
        finally:
            state.vmap_levels -= 1
        return {output: None if value is None else value.array for output, value in pushed.items()}

    return jax.tree.map(ARRAYS.box, jax.vmap(push_one)(jnp.stack(tangents)))


def _draw(problem: Problem, index: int) -> list[Any]:
    return draw_arrays(_ROWS, problem.inputs[index].array, seed=index)
