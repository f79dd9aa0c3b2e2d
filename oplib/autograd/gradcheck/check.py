"""``gradcheck``: it compares the gradients of a function with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.errors import CheckOptionError, GradcheckError
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point, warn_user

from .backward import check_undefined_gradients, check_zero_gradients
from .batching import check_batched_gradients
from .comparison import Options
from .forward import check_batched_tangents, check_undefined_tangents
from .jacobians import check_jacobians
from .problem import Problem, as_tuple


@entry_point
def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the derivatives of a function on Tensors with central differences.

    The check runs in double precision. It turns JAX's x64 on for its own duration, and converts floating and
    complex inputs. Leaves that are in double precision already are passed to the function themselves, so the
    function may have captured them. Other inputs reach it as arguments only.

    If an op has a surrogate gradient, nothing is compared with differences, and a UserWarning says so.
    Forward mode is then compared with the backward.

    Args:
        func: a Python function that takes the inputs and returns a Tensor or several. It is called many
            times.
        inputs: Tensors of any shape, and other values. The Tensors that require grad are checked.
        eps: half the distance between the two points of a difference.
        atol: the absolute tolerance for an entry.
        rtol: the tolerance relative to the numerical value.
        raise_exception: raise if the check fails, instead of returning False.
        nondet_tol: the tolerance between two backward passes from the same values.
        check_undefined_grad: also check that outputs without gradient are treated as zeros.
        check_grad_dtypes: also check that each gradient has the dtype of its input.
        check_batched_grad: also check the gradients under vmap (``is_grads_batched``).
        check_batched_forward_grad: also check forward mode under vmap.
        check_forward_ad: also check forward mode.
        check_backward_ad: check the gradients of the tape.
        fast_mode: compare one random projection of each Jacobian, not all entries.
        masked: ignored; there are no sparse tensors.

    Returns:
        True; or False if the check fails and ``raise_exception`` is False.

    Raises:
        GradcheckError: the check fails. The error names output, input, entry, and both values.
        ArgumentValueError: no input requires grad.
        CheckOptionError: options exclude each other.

    Source:
        ``torch.autograd.gradcheck``; options, order of checks and conventions are the same.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([0.5, 1.0], requires_grad=True)
        >>> oplib.autograd.gradcheck(lambda x: x.sin() * x, x)
        True
    """
    del masked
    options = Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad,
    )  # fmt: skip
    _check_options(options)
    return passes_checks(func, inputs, options, fast_mode=fast_mode, raise_exception=raise_exception)


def _check_options(options: Options) -> None:
    if not (options.check_forward_ad or options.check_backward_ad):
        raise CheckOptionError(
            "gradcheck: Expected at least one of check_forward_ad or check_backward_ad to be True. Both are "
            "False, and nothing is left to check. Turn one on."
        )
    if options.check_batched_grad and not options.check_backward_ad:
        raise CheckOptionError(
            "gradcheck: Setting check_batched_grad=True requires check_backward_ad to be True. It is False. "
            "Turn it on."
        )
    if options.check_batched_forward_grad and not options.check_forward_ad:
        raise CheckOptionError(
            "gradcheck: Setting check_batched_forward_grad=True requires check_forward_ad to be True. It is "
            "False. Turn it on."
        )


def passes_checks(
    func: Callable[..., Any], inputs: Any, options: Options, *, fast_mode: bool, raise_exception: bool
) -> bool:
    """Returns whether a function passes, in double precision. See :func:`gradcheck`."""
    try:
        with jax.enable_x64(True):
            problem = Problem(func, as_tuple(inputs))
            if names := problem.surrogates:
                warn_user(
                    f"gradcheck: the gradients are not compared with finite differences. {', '.join(names)} "
                    "has a surrogate gradient, by register_autograd(..., surrogate=True). Everything else is "
                    "checked.",
                    UserWarning,
                )
            run_checks(problem, options, fast_mode=fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def run_checks(problem: Problem, options: Options, *, fast_mode: bool) -> None:
    """Runs the checks selected by the options. Each raises GradcheckError if it fails."""
    check_jacobians(problem, options, fast_mode=fast_mode)
    if options.check_forward_ad and options.check_undefined_grad and problem.differentiable:
        check_undefined_tangents(problem)
    if options.check_batched_forward_grad:
        check_batched_tangents(problem)
    if not options.check_backward_ad or not problem.differentiable:
        return
    if options.check_batched_grad:
        for output in problem.differentiable:
            check_batched_gradients(problem, output)
    check_zero_gradients(problem)
    if options.check_undefined_grad:
        check_undefined_gradients(problem)
