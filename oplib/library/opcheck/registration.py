"""``test_autograd_registration``: whether the op has its derivative, instead of its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oplib.autograd.grad_mode import enable_grad
from oplib.autograd.user_functions.node import BackwardCFunction
from oplib.errors import OpMismatchError
from oplib.library.records.record import Derivative
from oplib.tensor import Tensor

from .comparison import Tolerance
from .sample import Sample, flatten


def check_registration(sample: Sample, tolerance: Tolerance) -> None:
    """Raises OpMismatchError if an eager kernel without a formula applies a Function.

    Its backward would never run.
    """
    del tolerance
    record = sample.overload.record
    if (
        not sample.needs_grad
        or record.kind != "tensor"
        or record.is_custom
        or record.derivative != Derivative()
    ):
        return
    for kernel in record.kernels.values():
        leaves = sample.make_tensors()
        with enable_grad():
            results = flatten(sample.apply(kernel, leaves, is_kernel=True))
        names = [name for result in results if isinstance(result, Tensor) for name in _find_functions(result)]
        if names:
            raise OpMismatchError(
                f"{record.name}: the kernel applies the autograd.Function {names[0]}, and no derivative is "
                "registered. A kernel runs below autograd, so the backward of the Function is never used. "
                "Register it with register_autograd, or impl the kernel under CompositeImplicitAutograd."
            )


def _find_functions(result: Tensor) -> Iterator[str]:
    """Yields the names of the users' Functions in the graph of a result."""
    found: set[Any] = set()
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found.add(node)
        if isinstance(node, BackwardCFunction):
            yield node.name()
        waiting.extend(edge[0] for edge in node.next_functions)
