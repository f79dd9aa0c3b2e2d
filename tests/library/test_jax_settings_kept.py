"""JAX's settings mean after a call of oplib what they meant before it, in code that is JAX's alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.autograd import Function
from oplib.library import custom_op
from tests.memory import hide_older

pytestmark = pytest.mark.usefixtures("forget_ops", "few_objects")

ONES = jnp.ones(3)
log, invert = jax.jit(lambda x: jnp.log(x)), jax.jit(lambda x: 1 / x)


@pytest.fixture
def few_objects() -> None:
    """Hides the objects from before: JAX looks for a leaked tracer among all of them, at each trace."""
    hide_older()


class Sine(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()


def make_op(kind: str) -> Any:
    def on_arrays(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def on_host(x: np.ndarray) -> np.ndarray:
        return np.sin(x)

    if kind in ("builtin", "Function"):
        return oplib.sin if kind == "builtin" else Sine.apply
    op = custom_op(f"kept::{kind}", on_host if kind == "host" else on_arrays)
    if kind == "derive":
        op.register_autograd("derive")
        return op
    op.register_fake(lambda x: x)
    op.register_autograd(
        lambda ctx, g: g * jnp.cos(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


OPS = ["formula", "derive", "host", "builtin", "Function"]


def make_leaf() -> Tensor:
    return Tensor.from_array(ONES, requires_grad=True)


def on_arrays(op: Any) -> Callable[[Any], Any]:
    return lambda x: op(Tensor.from_array(x)).array


def twice(op: Any) -> Any:
    x = make_leaf()
    (slope,) = oplib.autograd.grad(op(x).sum(), x, create_graph=True)
    return oplib.autograd.grad(slope.sum(), x)


def jit_backward(op: Any) -> None:
    step = oplib.jit(lambda x: op(x).sum())
    step(make_leaf())
    step(make_leaf()).backward()


CALLS: dict[str, Callable[[Any], Any]] = {
    "call": lambda op: op(make_leaf()),
    "arrays": lambda op: on_arrays(op)(ONES),
    "backward": lambda op: op(make_leaf()).sum().backward(),
    "oplib.jit": jit_backward,
    "jax.jit": lambda op: jax.jit(on_arrays(op))(ONES),
    "checkpoint": lambda op: (
        oplib.utils.checkpoint.checkpoint(op, make_leaf(), use_reentrant=False).sum().backward()
    ),
}
OF_JAX: dict[str, Callable[[Any], Any]] = {
    "second backward": twice,
    "grad": lambda op: jax.grad(lambda x: on_arrays(op)(x).sum())(ONES),
    "jvp": lambda op: jax.jvp(on_arrays(op), (ONES,), (ONES,)),
    "hessian": lambda op: jax.hessian(lambda x: on_arrays(op)(x).sum())(ONES),
    "vmap": lambda op: jax.vmap(on_arrays(op))(ONES),
    "oplib.vmap": lambda op: oplib.vmap(op)(make_leaf()),
    "scan": lambda op: oplib.scan(lambda c, x: (c, op(x)), oplib.zeros(()), make_leaf())[1].sum().backward(),
    "cond": lambda op: oplib.cond(make_leaf().sum() > 0, op, lambda x: x, make_leaf()).sum().backward(),
}
"""Calls in which JAX evaluates jitted functions under its own transformations."""


def find_error(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001  a setting may refuse the call
        return type(error).__name__
    return "no error"


def counts_compilations() -> bool:
    seen: list[Any] = []
    handler = logging.Handler()
    handler.emit = seen.append
    logger = logging.getLogger("jax")
    logger.addHandler(handler)
    try:
        jax.jit(lambda x: x + 1)(ONES)
    finally:
        logger.removeHandler(handler)
    return bool(seen)


def leak() -> None:
    kept: list[Any] = []
    jax.jit(lambda x: kept.append(x) or x)(ONES)


def is_traced() -> bool:
    seen: list[bool] = []
    jax.jit(lambda x: seen.append(isinstance(x, jax.core.Tracer)) or x)(ONES)
    return seen[0]


def block(name: str, value: Any) -> Any:
    own = {"jax_check_tracer_leaks": jax.checking_leaks, "jax_disable_jit": jax.disable_jit}
    return own.get(name) or (lambda: getattr(jax, name.removeprefix("jax_"))(value))


@contextmanager
def update(name: str, value: Any) -> Iterator[None]:
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


SETTINGS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "jax_debug_nans": (True, lambda: find_error(lambda: log(-ONES))),
    "jax_debug_infs": (True, lambda: find_error(lambda: invert(0 * ONES))),
    "jax_enable_checks": (True, lambda: jax.config.jax_enable_checks),  # pyright: ignore[reportAttributeAccessIssue]
    "jax_check_tracer_leaks": (True, lambda: find_error(leak)),
    "jax_log_compiles": (True, counts_compilations),
    "jax_disable_jit": (True, is_traced),
    "jax_transfer_guard": ("disallow", lambda: find_error(lambda: jnp.sin(np.ones(3)))),
    "jax_numpy_rank_promotion": (
        "raise",
        lambda: find_error(lambda: jnp.ones((2, 1)) + jnp.ones((2, 2, 2))),
    ),
}


def probe_around(
    call: Callable[[Any], Any],
    setting: Any,
    probe: Callable[[], Any],
    kinds: Sequence[str] = ("formula", "builtin", "Function"),
) -> list[Any]:
    """Returns what JAX alone does before the calls, after each of two, and without the setting.

    A thread of its own has settings that no other test has changed.
    """
    seen: list[Any] = []

    def run() -> None:
        for warm in (log, invert):
            warm(ONES)
        other = probe()
        ops = [make_op(kind) for kind in kinds]
        with setting():
            seen.append(probe())
            for op in ops:
                for _ in range(2):
                    find_error(lambda op=op: call(op))
                    seen.append(probe())
        seen.append(other)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("call", [*CALLS, *OF_JAX])
def test_in_a_block_each_setting_means_the_same_after_each_call(call: str, name: str) -> None:
    value, probe = SETTINGS[name]
    *seen, without = probe_around((CALLS | OF_JAX)[call], block(name, value), probe)
    assert seen[0] != without
    assert seen == [seen[0]] * len(seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("call", CALLS)
def test_a_setting_for_the_process_means_the_same_after_each_call(call: str, name: str) -> None:
    value, probe = SETTINGS[name]
    *seen, without = probe_around(CALLS[call], lambda: update(name, value), probe)
    assert seen[0] != without
    assert seen == [seen[0]] * len(seen)


def test_debug_nans_for_the_process_stays_after_an_op_and_after_its_backward() -> None:
    def use(op: Any) -> None:
        op(make_leaf()).sum().backward()

    probe = SETTINGS["jax_debug_nans"][1]
    *seen, without = probe_around(use, lambda: update("jax_debug_nans", True), probe, OPS)
    assert (set(seen), without) == ({"FloatingPointError"}, "no error")


def run_backward(function: Callable[[Any], Any], x: Tensor) -> None:
    function(x).sum().backward()


@pytest.mark.parametrize("setting", [lambda: update("jax_debug_nans", True), lambda: jax.debug_nans(True)])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_a_nan_is_found_in_each_kind_of_call_and_the_op_is_named(is_warm: bool, setting: Any) -> None:
    @custom_op("kept::log", autograd="derive")
    def op(x: jax.Array) -> jax.Array:
        return jnp.log(x)

    program = oplib.jit(lambda x: op(x) * 2)
    root = oplib.jit(lambda x: x.sqrt() * 0)
    calls: list[tuple[Callable[[Tensor], Any], float, str]] = [
        (lambda x: op(x.array), -1.0, "kept::log|log"),
        (op, -1.0, "kept::log|log"),
        (lambda x: x.log(), -1.0, "oplib::log"),
        (program, -1.0, "kept::log|log"),
        (lambda x: jax.grad(lambda v: op(v).sum())(x.array), -1.0, "kept::log|log"),
        (lambda x: run_backward(lambda x: x.sqrt() * 0, x), 0.0, "div"),
        (lambda x: run_backward(root, x), 0.0, "div|sqrt"),
    ]
    for call, value, name in calls:

        def run(call: Any = call, value: float = value) -> None:
            if is_warm:
                call(make_leaf())
                call(make_leaf())
            with setting():
                call(Tensor.from_array(jnp.full(3, value), requires_grad=True))

        with ThreadPoolExecutor(1) as thread, pytest.raises(FloatingPointError, match=name):
            thread.submit(run).result()


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_a_nan_in_a_compiled_step_names_the_line_and_how_to_find_the_operands(is_warm: bool) -> None:
    def run_forward(x: Tensor) -> Tensor:
        return (x.sqrt() * 0).log()  # line of the forward

    def step(x: Tensor) -> None:
        loss = (x.sqrt() * 0).sum()
        loss.backward()  # line of the backward

    def loop(x: Tensor) -> Any:
        return oplib.scan(lambda carry, item: (carry, item.log()), oplib.ones(()), x)[1]  # line of the loop

    root = oplib.jit(lambda x: (x.sqrt() * 0).sum())
    calls: list[tuple[Callable[[Tensor], Any], float, str]] = [
        (oplib.jit(run_forward), -1.0, "in run_forward: .*# line of the forward"),
        (oplib.jit(step), 0.0, "in step: .*# line of the backward"),
        (oplib.jit(loop), -1.0, "# line of the loop"),
        (lambda x: root(x).backward(), 0.0, "The forward call was at .*in <lambda>"),
    ]
    for call, value, line in calls:

        def run(call: Any = call, value: float = value) -> None:
            if is_warm:
                call(make_leaf())
            with jax.debug_nans(True):
                call(Tensor.from_array(jnp.full(3, value), requires_grad=True))

        with ThreadPoolExecutor(1) as thread, pytest.raises(FloatingPointError) as caught:
            thread.submit(run).result()
        notes = caught.value.__notes__
        assert any(re.search(line, note) for note in notes), notes
        assert sum("oplib.visual.first_nan(step, *args)" in note for note in notes) == 1


def test_a_nan_in_a_compiled_pass_says_how_to_find_the_call() -> None:
    x = Tensor.from_array(0 * ONES, requires_grad=True)
    with (
        oplib.autograd.compiled_autograd._enable(oplib.jit),
        jax.debug_nans(True),
        pytest.raises(FloatingPointError) as caught,
    ):
        (x.sqrt() * 0).sum().backward()
    assert any("first_nan(step" in note for note in caught.value.__notes__)
