"""The cost of one call, over the bare cached jit of the same kernel on the same operands."""

from __future__ import annotations

from collections.abc import Iterator
from operator import matmul, mul

import jax
import jax.numpy as jnp

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves, soft_product, soft_product_op
from .table import Row

TITLE = "one call, over the bare cached jit"
CONTROL = "jax.jit(kernel)"


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the rows of a registered op, then those of built-in ones."""
    yield from _measure_registered(effort)
    yield from _measure_builtin(effort)


def _measure_registered(effort: Effort) -> Iterator[Row]:
    arrays = make_arrays(2)
    bare = Case(jax.jit(soft_product), *arrays)
    for what, bound, operands in (
        ("registered op, on arrays", 1.4, arrays),
        ("registered op, on Tensors without grad", 1.4, make_constants(arrays)),
        ("registered op, on Tensors, recording", 1.7, make_leaves(arrays)),
    ):
        yield Row(what, CONTROL, bound, compare(Case(soft_product_op, *operands), bare, effort))


def _measure_builtin(effort: Effort) -> Iterator[Row]:
    x, y = arrays = make_arrays(2)
    a, b = make_leaves(arrays)
    two = jnp.float32(2.0)  # an operand of the bare jit; a Python float would cost it about 5 us more
    for what, subject, bare in (
        ("built-in op, recording: x * y", Case(mul, a, b), Case(jax.jit(mul), x, y)),
        ("built-in op, recording: x * 2.0", Case(mul, a, 2.0), Case(jax.jit(mul), x, two)),
        ("built-in op, recording: x @ y", Case(matmul, a, b), Case(jax.jit(matmul), x, y)),
    ):
        yield Row(what, CONTROL, 1.4, compare(subject, bare, effort))
