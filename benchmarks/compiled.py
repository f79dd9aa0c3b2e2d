"""Compiled backward passes; and a registered op inside jit, against one by hand with ``jax.custom_vjp``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import oplib

from .applied_functions import measure_functions
from .cases import apply_twice, chaining, compiling, differentiate
from .compiled_backward import measure_backward
from .flash_attention import attention_by_hand, attention_op
from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, soft_product_by_hand, soft_product_op
from .table import Row

TITLE = "compiled: backward passes; ops inside jax.jit, against hand-written jax.custom_vjp"
CONTROL = "jax.custom_vjp"
SHAPE = (128, 128)
CHAINS = (50, 300)
TRACED_CHAINS = (1, 50, 300)
_OPCODE = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = \S+ ([\w-]+)\(", re.MULTILINE)


def measure(effort: Effort) -> Iterator[Row]:
    """Yields run and compile times, plain and differentiated, and the rows of compiled backward passes."""
    arrays = make_arrays(2, SHAPE)
    for name, wrap in (("jit", apply_twice), ("jit(grad)", differentiate)):
        mine, its = wrap(soft_product_op), wrap(soft_product_by_hand)
        note, exact = _compare_programs(jax.jit(mine), jax.jit(its), arrays)
        times = compare(Case(jax.jit(mine), *arrays), Case(jax.jit(its), *arrays), effort)
        yield Row(f"in {name}: running", CONTROL, 1.03, times, note=note, exact=exact)
    for name, wrap in (("jit", apply_twice), ("jit(grad)", differentiate)):
        times = compare(compiling(wrap(soft_product_op)), compiling(wrap(soft_product_by_hand)), effort)
        yield Row(f"in {name}: tracing and compiling a new shape", CONTROL, None, times)
    for number in CHAINS:
        times = compare(chaining(soft_product_op, number), chaining(soft_product_by_hand, number), effort)
        yield Row(f"in jit(grad): tracing and compiling {number} calls", CONTROL, 1.1, times)
    for number in TRACED_CHAINS:
        mine, its = (
            chaining(op, number, is_compiled=False) for op in (soft_product_op, soft_product_by_hand)
        )
        yield Row(f"in jit(grad): tracing alone {number} calls", CONTROL, 1.3, compare(mine, its, effort))
    times = compare(*(Case(make, arrays[0]) for make in (_use_local_op, _use_local_function)), effort)
    yield Row("a local op, defined and differentiated eagerly", CONTROL, 4.0, times)
    yield _measure_attention(effort)
    yield from measure_backward(effort)
    yield from measure_functions(effort)  # last, for older commits refuse them


def _measure_attention(effort: Effort) -> Row:
    arrays = make_arrays(3, (256, 32))
    mine, its = (
        jax.jit(jax.grad(lambda *given, op=op: op(*given).sum(), argnums=(0, 1, 2)))
        for op in (attention_op, attention_by_hand)
    )
    note, exact = _compare_programs(mine, its, arrays)
    times = compare(Case(mine, *arrays), Case(its, *arrays), effort)
    name = "flash attention with its log-sum-exp, in jit(grad): running"
    return Row(name, CONTROL, 1.05, times, note=note, exact=exact)


def _use_local_op(x: jax.Array) -> jax.Array:
    @oplib.custom_op
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 2

    sine.register_autograd(
        lambda ctx, g: g * 2 * jnp.cos(*ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # noqa: ARG005  the contract
    )
    return jax.grad(lambda x: sine(x).sum())(x)


def _use_local_function(x: jax.Array) -> jax.Array:
    @jax.custom_vjp
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 2

    sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * 2 * jnp.cos(x),))
    return jax.grad(lambda x: sine(x).sum())(x)


def _compare_programs(mine: Any, its: Any, arrays: list[jax.Array]) -> tuple[str, bool]:
    """Compares the number of each operation in the optimised programs."""
    counts = [count_operations(f.lower(*arrays).compile().as_text()) for f in (mine, its)]
    if counts[0] == counts[1]:
        return f"the same optimised HLO: {counts[0].total()} operations", True
    more, less = counts[0] - counts[1], counts[1] - counts[0]
    return f"another optimised HLO: {dict(more)} more, {dict(less)} less than by hand", False


def count_operations(hlo: str) -> Counter[str]:
    """Counts the operations of a program in XLA's text form, by their name."""
    return Counter(_OPCODE.findall(hlo))
