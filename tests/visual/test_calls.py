"""The calls of a recording: each node stands in the call that recorded it, and calls in their callers."""

from __future__ import annotations

import contextlib
import contextvars
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import oplib
from oplib.visual import read_nodes
from oplib.visual.calls import Item, UserCall, find_calls

_open: contextvars.ContextVar[list[Any]] = contextvars.ContextVar("_open")


def show(items: Sequence[Item]) -> list[Any]:
    """Returns calls as lists that begin with the name of the function, and nodes as ops."""
    return [
        [item.code and item.code.co_qualname.rpartition("<locals>.")[2], *show(item.items)]
        if isinstance(item, UserCall)
        else item.op
        for item in items
    ]


def find(loss: Any) -> list[Any]:
    return show(find_calls([node for node in reversed(read_nodes(loss)) if not node.is_leaf]))


W = oplib.eye(3, requires_grad=True)


def norm(x: Any) -> Any:
    return x / x.square().mean().sqrt()


def linear(x: Any) -> Any:
    return x @ W + 1.0


NORM = ["norm", "square", "mean", "sqrt", "div"]
LINEAR = ["linear", "matmul", "add"]


def test_calls_before_between_and_after_the_nodes_of_a_function_are_in_its_call() -> None:
    def block(x: Any) -> Any:
        x = x + linear(norm(x))
        return linear(norm(x).tanh())

    def main() -> Any:
        x = W * 2
        for _ in range(2):
            x = block(x)
        return norm(x).sum()

    inner = ["block", NORM, LINEAR, "add", NORM, "tanh", LINEAR]
    assert find(main()) == [["main", "mul", inner, inner, NORM, "sum"]]


def test_two_calls_in_a_row_are_two_and_a_loop_in_a_call_is_in_one() -> None:
    def loop(x: Any) -> Any:
        for _ in range(3):
            x = x.sin() * 2
        return x.exp()

    def main() -> Any:
        return loop(loop(W)).sum()

    one = ["loop", *["sin", "mul"] * 3, "exp"]
    assert find(main()) == [["main", one, one, "sum"]]


def test_objects_that_are_called_and_their_methods_have_their_calls() -> None:
    class Norm:
        def __call__(self, x: Any) -> Any:
            return norm(x) * 2

    class Block:
        def __init__(self) -> None:
            self.norm, self.layers = Norm(), [linear, norm]

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            for layer in self.layers:
                y = layer(y)
            return x + y

    blocks = [Block(), Block()]

    def main() -> Any:
        x = W * 1
        for block in blocks:
            x = block.forward(x)
        return x.sum()

    inner = ["Block.forward", ["Norm.__call__", NORM, "mul"], LINEAR, NORM, "add"]
    assert find(main()) == [["main", "mul", inner, inner, "sum"]]


def test_what_a_generator_or_a_lambda_calls_is_in_the_function_around_it() -> None:
    def heads(x: Any) -> Any:
        a, b = (linear(x) for _ in range(2))
        return a * b

    def given(function: Any, x: Any) -> Any:
        return function(x) - 1

    def main() -> Any:
        return given(lambda x: linear(x), heads(W)).sum()

    assert find(main()) == [["main", ["heads", LINEAR, LINEAR, "mul"], ["given", LINEAR, "sub"], "sum"]]


def test_a_function_that_takes_another_branch_in_its_next_call_is_called_twice() -> None:
    def activate(x: Any, *, smooth: bool) -> Any:
        if smooth:
            return x.sigmoid() * x
        return x.relu() * 2

    def main() -> Any:
        return activate(linear(activate(W, smooth=True)), smooth=False).sum()

    first, second = ["activate", "sigmoid", "mul"], ["activate", "relu", "mul"]
    assert find(main()) == [["main", first, LINEAR, second, "sum"]]


def test_a_tensor_that_is_unpacked_leaves_its_call_one() -> None:
    def split(x: Any) -> Any:
        a, b, c = x.exp()
        return a + b * c

    def main() -> Any:
        return split(split(W).expand(3, 3)).sum()

    (found,) = find(main())
    calls = [item for item in found if isinstance(item, list)]
    assert [call[0] for call in calls] == ["split", "split"]
    assert all(call.count(call[2]) == 3 for call in calls)


def test_nodes_without_a_line_are_beside_each_other() -> None:
    with oplib.autograd.graph.record_locations(False):
        loss = norm(W).sum()
    assert find(loss) == [[None, "square", "mean", "sqrt", "div", "sum"]]


@contextlib.contextmanager
def noting(name: str) -> Iterator[list[Any]]:
    """Notes the call that a function is in, as the truth that the picture is compared with."""
    around, inner = _open.get(), [name]
    around.append(inner)
    token = _open.set(inner)
    try:
        yield inner
    finally:
        _open.reset(token)


def write_program(rng: random.Random) -> str:
    """Returns functions that call each other: each names its ops and calls to `noting`."""
    lines: list[str] = []
    for number in range(6):
        lines += [f"def f{number}(x):", f"    with noting('f{number}') as note:"]
        has_node = False
        for _ in range(rng.randint(2, 4)):
            callee = rng.randrange(number) if number else None
            if callee is None or rng.random() < 0.5:
                lines += ["        note.append('sin'); x = x.sin()"]
                has_node = True
            elif rng.random() < 0.3:
                sin = "        note.append('sin'); x = x.sin()"  # it says where the loop begins and ends
                lines += [sin, f"        for _ in range(2): x = f{callee}(x)", sin]
            else:
                lines += [f"        x = f{callee}(x)"]
        if not has_node:
            lines += ["        note.append('exp'); x = x.exp()"]
        lines += ["    return x"]
    return "\n".join([*lines, "def main(x):", "    return f5(x.tanh()).sum()"])


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_have_the_calls_that_they_made(seed: int) -> None:
    names: dict[str, Any] = {"noting": noting}
    exec(compile(write_program(random.Random(seed)), f"program{seed}.py", "exec"), names)
    truth: list[Any] = []
    token = _open.set(truth)
    try:
        loss = names["main"](oplib.ones(2, requires_grad=True))
    finally:
        _open.reset(token)
    assert find(loss) == [["main", "tanh", *truth, "sum"]]
