"""Jaxprs as functions that take only the inputs that are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import jaxpr_as_fun


def find_used_inputs(jaxpr: Any) -> list[bool]:
    """Tells for each input of a jaxpr whether an equation or an output reads it."""
    read = {id(var) for equation in jaxpr.eqns for var in equation.invars}
    read |= {id(var) for var in jaxpr.outvars}
    return [id(var) in read for var in jaxpr.invars]


def prune(closed: Any, used: Sequence[bool]) -> Callable[..., Any]:
    """The function of a jaxpr that takes only the inputs that are used."""
    run = jaxpr_as_fun(closed)

    def pruned(*values: Any) -> Any:
        arguments = iter(values)
        return run(*[next(arguments) if use else None for use in used])

    return pruned
