"""``test_forward_mode``: whether tangents agree with gradients, and a jvp rule with finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from oplib.autograd.gradcheck.comparison import Options
from oplib.autograd.gradcheck.coordinates import from_coordinates, to_coordinates
from oplib.errors import MissingRuleError, OpMismatchError
from oplib.library.derivatives.jvp_rule import call_jvp_rule

from .comparison import Tolerance, require_equal
from .gradient_check import DOUBLE, SINGLE, keeps_double, to_double_array, within
from .sample import Sample, draw_like, flatten, only_arrays


def check_forward_mode(sample: Sample, tolerance: Tolerance) -> str | None:
    """Compares ``v·(J u)`` of forward mode with ``(Jᵀ v)·u`` of the backward, for random ``u`` and ``v``.

    A registered jvp rule is also compared with central differences, unless the derivative is a surrogate. Of
    an op that is declared linear, values at sums are compared with sums of values.

    Returns:
        The reason, if nothing was compared.

    Raises:
        OpMismatchError: they differ.
    """
    record = sample.overload.record
    reason = sample.explain_no_derivative()
    if reason is None and record.jvp is None and record.derivative.nonlinear:
        reason = "the formula is declared nonlinear, so no forward mode is derived from it"
    if reason is not None:
        return reason
    with jax.enable_x64(True):
        if keeps_double(sample):
            return _compare(sample, list(map(to_double_array, sample.arrays)), within(tolerance, DOUBLE))
    return _compare(sample, sample.arrays, within(tolerance, SINGLE))


def _find_worst(actual: Any, expected: Any, options: Options) -> int | None:
    """Returns the index of the number that differs most; None if all are close."""
    close = _are_close(actual, expected, options)
    return None if close.all() else int(np.argmax(np.where(close, -1, np.abs(actual - expected))))


def _are_close(actual: Any, expected: Any, options: Options) -> Any:
    return np.abs(actual - expected) <= options.atol + options.rtol * np.abs(expected)


def _compare(sample: Sample, arrays: Sequence[Any], options: Options) -> str | None:
    call, point = sample.as_function(arrays)
    directions = draw_like(point, seed=0)
    try:
        outputs, tangents = jax.jvp(call, tuple(point), tuple(directions))
    except MissingRuleError as error:
        return f"there is no forward mode: {str(error).splitlines()[0]}"
    if sample.overload.record.is_linear:
        _check_linearity(sample, call, point, (directions, outputs), options=options)
    if sample.has_backward and not sample.overload.record.derivative.nonlinear:
        _compare_with_backward(sample, call, point, (directions, outputs, tangents), options=options)
    if sample.overload.record.jvp is not None:
        _compare_outputs(sample, arrays, directions, options=options)
        if not sample.overload.record.derivative.surrogate:
            _compare_with_differences(sample, call, point, (directions, tangents), options=options)
    return None


def _check_linearity(
    sample: Sample, call: Any, point: Sequence[Any], moved: tuple[Any, Any], *, options: Options
) -> None:
    """Compares A(2 x - u/2) with 2 A x - A u / 2, which finds an offset too."""
    directions, outputs = moved
    pairs = zip(point, directions, strict=True)
    combined = call(*(2 * array - direction / 2 for array, direction in pairs))
    for index, (left, first, second) in enumerate(zip(combined, outputs, call(*directions), strict=True)):
        actual, due = to_coordinates(left), 2 * to_coordinates(first) - to_coordinates(second) / 2
        worst = _find_worst(actual, due, options)
        if worst is not None:
            raise OpMismatchError(
                f"{sample.overload.name()}: the op is declared linear, and is not. Output {index} at "
                f"2 x - u/2, for a random u, is {actual[worst]:.7g}, and the same sum of its values at x and "
                f"u is {due[worst]:.7g}. Correct the kernel, or leave out linear=True."
            )


def _compare_with_backward(
    sample: Sample, call: Any, point: Sequence[Any], pushed: tuple[Any, Any, Any], *, options: Options
) -> None:
    directions, outputs, tangents = pushed
    cotangents = draw_like(outputs, seed=100)
    gradients = jax.vjp(call, *point)[1](cotangents)
    forward = _multiply(cotangents, tangents)
    backward = _multiply(gradients, directions)
    if _are_close(forward, backward, options):
        return
    if sample.overload.record.is_linear:
        raise OpMismatchError(
            f"{sample.overload.name()}: the backward formula is not the adjoint of the op, which is declared "
            f"linear. For random x and y, Re<A x, y> is {forward:.7g} by the kernel, and Re<x, A* y> is "
            f"{backward:.7g} by the formula. Correct the formula: for a complex matrix it multiplies by the "
            "conjugate transpose."
        )
    raise OpMismatchError(
        f"{sample.overload.name()}: forward mode and the backward contradict each other. For random "
        f"directions v·(J u) is {forward:.7g} by the tangents, and (Jᵀ v)·u is {backward:.7g} by the "
        "gradients. Correct the jvp rule or the formula; test_gradients shows which one is wrong."
    )


def _compare_outputs(
    sample: Sample, arrays: Sequence[Any], directions: Sequence[Any], *, options: Options
) -> None:
    """Compares the results of the op with those of its jvp rule, which differentiated calls return."""
    record = sample.overload.record
    tangents = sample.put(directions, [None] * len(arrays))
    outputs, _ = call_jvp_rule(record, sample.layout, arrays, tangents)
    require_equal(
        only_arrays(flatten(outputs)),
        only_arrays(sample.call_arrays(arrays)),
        Tolerance(options.rtol, options.atol),
        f"{record.name}: the outputs are different by the jvp rule and by the kernel",
        advice="Correct the function registered with register_jvp.",
    )


def _compare_with_differences(
    sample: Sample, call: Any, point: Sequence[Any], pushed: tuple[Any, Any], *, options: Options
) -> None:
    directions, tangents = pushed
    steps = options.eps, -options.eps
    above, below = (call(*map(partial(_move, step), point, directions)) for step in steps)
    for index, (high, low, tangent) in enumerate(zip(above, below, tangents, strict=True)):
        numerical = (to_coordinates(high) - to_coordinates(low)) / (2 * options.eps)
        actual = to_coordinates(tangent)
        worst = _find_worst(actual, numerical, options)
        if worst is not None:
            raise OpMismatchError(
                f"{sample.overload.name()}: the jvp rule is wrong. The tangent of output {index} along a "
                f"random direction is {actual[worst]:.7g}, and by finite differences {numerical[worst]:.7g}. "
                "Correct the function registered with register_jvp."
            )


def _multiply(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Returns the real part of the sum of products, which transposition preserves in JAX's convention."""
    pairs = zip(first, second, strict=True)
    return float(sum(np.sum(np.asarray(left) * np.asarray(right)).real for left, right in pairs))


def _move(step: float, array: Any, direction: Any) -> Any:
    return from_coordinates(to_coordinates(array) + step * to_coordinates(direction), array)
