"""``cond``: one of two functions, as a Tensor decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.residual_function import ResidualFunction
from oplib.errors import ArgumentTypeError, describe
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Tensor, box
from oplib.tracebacks import entry_point

from .body import Body, BodyFunction
from .body_region import Captured
from .effectful_function import EffectfulFunction
from .flow_program import FlowProgram, Outcome, call_dual, run_program, run_with_tangents, split_dual
from .leaves import compare, flatten_leaves, require_function


@entry_point
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """Calls one of two functions. A Tensor decides which one; its value is not read in Python.

    Both functions are traced, and one of them runs. The call is one compiled program and one node on the
    tape. Both functions obey the rules for the function of :func:`oplib.scan`. Under ``vmap`` both run, and
    each example takes the result of one.

    Args:
        pred: a Tensor with one item, or a bool; a number counts as true if it is not 0.
        true_fn: called with the operands if ``pred`` is true.
        false_fn: called with them if it is not. Both return the same structure, shapes and dtypes.
        *operands: Tensors, in any containers.

    Returns:
        The result of the function.

    Raises:
        ArgumentTypeError: ``pred`` is no Tensor with one item; an operand or a result holds something that is
            no Tensor.
        ResultError: the functions return different structures, shapes or dtypes.
        TracingError: a function reads a value, draws from an outside Generator, or writes a captured Tensor.

    Gradient:
        The gradient of the function that runs; zeros by Tensors that only the other one reads.

    Source:
        ``jax.lax.cond``.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([3.0, -4.0])
        >>> oplib.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x)
        tensor([-3.,  4.])
    """
    require_function("cond: 'true_fn'", true_fn)
    require_function("cond: 'false_fn'", false_fn)
    decision = _read_pred(pred)
    pairs = partial(call_dual, true_fn), partial(call_dual, false_fn)
    return run_with_tangents(
        lambda: _run(decision, true_fn, false_fn, operands),
        lambda: _run(decision, *pairs, tuple(map(split_dual, operands))),
    )[0]


def _run(pred: Tensor, true_fn: AnyFunction, false_fn: AnyFunction, operands: Values) -> Outcome:
    flat = [flatten_leaves(operand, "cond: an operand") for operand in operands]
    tensors = [tensor for members, _ in flat for tensor in members]
    layouts = tuple(layout for _, layout in flat)

    def build(captured: Sequence[Captured]) -> tuple[FlowProgram, Sequence[Body]]:
        types = tuple(jax.typeof(tensor.array) for tensor in tensors)
        needs = [tensor._requires_grad for tensor in tensors]
        pairs = ((true_fn, "cond: 'true_fn'"), (false_fn, "cond: 'false_fn'"))
        bodies = [
            BodyFunction(function, what, layouts, types, captured).trace(needs) for function, what in pairs
        ]
        yes, no = bodies
        subject = "cond: 'false_fn' returns something else than 'true_fn'"
        cure = "Return the same structure, shapes and dtypes from both functions"
        compare(yes.layouts[0], yes.types, no.layouts[0], no.types, subject, cure)
        return _make_program(yes, no), bodies

    return run_program([true_fn, false_fn], [pred, *tensors], ("cond", layouts), build)


def _make_program(yes: Body, no: Body) -> FlowProgram:
    first, second = len(yes.captured), len(yes.captured) + len(no.captured)
    call_true, call_false = yes.run, no.run  # a body holds what it has captured

    def run(*arrays: Any) -> Values:
        pred, *operands = arrays[second:]

        return jax.lax.cond(
            pred.reshape(()).astype(bool),
            lambda captured, _, operands: tuple(call_true(*captured, *operands)),
            lambda _, captured, operands: tuple(call_false(*captured, *operands)),
            arrays[:first],
            arrays[first:second],
            operands,
        )

    flags = tuple(flag or other for flag, other in zip(yes.requires_grad, no.requires_grad, strict=True))
    kind = EffectfulFunction if yes.has_effects or no.has_effects else ResidualFunction
    return FlowProgram(kind(run, "Cond"), yes.layouts, flags)


def _read_pred(pred: Any) -> Tensor:
    """Returns the predicate as a Tensor without history.

    Raises:
        ArgumentTypeError: it is nothing of one item.
    """
    if isinstance(pred, (bool, int, float, np.bool_, np.number, np.ndarray, jax.Array)):
        pred = box(jnp.asarray(pred))
    if not isinstance(pred, Tensor) or pred.numel() != 1:
        raise ArgumentTypeError(
            f"cond: 'pred' is not one truth value. Got {describe(pred)}, of type {type(pred).__name__}. "
            "Give a Tensor with one item, such as (x > 0).all()."
        )
    return pred._share()
