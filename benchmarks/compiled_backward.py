"""Backward passes under compiled autograd: against torch, and against the same passes op by op."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from itertools import count
from operator import mul
from typing import Any

import jax

import oplib
from oplib.autograd import compiled_autograd

from .rounds import Case, Effort, compare
from .table import Row

LINKS = 100
WALKED, LONG, LONGEST = 1_000, 10_000, 50_000


def measure_backward(effort: Effort) -> Iterator[Row]:
    """Yields the rows of compiled backward passes."""
    yield _compare_with_torch(effort)
    yield from _compare_steps(effort)
    first = compare(Case(_first_call), Case(_first_call_by_hand), effort)
    yield Row(f"first call of {LINKS} products", "compiling the same in jax.jit", 1.4, first)
    hooked = compare(Case(_compiled, _chain, True), Case(_compiled, _chain, False), effort)
    yield Row("one hook in the middle of 100 nodes", "no hook", 1.3, hooked)
    yield from _compare_lengths(effort)


def _chain(hooked: bool, length: int = LINKS) -> None:
    """Runs a chain of products forward and backward."""
    x, factor = _operands()
    x.grad = None
    value = x
    for link in range(length):
        value = mul(value, factor)
        if hooked and link == length // 2:
            value.register_hook(_pass_on)
    value.backward(factor)


_held: list[Any] = []


def _operands() -> list[Any]:
    if not _held:
        _held.extend([oplib.randn(8, 8, requires_grad=True), oplib.full((8, 8), 1.0001)])
    return _held


def _pass_on(grad: Any) -> None:
    """Does nothing, as a hook."""


def _compiled(step: Callable[..., None], *arguments: Any) -> None:
    with compiled_autograd.enable():
        step(*arguments)


def _compare_with_torch(effort: Effort) -> Row:
    what = f"{LINKS} chained multiplications, the backward compiled"
    if importlib.util.find_spec("torch") is None:
        return Row(what, "torch eager", 1.5, note="torch is not importable: install the extra 'bench'")
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    x, factor = torch.randn(8, 8, requires_grad=True), torch.full((8, 8), 1.0001)

    def run() -> None:
        x.grad = None
        value = x
        for _ in range(LINKS):
            value = mul(value, factor)
        value.backward(factor)

    by_jax = compare(Case(_hold_products, LINKS), Case(run), effort)
    note = f"bare jit calls of the forward alone: {by_jax.ratio_of_minima:.2f}"
    return Row(
        what, "torch eager", 1.5, compare(Case(_compiled, _chain, False), Case(run), effort), note=note
    )


def _compare_steps(effort: Effort) -> Iterator[Row]:
    for name, step in (("MLP", _make_mlp()), ("transformer block", _make_block())):
        times = compare(Case(_compiled, step), Case(step), effort)
        yield Row(f"a step of the {name}, its backward compiled", "the backward op by op", 0.85, times)


def _make_mlp() -> Callable[[], None]:
    weights = [oplib.randn(64, 64).mul_(0.1).requires_grad_() for _ in range(4)]
    biases = [oplib.zeros(64, requires_grad=True) for _ in range(4)]
    data = oplib.randn(32, 64)

    def step() -> None:
        hidden = data
        for weight, bias in zip(weights, biases, strict=True):
            weight.grad = bias.grad = None
            hidden = (hidden @ weight + bias).tanh()
        (hidden * hidden).mean().backward()

    return step


def _make_block() -> Callable[[], None]:
    size = 64
    query, key, value, out = (oplib.randn(size, size).mul_(0.1).requires_grad_() for _ in range(4))
    up, down = (
        oplib.randn(size, 4 * size).mul_(0.1).requires_grad_(),
        oplib.randn(4 * size, size).mul_(0.1).requires_grad_(),
    )
    data = oplib.randn(4, 32, size)

    def step() -> None:
        for weight in (query, key, value, out, up, down):
            weight.grad = None
        weights = ((data @ query) @ (data @ key).transpose(-1, -2) * size**-0.5).softmax(-1)
        hidden = data + weights @ (data @ value) @ out
        hidden = hidden + oplib.nn.functional.gelu(hidden @ up) @ down
        (hidden * hidden).mean().backward()

    return step


_widths = count(9)


def _first_call() -> None:
    """Runs one backward of a new shape. Its forward is compiled in the same call."""
    width = next(_widths)
    x, factor = oplib.ones(8, width, requires_grad=True), oplib.ones(8, width)
    value = x
    for _ in range(LINKS):
        value = mul(value, factor)
    with compiled_autograd.enable():
        value.backward(factor)


def _first_call_by_hand() -> None:
    """Compiles the same backward by hand, behind the same forward."""
    width = next(_widths)
    x, factor = oplib.ones(8, width, requires_grad=True), oplib.ones(8, width)
    value = x
    for _ in range(LINKS):
        value = mul(value, factor)

    def pull(grad: Any, array: Any) -> Any:
        for _ in range(LINKS):
            grad = grad * array
        return grad

    jax.block_until_ready(jax.jit(pull)(factor.array, factor.array))


def _compare_lengths(effort: Effort) -> Iterator[Row]:
    start = time.perf_counter()
    _compiled(_chain, False, LONG)
    first = time.perf_counter() - start
    yield Row(f"first call of {LONG:,} nodes", "none", 30.0, seconds=first)
    per_node = compare(_case_of_length(LONG), _case_of_length(LINKS), effort)
    long, short = (Case(_hold_products, length, units=length) for length in (LONG, LINKS))
    by_jax = compare(long, short, effort)
    note = f"bare jit calls that hold their results: {by_jax.ratio_of_minima:.2f}"
    yield Row(f"a node of {LONG:,}, compiled", "a node of 100", 1.5, per_node, note=note)
    start = time.perf_counter()
    _compiled(_chain, False, LONGEST)
    yield Row(f"first call of {LONGEST:,} nodes", "none", 30.0, seconds=time.perf_counter() - start)


_multiply = jax.jit(mul)


def _hold_products(length: int) -> Any:
    """Calls a chain of products as bare compiled calls, and holds their results as a tape does."""
    factor = _operands()[1].array
    products = [factor]
    for _ in range(length):
        products.append(_multiply(products[-1], factor))
    return products[-1]


def _case_of_length(length: int) -> Case:
    return Case(_compiled, _chain, False, length, units=length)
