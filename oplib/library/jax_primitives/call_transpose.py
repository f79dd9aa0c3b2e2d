"""The transpose of a call: the backward formula of the op, or the transpose of its kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.interpreters import ad

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.array_functions.masks import find_true, pick_true, spread
from oplib.errors import AutogradError
from oplib.library.batching_and_sharding.levels import Levels
from oplib.library.derivatives.equation_reader import FIXED, LINEAR, ZERO, EquationReader

from .bound_call import BoundCall
from .linear import Linear, make_linear
from .linear_primitive import find_moving, make_zero


def transpose_call(
    cotangents: Any, *args: Any, call: BoundCall, levels: Levels, call_jaxpr: Any = None, **_: Any
) -> list[Any]:
    """Transposes the primitive *op* in the operands that JAX does not know.

    Raises:
        AutogradError: the op is not linear in them: its formula reads one, or its kernel is not linear.
    """
    moves = tuple(map(ad.is_undefined_primal, args))
    inputs = [make_zero(arg.aval) if move else arg for arg, move in zip(args, moves, strict=True)]
    record = call.record
    if record.derivative.constant is not None:
        return [None] * len(args)
    if record.derivative.backward is None and (record.is_transparent or record.jvp is not None):
        grads = _transpose_kernel(call, levels, cotangents, inputs, moves)
    else:
        avals = getattr(call_jaxpr, "out_avals", None) or call.trace(levels, inputs).out_avals
        outputs = list(map(make_zero, avals))
        linear, residuals = make_linear(call, levels, moves, inputs=inputs, outputs=outputs)
        grads = _pull(linear, residuals, pick_true(cotangents, linear.differentiable))
    return spread(grads, moves)


def _transpose_kernel(
    call: BoundCall, levels: Levels, cotangents: Sequence[Any], inputs: Sequence[Any], moves: Mask
) -> Sequence[Any]:
    """Transposes a kernel that JAX differentiates, or that a jvp rule applies to tangents."""
    closed = call.trace(levels, inputs, derivable=True)
    arrives = find_moving(cotangents)
    signature = levels, moves, arrives, *closed.in_avals
    if signature not in call.checked:
        _require_linear(call, closed, moves, arrives)
        call.checked.add(signature)

    def apply(*moving: Any) -> list[Any]:
        return bind_jaxpr(closed)(*spread(moving, moves, inputs))

    zeros = pick_true(inputs, moves)
    return jax.linear_transpose(apply, *zeros)(list(map(ad.instantiate_zeros, cotangents)))


def _require_linear(call: BoundCall, closed: Any, moves: Mask, arrives: Mask) -> None:
    """Raises unless the results that have a cotangent are linear in the moving operands.

    Raises:
        AutogradError: names the operands, and the equation that is not linear.
    """
    moving = find_true(moves)
    reason = _find_nonlinear(closed, moves, moving, arrives)
    if reason is None:
        return
    alone = (index for index in moving if _find_nonlinear(closed, moves, [index], arrives))
    first = next(alone, None)
    names = [f"'{call.layout.find_argument(index)}'" for index in (moving if first is None else [first])]
    raise AutogradError(
        f"{call}: the call cannot be transposed in operand {' and '.join(names)}: {reason}. A jvp rule may "
        "apply an op to tangents where JAX can read its kernel, and the kernel is linear in them. Otherwise "
        "the op needs a backward formula (register_autograd, with linear=True for a linear op)."
    )


def _find_nonlinear(closed: Any, moves: Mask, moving: Sequence[int], arrives: Mask) -> str | None:
    """Returns the reason for which results are not linear in some operands, where others that move are zero.

    A known operand may be zeros that stand for a missing tangent, so that a sum with it is linear.
    """
    reasons: list[str | None] = []
    for known in (FIXED, ZERO):
        rest = [ZERO if move else known for move in moves]
        states = [LINEAR if index in moving else state for index, state in enumerate(rest)]
        due = pick_true(EquationReader().read(closed, states), arrives)
        free = "a result does not depend on it" if FIXED in due else None
        reasons.append(next((state for state in due if isinstance(state, str)), free))
    return None if None in reasons else reasons[0]


def _pull(linear: Linear, residuals: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
    """Runs the backward formula, if it reads known values only."""
    present = find_moving(cotangents)
    arriving = pick_true(cotangents, present)
    _require_known(linear, jax.make_jaxpr(lambda *at: linear.pull(at, arriving, present))(*residuals))
    return linear.pull(residuals, arriving, present)


def _require_known(linear: Linear, closed: Any) -> None:
    """Raises if the formula reads an operand that is transposed, or a value that was computed from it."""
    names, reader = list(_name_unknown(linear)), EquationReader()
    for index, name in enumerate(names):
        states = [LINEAR if other == index else FIXED for other in range(len(names))]
        if name is not None and not {ZERO, FIXED}.issuperset(reader.read(closed, states)):
            raise AutogradError(
                f"{linear.call}: jax.linear_transpose needs an op that is linear in the transposed operands, "
                f"and the backward formula reads {name}. Take jax.vjp at a point, or transpose in other "
                "operands."
            )


def _name_unknown(linear: Linear) -> Iterator[str | None]:
    """Gives for each residual its name if it depends on a transposed operand, and None otherwise."""
    plan, layout = linear.plan, linear.call.layout
    assert plan is not None
    inputs = [
        f"'{layout.find_argument(index)}', which is transposed" if move else None
        for index, move in enumerate(linear.wanted)
    ]
    yield from inputs[: linear.rule_residuals]
    outputs = ["a result, which is not known"] * len(plan.outputs)
    pool = [*inputs, *outputs]
    is_unknown = any(pool[index] is not None for index in plan.extra_reads)
    intermediate = "a value that was computed from transposed operands" if is_unknown else None
    yield from (pool[source] if source < len(pool) else intermediate for source in plan.sources)
