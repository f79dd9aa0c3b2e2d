"""``gradgradcheck``: it checks the gradients of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.engine.backward_and_grad import grad
from oplib.errors import CheckOptionError
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Tensor, needs_grad
from oplib.tracebacks import entry_point

from .check import passes_checks
from .comparison import Options
from .coordinates import count_coordinates, draw_directions, from_coordinates
from .problem import as_tuple, call_in_double, to_double


@entry_point
def gradgradcheck(
    func: AnyFunction,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Checks the gradients of a function's gradients, with respect to inputs and gradients of outputs.

    Args:
        func: see :func:`gradcheck`.
        inputs: see :func:`gradcheck`.
        grad_outputs: the gradients of the outputs at which the check is made, one of its shape for each
            output that requires grad; by default random numbers.
        eps: see :func:`gradcheck`.
        atol: see :func:`gradcheck`.
        rtol: see :func:`gradcheck`.
        gen_non_contig_grad_outputs: ignored; there are no strides.
        raise_exception: see :func:`gradcheck`.
        nondet_tol: see :func:`gradcheck`.
        check_undefined_grad: see :func:`gradcheck`.
        check_grad_dtypes: see :func:`gradcheck`.
        check_batched_grad: see :func:`gradcheck`.
        check_fwd_over_rev: check forward mode over the backward.
        check_rev_over_rev: check the backward of the backward.
        fast_mode: see :func:`gradcheck`.
        masked: ignored; there are no sparse tensors.

    Returns:
        True; or False if the check fails and ``raise_exception`` is False.

    Raises:
        GradcheckError: the check fails.
        ArgumentValueError: no input requires grad.
        CheckOptionError: options exclude each other.

    Source:
        ``torch.autograd.gradgradcheck``.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([0.5, 1.0], requires_grad=True)
        >>> oplib.autograd.gradgradcheck(lambda x: x.exp(), x)
        True
    """
    del gen_non_contig_grad_outputs, masked
    options = Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
    )  # fmt: skip
    _check_options(options)
    with jax.enable_x64(True):
        point = tuple(map(to_double, as_tuple(inputs)))
        first = _FirstGradients(func, point, grad_outputs)
    there = (*point, *first.cotangents)
    return passes_checks(first, there, options, fast_mode=fast_mode, raise_exception=raise_exception)


def _check_options(options: Options) -> None:
    if not (options.check_forward_ad or options.check_backward_ad):
        raise CheckOptionError(
            "gradgradcheck: Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True. "
            "Both are False, and nothing is left to check. Turn one on."
        )
    for name in ("check_undefined_grad", "check_batched_grad"):
        if getattr(options, name) and not options.check_backward_ad:
            raise CheckOptionError(
                f"gradgradcheck: Setting {name}=True requires check_rev_over_rev to be True. It is False. "
                f"Turn it on, or {name} off."
            )


class _FirstGradients:
    """The gradients of a function, as a function of its inputs and of the gradients of its outputs.

    Attributes:
        cotangents: the gradients of the outputs at the point of the check.
    """

    def __init__(self, func: AnyFunction, point: Sequence[Any], grad_outputs: Any) -> None:
        self.__wrapped__ = self._func = func
        self._wanted = [index for index, value in enumerate(point) if needs_grad(value)]
        if grad_outputs is None:
            outputs = [value for value in call_in_double(func, point) if needs_grad(value)]
            self.cotangents = tuple(_draw_like(output, seed) for seed, output in enumerate(outputs))
        else:
            self.cotangents = tuple(map(to_double, as_tuple(grad_outputs)))
        self._varied = [index for index, value in enumerate(self.cotangents) if needs_grad(value)]

    def __call__(self, *args: Any) -> Values:
        split = len(args) - len(self.cotangents)
        inputs, cotangents = list(args[:split]), list(args[split:])
        for values, indices in ((inputs, self._wanted), (cotangents, self._varied)):
            for index in indices:  # forward mode passes duals of detached tensors
                if not values[index].requires_grad:
                    values[index] = values[index].requires_grad_()
        outputs = [value for value in as_tuple(self._func(*inputs)) if needs_grad(value)]
        wanted = [inputs[index] for index in self._wanted]
        gradients = grad(outputs, wanted, cotangents, create_graph=True, allow_unused=True)
        return tuple(pick_given(gradients))


def _draw_like(output: Tensor, seed: int) -> Tensor:
    drawn = draw_directions(1, count_coordinates(output.array), seed=seed)[0]
    drawn *= np.sqrt(max(drawn.size, 1))
    return Tensor.from_array(from_coordinates(drawn, output.array), requires_grad=True)
