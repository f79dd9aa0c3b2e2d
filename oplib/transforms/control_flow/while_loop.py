"""``while_loop``: a loop that goes on as long as a Tensor says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.grad_mode import recording_off
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.user_functions.function_node import refuse_gradients
from oplib.errors import ResultError, describe
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .body import Body, BodyFunction, check_carry
from .body_region import Captured
from .flow_program import FlowProgram, Outcome, Pair, call_dual, run_program, run_with_tangents, split_dual
from .leaves import flatten_leaves, require_function

_NO_REVERSE = (
    "while_loop: it has no backward. The number of turns is not known before the loop has run, so its "
    "program cannot save the values of each turn. Use oplib.scan with the largest number of turns and "
    "oplib.cond inside, or forward mode, or call while_loop under oplib.no_grad()."
)


@entry_point
def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Calls a function on its own result as long as another function returns true.

    The loop is one compiled program. Both functions obey the rules for the function of :func:`oplib.scan`.

    Args:
        cond_fn: from the carry to a Tensor with one item: whether to go on.
        body_fn: from the carry to the next one, of the same structure, shapes and dtypes.
        init: the first carry: Tensors, in any containers.

    Returns:
        The first carry for which ``cond_fn`` is false.

    Raises:
        ArgumentTypeError: the carry holds something that is no Tensor.
        ResultError: ``body_fn`` returns another carry than it gets, or ``cond_fn`` no truth value.
        AutogradError: grad mode is on, and a view is used whose history may not be read.
        TracingError: a function reads a value, draws from an outside Generator, or writes a captured Tensor.

    Gradient:
        In forward mode that of the loop. There is none in reverse mode: a backward pass that reaches the
        result raises.

    Source:
        ``jax.lax.while_loop``.

    Example:
        >>> import oplib
        >>> oplib.while_loop(lambda x: x < 100, lambda x: x * 2, oplib.tensor(3))
        tensor(192)
    """
    require_function("while_loop: 'cond_fn'", cond_fn)
    require_function("while_loop: 'body_fn'", body_fn)
    return run_with_tangents(
        lambda: _run(cond_fn, body_fn, init),
        lambda: _run(partial(_test_value, cond_fn), partial(call_dual, body_fn), split_dual(init)),
    )[0]


def _test_value(cond_fn: Callable[[Any], Any], pair: Pair) -> Any:
    return cond_fn(pair[0])


def _run(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Outcome:
    carry, layout = flatten_leaves(init, "while_loop: 'init'")
    needs_gradient = modes.grad_enabled and not modes.inference
    lost: list[Tensor] = []

    def build(captured: Sequence[Captured]) -> tuple[FlowProgram, Sequence[Body]]:
        types = tuple(jax.typeof(tensor.array) for tensor in carry)
        needs = [tensor._requires_grad for tensor in carry]
        test = BodyFunction(cond_fn, "while_loop: 'cond_fn'", (layout,), types, captured)
        turn = BodyFunction(body_fn, "while_loop: 'body_fn'", (layout,), types, captured)
        bodies = [test.trace(needs), turn.trace(needs)]  # without grad
        lost.extend((*bodies[0].lost, *bodies[1].lost))
        _check_condition(bodies[0])
        check_carry(turn.what, layout, types, bodies[1])
        return _make_program(*bodies), bodies

    with recording_off():
        outcome = run_program([cond_fn, body_fn], carry, ("while_loop", layout), build)
    # This reads each history: that of a lost view raises.
    if needs_gradient and any(list(map(gradient_edge, (*lost, *outcome.operands)))):
        outcome.results[:] = list(map(_refuse, outcome.results))
    return outcome


def _refuse(result: Tensor) -> Tensor:
    return refuse_gradients([result], _NO_REVERSE)[0] if jnp.issubdtype(result.dtype, jnp.inexact) else result


def _check_condition(test: Body) -> None:
    if len(test.types) != 1 or test.types[0].size != 1:
        raise ResultError(
            f"while_loop: 'cond_fn' returns no truth value. Got {describe(list(test.types))}. Return a "
            "Tensor with one item, such as (x > 0).all()."
        )


def _make_program(test: Body, turn: Body) -> FlowProgram:
    first, second = len(test.captured), len(test.captured) + len(turn.captured)
    decide, turn_once = test.run, turn.run  # a body holds what it has captured

    def run(*arrays: Any) -> Values:
        def go_on(carry: Any) -> Any:
            return decide(*arrays[:first], *carry)[0].reshape(()).astype(bool)

        def step(carry: Any) -> Any:
            return tuple(turn_once(*arrays[first:second], *carry))

        return jax.lax.while_loop(go_on, step, tuple(arrays[second:]))

    return FlowProgram(ArrayFunction(run, "WhileLoop"), turn.layouts, tuple([False] * len(turn.types)))
