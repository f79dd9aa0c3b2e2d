"""Checks of batched derivatives: a formula under vmap must give the results of a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.engine.backward_and_grad import grad
from oplib.errors import GradcheckError
from oplib.tensor import Tensor

from .comparison import find_differing
from .coordinates import Vector, draw_arrays, read_gradient
from .problem import Problem

_ROWS = 2
_ATOL, _RTOL = 1e-8, 1e-5


def check_batched_gradients(problem: Problem, output: int) -> None:
    """Compares the gradients of one output, mapped over two cotangents, with a loop over the two.

    Raises:
        GradcheckError: the map raises, or gives other gradients.
    """
    result: Tensor = problem.outputs[output]
    cotangents = draw_arrays(_ROWS, result.array)
    inputs = problem.wanted_inputs

    def pull_back(cotangent: Tensor, *, batched: bool) -> Sequence[Tensor | None]:
        return grad(result, inputs, cotangent, retain_graph=True, allow_unused=True, is_grads_batched=batched)

    expected = [pull_back(Tensor.from_array(row), batched=False) for row in cotangents]
    stacked = Tensor.from_array(jnp.stack(cotangents))
    mapped = run_mapped(lambda: pull_back(stacked, batched=True), f"the gradients of output {output}")
    for at, index in enumerate(problem.wanted):
        due = problem.inputs[index].array
        require_same(
            read_gradient(mapped[at], due, _ROWS),
            np.concatenate([read_gradient(row[at], due) for row in expected]),
            f"the gradient of output {output} with respect to input {index}",
        )


def run_mapped(run: Callable[[], Any], what: str) -> Any:
    """Runs a function under vmap, and raises GradcheckError for an error in it."""
    try:
        return run()
    except Exception as error:
        raise GradcheckError(
            f"gradcheck: {what} cannot be computed in a batch. Under vmap it raised {type(error).__name__}: "
            f"{error} Write the formula so that it reads no values and draws no random numbers, or leave "
            "batched gradients unchecked."
        ) from error


def require_same(
    mapped: Vector, expected: Vector, what: str, *, how: str = "under vmap", instead: str = "one by one"
) -> None:
    """Raises if the results of two computations differ."""
    differing = find_differing(expected, mapped, _ATOL, _RTOL)
    if differing.any():
        worst = int(np.argmax(np.where(differing, np.abs(mapped - expected), -1)))
        raise GradcheckError(
            f"gradcheck: {what} differs {how}. It is {mapped[worst]:.7g} {how} and {expected[worst]:.7g} "
            f"{instead}; {int(differing.sum())} of {differing.size} entries differ. Correct the rules of the "
            "ops that the function calls."
        )
