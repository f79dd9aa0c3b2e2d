"""``test_aot_dispatch_dynamic``: whether the op computes the same eagerly and when it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import conjugate
from oplib.autograd.engine.backward_and_grad import grad
from oplib.errors import ReadValueError
from oplib.library.kernels.running import run_kernel
from oplib.tensor import Tensor

from .comparison import Tolerance, require_equal
from .sample import Sample, draw_like, only_arrays

_ADVICE = (
    "The kernel may depend on more than its arguments, or read values while it is traced; make it a function "
    "of its arguments alone."
)


def check_traced(sample: Sample, tolerance: Tolerance) -> str | None:
    """Compares outputs, and gradients if an argument requires grad, of an eager call and a call under jit.

    If two eager calls of an op with ``Tag.ordered`` differ, its results depend on its side effects. Then only
    shapes and dtypes are compared.

    Returns:
        The reason, if nothing was compared: a kernel of plain Python on Tensors that reads values is never
        compiled, and a call of it under ``jit`` raises.

    Raises:
        OpMismatchError: they differ.
        MissingRuleError: an argument requires grad and the op has no formula; or it cannot be traced.
    """
    name = sample.overload.name()
    eager = only_arrays(sample.call(sample.make_tensors(requires_grad=False)))
    if sample.overload.record.kind == "array":
        plain = only_arrays(run_kernel(sample.overload.record, sample.layout, sample.arrays)[1])
        what = f"{name}: the outputs are different when the kernel runs compiled and as plain Python"
        require_equal(eager, plain, tolerance, what, advice=_ADVICE)
    try:
        traced = jax.jit(lambda *arrays: only_arrays(sample.call_arrays(arrays)))(*sample.arrays)
    except ReadValueError:
        return "the kernel reads values, so it has no compiled run"
    what = f"{name}: the outputs are different in eager mode and when traced by jit"
    if not _is_repeatable(sample, eager):
        eager, traced = (list(map(jnp.zeros_like, results)) for results in (eager, traced))
        require_equal(eager, traced, tolerance, what, advice=_ADVICE)
        return None
    require_equal(eager, traced, tolerance, what, advice=_ADVICE)
    if sample.needs_grad and sample.is_functional:
        _check_gradients(sample, tolerance)
    return None


def _is_repeatable(sample: Sample, first: Sequence[Any]) -> bool:
    """Tells whether another eager call gives the same; an op without side effects promises that it does."""
    if not sample.overload.record.is_ordered:
        return True
    second = only_arrays(sample.call(sample.make_tensors(requires_grad=False)))
    return all(np.array_equal(left, right, equal_nan=True) for left, right in zip(first, second, strict=True))


def _check_gradients(sample: Sample, tolerance: Tolerance) -> None:
    leaves = sample.make_tensors()
    outputs = [output for output in sample.call(leaves) if isinstance(output, Tensor)]
    recorded = [index for index, output in enumerate(outputs) if output.requires_grad]
    if not recorded:
        return
    cotangents = draw_like([outputs[index].array for index in recorded], seed=1)
    wanted = sample.pick(leaves)
    gradients = grad(
        [outputs[index] for index in recorded],
        wanted,
        list(map(Tensor.from_array, cotangents)),
        allow_unused=True,
    )
    eager = [
        jnp.zeros_like(leaf.array) if gradient is None else gradient.array
        for leaf, gradient in zip(wanted, gradients, strict=True)
    ]
    traced = jax.jit(partial(_pull_back, sample, recorded))(cotangents, sample.arrays)
    require_equal(
        eager,
        traced,
        tolerance,
        f"{sample.overload.name()}: the gradients are different in eager mode and when traced by jit",
        advice="The formula may depend on more than ctx and its gradients; use only these.",
    )


def _pull_back(
    sample: Sample, recorded: Sequence[int], cotangents: Sequence[Any], arrays: Sequence[Any]
) -> list[Any]:
    """Returns the gradients as JAX computes them, in the convention of the tape."""

    def call(*varied: Any) -> list[Any]:
        results = only_arrays(sample.call_arrays(sample.put(varied, arrays)))
        return [results[index] for index in recorded]

    _, pull = jax.vjp(call, *sample.pick(arrays))
    return list(map(conjugate, pull(list(map(conjugate, cotangents)))))
