"""Likelihood losses: of counts, and of numbers with a mean; the names of ``oplib.nn.functional``."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import LossRow
from oplib.builtin.shared_kernels.promotion import in_single, meet, to_floating
from oplib.errors import ArgumentValueError, UnsupportedDtypeError
from oplib.tensor.dtypes.rules import COMPLEX

from .regression_and_classification import reduce_losses


def _poisson_nll(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Any:
    x, y = map(to_floating, meet(input, target))
    if full and x.dtype in COMPLEX:
        raise UnsupportedDtypeError("full=True is not implemented for complex", "Leave it out.")

    def compute(x: Any, y: Any) -> Any:
        losses = lax.exp(x) - y * x if log_input else x - y * lax.log(x + eps)
        return reduce_losses(losses + _stirling(y) if full else losses, reduction)

    return in_single(compute)(x, y)


def _stirling(y: Any) -> Any:
    """Approximates the logarithm of the factorial for values above 1 by Stirling's formula."""
    is_small = y <= 1
    large = jnp.where(is_small, 2, y)
    term = large * lax.log(large) - large + 0.5 * lax.log((2 * math.pi) * large)
    return jnp.where(is_small, 0, term)


def _gaussian_nll(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, *, reduction: str = "mean"
) -> Any:
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = jnp.expand_dims(var, -1)
        elif (
            var.ndim != input.ndim
            or sum(mine for mine, other in zip(var.shape, input.shape, strict=True) if mine != other) != 1
        ):
            raise ArgumentValueError(
                "var is of incorrect size", "Give one for each item, or for each vector."
            )

    def compute(x: Any, y: Any, v: Any) -> Any:
        # smaller variances count as eps, and still get the gradient
        v = jnp.where(v < eps, eps + (v - lax.stop_gradient(v)), v)
        losses = 0.5 * (lax.log(v) + lax.square(x - y) / v)
        losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
        return reduce_losses(losses, reduction)

    return in_single(compute)(*meet(input, target, var))


ROWS = (
    LossRow(
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, "
        "float eps=1e-08, *, str reduction='mean') -> Tensor",
        _poisson_nll,
        "negative log-likelihoods of counts, where the input is the rate or its logarithm",
        dtypes="ihfc",
    ),
    LossRow(
        "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-06, *, "
        "str reduction='mean') -> Tensor",
        _gaussian_nll,
        "negative log-likelihoods of numbers, where the input is the mean",
        autocast="",
    ),
)
