"""Functions that are computed in another form on CPUs, and differentiated in one form everywhere."""

from __future__ import annotations

from functools import partial

import jax
from jax import lax

from oplib.protocols import AnyFunction


def compute_on_cpu(function: AnyFunction, by: AnyFunction) -> AnyFunction:
    """Returns a function of arrays that CPUs compute by another form, and that differentiates as the first.

    A kernel for CPUs alone would have a derivative of its own, or keep all operands for the backward.

    Args:
        function: the form of other platforms, which is differentiated on all.
        by: the form of CPUs. Its values are the same.
    """
    run = jax.custom_jvp(partial(lax.platform_dependent, default=function, cpu=by))
    run.defjvp(lambda primals, tangents: (run(*primals), jax.jvp(function, primals, tangents)[1]))
    return run
