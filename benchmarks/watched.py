"""The cost of observation: recorded locations, hooks of saved tensors and of nodes, reads of saved slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import oplib
from oplib.autograd.graph import record_locations, saved_tensors_hooks

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_leaves
from .table import Row

TITLE = "a chain that is watched, forward and backward, over the same chain"
DEPTH = 100
CONTROL = f"{DEPTH} multiplications, forward and backward"


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row after another; only the first has a bound."""
    (leaf,) = make_leaves(make_arrays(1))
    plain = Case(_step, leaf, _nothing, units=DEPTH)
    for what, bound, watch in (
        ("locations recorded", 1.3, _with_locations),
        ("hooks for saved tensors that change nothing", None, _with_saved_hooks),
    ):
        subject = Case(watch, leaf, _nothing, units=DEPTH)
        yield Row(what, CONTROL, bound, compare(subject, plain, effort))
    for what, hang in (
        ("a pre-hook and a post-hook on each node", _attach_to_node),
        ("a hook on each tensor", _attach_to_tensor),
        ("what each node saved, looked at", _look),
    ):
        yield Row(what, CONTROL, None, compare(Case(_step, leaf, hang, units=DEPTH), plain, effort))


Hang = Callable[[oplib.Tensor], object]


def _step(leaf: oplib.Tensor, hang: Hang) -> Any:
    value = leaf
    for _ in range(DEPTH):
        value = value * 1.01
        hang(value)
    value.sum().backward()
    grad, leaf.grad = leaf.grad, None
    return grad


def _with_locations(leaf: oplib.Tensor, hang: Hang) -> Any:
    with record_locations():
        return _step(leaf, hang)


def _with_saved_hooks(leaf: oplib.Tensor, hang: Hang) -> Any:
    with saved_tensors_hooks(_detach, _same):
        return _step(leaf, hang)


def _nothing(value: oplib.Tensor) -> None:
    """Attaches nothing to a tensor."""


def _attach_to_node(value: oplib.Tensor) -> None:
    node: Any = value.grad_fn
    node.register_prehook(_ignore)
    node.register_hook(_ignore)


def _attach_to_tensor(value: oplib.Tensor) -> None:
    value.register_hook(_ignore)


def _look(value: oplib.Tensor) -> None:
    node: Any = value.grad_fn
    node.saved_tensors  # noqa: B018  reading is the timed action


def _detach(tensor: oplib.Tensor) -> oplib.Tensor:
    return tensor.detach()


def _same(tensor: oplib.Tensor) -> oplib.Tensor:
    return tensor


def _ignore(*grads: object) -> None:
    """Does nothing, as a hook."""
