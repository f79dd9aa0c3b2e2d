"""``test_gradients`` and ``test_second_gradients``: whether formulas agree with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.gradcheck.check import run_checks
from oplib.autograd.gradcheck.comparison import Options
from oplib.autograd.gradcheck.coordinates import count_coordinates
from oplib.autograd.gradcheck.problem import Problem, to_double
from oplib.autograd.gradcheck.second import gradgradcheck
from oplib.errors import MissingRuleError
from oplib.library.op_records.sites import find_definition
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Tensor

from .comparison import Tolerance, require_equal
from .sample import Sample, is_inexact, only_arrays

DOUBLE = Options(1e-6, 1e-5, 1e-3, nondet_tol=1e-9)
SINGLE = Options(1e-2, 2e-2, 2e-2, nondet_tol=1e-5)
_LARGEST = 64
"""Up to this number of inputs, every entry of the Jacobian is compared."""


def check_gradients(sample: Sample, tolerance: Tolerance) -> str | None:
    """Compares the gradients of the tape with central differences, in double precision if the op supports it.

    A formula that is declared nonlinear is skipped. Of a surrogate gradient the rest is checked.

    Returns:
        The reason, if nothing was compared.

    Raises:
        GradcheckError: they differ.
        OpMismatchError: a recorded call, which runs the registered ``forward``, gives other results.
    """
    if sample.needs_grad and sample.overload.record.derivative.forward is not None:
        _check_forward(sample, tolerance)
    reason = sample.explain_no_derivative() or sample.explain_no_formula()
    if reason is not None and not (sample.needs_grad and sample.overload.record.derivative.surrogate):
        return reason
    with jax.enable_x64(True):
        if keeps_double(sample):
            leaves, call = _make_problem(sample, to_double)
            _run_checks(Problem(call, leaves, formula=_name_formula(sample)), within(tolerance, DOUBLE))
            return reason
    leaves, call = _make_problem(sample, lambda leaf: leaf)
    if not all(leaf.array.dtype in (np.float32, np.complex64) for leaf in leaves):
        return "finite differences need arguments in single or double precision"
    problem = Problem(call, leaves, in_double=False, formula=_name_formula(sample))
    _run_checks(problem, within(tolerance, SINGLE))
    return reason


def _run_checks(problem: Problem, options: Options) -> None:
    is_large = sum(count_coordinates(leaf.array) for leaf in problem.inputs) > _LARGEST
    run_checks(problem, options, fast_mode=is_large)


def _name_formula(sample: Sample) -> str:
    """Returns how errors call the formula of the op; empty if JAX or the ops of the kernel give it."""
    formula = sample.overload.record.derivative.backward
    if formula is None:
        return ""
    name = getattr(formula, "__name__", formula)
    return f"the function registered with register_autograd, {name} at {find_definition(formula)}"


def within(tolerance: Tolerance, options: Options) -> Options:
    """Returns options with the tolerance that the user gives, if any."""
    return replace(options, atol=tolerance.atol or options.atol, rtol=tolerance.rtol or options.rtol)


def _check_forward(sample: Sample, tolerance: Tolerance) -> None:
    plain = only_arrays(sample.call(sample.make_tensors(requires_grad=False)))
    recorded = only_arrays(sample.call(sample.make_tensors()))
    what = f"{sample.overload.name()}: the outputs are different when the call is recorded, by forward="
    require_equal(plain, recorded, tolerance, what, advice="Let forward= compute what the kernel computes.")


def check_second_gradients(sample: Sample, tolerance: Tolerance) -> str | None:
    """Raises GradcheckError if derivatives of the formula differ from differences along random directions.

    Returns:
        The reason, if nothing was compared: a formula without a derivative has a callback in it, or a kernel
        of another language.
    """
    reason = sample.explain_no_derivative() or sample.explain_no_formula()
    if reason is not None:
        return reason
    with jax.enable_x64(True):
        if not keeps_double(sample):
            return "the op does not keep double precision, which differences of gradients need"
        leaves, call = _make_problem(sample, to_double)
        due = within(tolerance, DOUBLE)
        try:
            gradgradcheck(
                call, leaves, atol=due.atol, rtol=due.rtol, nondet_tol=due.nondet_tol, fast_mode=True
            )
        except Exception as error:
            if not _is_without_rule(error):
                raise
            return "the formula has no derivative"
    return None


def _is_without_rule(error: Exception) -> bool:
    """Tells whether an error says that an op, a primitive or a callback has no derivative."""
    is_told = any(text in str(error) for text in ("do not support JVP", "cannot be differentiated"))
    return is_told or isinstance(error, (MissingRuleError, NotImplementedError))


def _make_problem(sample: Sample, convert: Callable[[Any], Any]) -> tuple[list[Tensor], AnyFunction]:
    """Returns the leaves to differentiate by, and the op as a function of them."""
    made = list(map(convert, sample.make_tensors()))

    def call(*varied: Tensor) -> Values:
        return tuple(sample.call(sample.put(varied, made)))

    return sample.pick(made), call


def to_double_array(array: Any) -> Any:
    """Returns a floating or complex array in double precision, and every other array unchanged."""
    if not is_inexact(array):
        return array
    return array.astype(jnp.complex128 if jnp.issubdtype(array.dtype, jnp.complexfloating) else jnp.float64)


def keeps_double(sample: Sample) -> bool:
    """Tells whether the op accepts and returns double precision; kernels for a device often have one dtype.

    JAX's 64 bits must be on.
    """
    leaves = list(map(to_double, sample.make_tensors(requires_grad=False)))
    try:
        results = sample.call(leaves)
    except Exception:  # noqa: BLE001  any error means that it does not
        return False
    arrays = [result.array for result in results if isinstance(result, Tensor) and is_inexact(result.array)]
    return all(array.dtype in (np.float64, np.complex128) for array in arrays)
