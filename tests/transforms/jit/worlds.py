"""Compares what a function leaves behind under ``oplib.jit`` with what it leaves without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import oplib

CALLS = 3


class World:
    """Tensors of each kind that a function finds outside."""

    def __init__(self) -> None:
        self.plain, self.other, self.wide = make_tensor(2, 3), make_tensor(3, 2), make_tensor(1, 2, 3)
        self.base = make_tensor(2, 3)
        self.row, self.whole = self.base[0], self.base.view(2, 3)
        self.leaf = make_tensor(2, 3).requires_grad_()
        self.leaf.grad = oplib.ones(2, 3)
        self.kept: Any = None


def make_tensor(*shape: int) -> oplib.Tensor:
    """Makes a Tensor whose items all differ."""
    return oplib.arange(1.0, 1.0 + oplib.zeros(*shape).numel()).view(*shape).clone()


def assert_same(
    function: Callable[..., Any], after: Callable[[World, Any], object] | None = None, calls: int = CALLS
) -> Any:
    """Asserts that calls leave the same with ``oplib.jit`` and without.

    Args:
        function: takes a world and an argument.
        after: what is done with the world and the result after each call, outside of the function.
        calls: how many.

    Returns:
        The compiled function.
    """
    plain, compiled = World(), World()
    own = make_tensor(2, 3), make_tensor(2, 3)
    step = oplib.jit(lambda x: function(compiled, x))
    for _ in range(calls):
        expected, found = function(plain, own[0]), step(own[1])
        if after is not None:
            after(plain, expected)
            after(compiled, found)
        assert describe_world(compiled, own[1], found) == describe_world(plain, own[0], expected)
    return step


def describe_world(world: World, argument: oplib.Tensor, result: Any) -> dict[str, Any]:
    """Returns everything that a user can see of some Tensors, and which of them share memory."""
    results = result if isinstance(result, tuple) else (result,)
    named = {**vars(world), "argument": argument, **{f"result {n}": one for n, one in enumerate(results)}}
    tensors = dict(_list_tensors(named))
    found: dict[str, Any] = {name: _describe(one) for name, one in tensors.items()}
    for name, one in tensors.items():
        for other, two in tensors.items():
            shares = one._storage.owner is two._storage.owner
            found[f"{name}, {other}"] = (one is two, shares, one._base is two)
    return found


def _list_tensors(named: dict[str, Any]) -> Iterator[tuple[str, oplib.Tensor]]:
    for name, value in named.items():
        if isinstance(value, oplib.Tensor):
            yield name, value
            held = {f"{name}.{key}": one for key, one in vars(value).items() if not key.startswith("_")}
            yield from _list_tensors({f"{name}.grad": value._gradient, **held})


def _describe(tensor: oplib.Tensor) -> tuple[Any, ...]:
    is_inference = tensor.is_inference()
    attributes = {
        key: value
        for key, value in vars(tensor).items()
        if not key.startswith("_") and not isinstance(value, oplib.Tensor)
    }
    return (
        tensor.tolist(), tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
        None if is_inference else tensor._version, tensor.requires_grad, tensor.is_leaf, tensor._is_view(),
        is_inference, tensor.retains_grad, attributes,
    )  # fmt: skip
