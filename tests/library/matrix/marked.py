"""The ops of the matrix: their rules are marked, so that every number shows which rule computed it.

The backward formula is the true gradient times 7, the jvp rule the true tangent times 5. An op has both
rules, one of them, or JAX's own derivative instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.library import CustomOpDef, custom_op

REVERSE, FORWARD = 7.0, 5.0
X, W = jnp.array([0.3, -0.7, 1.1, 0.2]), jnp.float32(1.5)
ONES = jnp.ones_like(X)
SIN, COS = np.sin(X), np.cos(X)
COUNT = X.size


@dataclass(frozen=True)
class Marked:
    """An op and the factors of its rules.

    Attributes:
        op: ``(x, w) -> w * sin(x)``, for one ``w`` that all elements share.
        rules: ``b`` for a backward formula, ``j`` for a jvp rule, ``d`` for JAX's own.
        reverse: the factor of reverse mode.
        forward: the factor of forward mode.
        answers: the results of cells that ran together.
    """

    op: CustomOpDef
    rules: str
    reverse: float
    forward: float
    answers: dict[Any, Any] = field(default_factory=dict)

    def find(self, cells: Mapping[str, Callable[[Any], Any]], name: str) -> Any:
        """Returns the result of one cell for this op; all cells of a table run as one jitted program.

        Compilation takes most of the time of a cell, and is faster for all cells together. The error of a
        cell is stored for that cell.
        """
        key = id(cells)
        if key not in self.answers:
            self.answers[key] = run_together(cells, self.op)
        answer = self.answers[key][name]
        if isinstance(answer, Exception):
            raise answer
        return answer


def run_together(cells: Mapping[str, Callable[[Any], Any]], op: Any) -> dict[str, Any]:
    """Runs all cells in one jitted program; a cell that raises returns its error."""
    errors: dict[str, Any] = {}

    def run() -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, cell in cells.items():
            try:
                values[name] = cell(op)
            except Exception as error:  # noqa: BLE001  it is raised in the test of this cell
                errors[name] = error
        return values

    return {**jax.jit(run)(), **errors}


# Without a jvp rule the backward formula is transposed, without a formula JAX transposes the jvp rule.
FACTORS = {
    "b": (REVERSE, REVERSE),
    "bj": (REVERSE, FORWARD),
    "j": (FORWARD, FORWARD),
    "d": (1.0, 1.0),
}


def make_marked(rules: str) -> Marked:
    """Registers ``w * sin(x)`` with the given marked rules."""

    @custom_op(f"matrix::bend_{rules}")
    def bend(x: jax.Array, w: jax.Array) -> jax.Array:
        return w * jnp.sin(x)

    if "b" in rules:
        bend.register_autograd(pull, setup_context=save_inputs)
    if "j" in rules:
        bend.register_jvp(push)
    if "d" in rules:
        bend.register_autograd("derive")
    return Marked(bend, rules, *FACTORS[rules])


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the values that both rules need."""
    ctx.save_for_backward(*inputs)


def pull(ctx: Any, grad: Any) -> tuple[Any, Any]:
    """Computes the marked backward formula."""
    x, w = ctx.saved_tensors
    return REVERSE * grad * w * jnp.cos(x), REVERSE * (grad * jnp.sin(x)).sum()


def push(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Computes the marked jvp rule."""
    (x, w), (dx, dw) = primals, tangents
    tangent = dx * w * jnp.cos(x)
    if dw.dtype != jax.dtypes.float0:  # an integer has no tangent
        tangent += dw * jnp.sin(x)
    return w * jnp.sin(x), FORWARD * tangent


def sum_of(op: Any) -> Any:
    """Sums the result of the op to a scalar."""
    return lambda x, w: op(x, w).sum()


def by_both(function: Any) -> Any:
    """Returns the gradients by x and by w."""
    return jax.grad(function, argnums=(0, 1))
