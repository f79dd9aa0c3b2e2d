"""Forward and backward against torch, if torch is installed: the same mathematics on the same shapes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from operator import mul
from typing import Any

import numpy as np

import oplib

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves, soft_product_op
from .table import Row

TITLE = "forward and backward, against torch on this machine"
ABSENT = "torch is not importable: install the extra 'bench'"
LINKS = 100


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the rows; without torch they are marked as not run."""
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None  # optional, and slow to import
    for what, control, bound, make in (
        ("one custom op", "torch.library.custom_op", 0.35, _pair_custom_op),
        ("one custom op, adding to the gradients there are", "torch.library.custom_op", None, _pair_adding),
        (f"{LINKS} chained multiplications, op by op", "torch eager", 3.0, _pair_chain),
        (f"{LINKS} chained multiplications, both factors' gradients", "torch eager", None, _pair_both),
    ):
        if torch is None:
            yield Row(what, control, bound, note=ABSENT)
        else:
            subject, bare = make(torch)
            yield Row(what, control, bound, compare(subject, bare, effort))


def _pair_custom_op(torch: Any) -> tuple[Case, Case]:
    """Measures a training step: the gradients of the previous step are dropped."""
    mine, its = make_leaves(make_arrays(2)), _torch_leaves(torch)
    return (
        Case(_step_with_fresh_grads, soft_product_op, *mine, oplib.ones_like(mine[0])),
        Case(_step_with_fresh_grads, _make_torch_op(torch), *its, torch.ones_like(its[0])),
    )


def _pair_adding(torch: Any) -> tuple[Case, Case]:
    mine, its = make_leaves(make_arrays(2)), _torch_leaves(torch)
    return (
        Case(_step, soft_product_op, *mine, oplib.ones_like(mine[0])),
        Case(_step, _make_torch_op(torch), *its, torch.ones_like(its[0])),
    )


def _pair_chain(torch: Any) -> tuple[Case, Case]:
    """Measures a chain whose second factor is a constant, so that each step has one gradient."""
    arrays = make_arrays(2)
    (mine,), (factor,) = make_leaves(arrays[:1]), make_constants(arrays[1:])
    its, torch_factor = _torch_leaves(torch)
    torch_factor.requires_grad_(False)
    return _pair_chains(torch, (mine, factor), (its, torch_factor))


def _pair_both(torch: Any) -> tuple[Case, Case]:
    """Measures a chain whose second factor is a leaf: a hundred gradients are summed into it."""
    return _pair_chains(torch, make_leaves(make_arrays(2)), _torch_leaves(torch))


def _pair_chains(torch: Any, mine: Any, its: Any) -> tuple[Case, Case]:
    return (
        Case(_run_chain, *mine, oplib.ones_like(mine[0])),
        Case(_run_chain, *its, torch.ones_like(its[0])),
    )


def _step(op: Callable[..., Any], x: Any, y: Any, grad: Any) -> Any:
    op(x, y).backward(grad)
    return x.grad


def _step_with_fresh_grads(op: Callable[..., Any], x: Any, y: Any, grad: Any) -> Any:
    x.grad = y.grad = None
    return _step(op, x, y, grad)


def _run_chain(x: Any, factor: Any, grad: Any) -> Any:
    x.grad = factor.grad = None
    value = x
    for _ in range(LINKS):
        value = mul(value, factor)
    value.backward(grad)
    return x.grad


def _torch_leaves(torch: Any) -> list[Any]:
    """Returns the operands of ``make_arrays`` as torch tensors."""
    return [torch.tensor(np.asarray(array), requires_grad=True) for array in make_arrays(2)]


def _make_torch_op(torch: Any) -> Any:
    """Returns the op of ``sample_ops`` written for torch, line by line."""

    def soft_product(x, y, limit=2.0):
        return limit * torch.tanh(x * y / limit)

    schema = "(Tensor x, Tensor y, float limit=2.) -> Tensor"
    op = torch.library.custom_op("bench::soft_product", soft_product, mutates_args=(), schema=schema)

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, y, ctx.limit = inputs
        ctx.save_for_backward(x, y, output)

    def differentiate(ctx: Any, grad: Any) -> tuple[Any, Any, None]:
        x, y, output = ctx.saved_tensors
        slope = grad * (1 - (output / ctx.limit) ** 2)
        return slope * y, slope * x, None

    op.register_autograd(differentiate, setup_context=save)
    return op
