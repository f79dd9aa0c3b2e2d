"""Jaxprs as functions that take only the inputs that are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.extend.core import jaxpr_as_fun

from oplib.autograd.array_functions.compilation import rename_function


def find_used_inputs(jaxpr: Any) -> list[bool]:
    """Tells for each input of a jaxpr whether an equation or an output reads it."""
    read = {id(var) for equation in jaxpr.eqns for var in equation.invars}
    read |= {id(var) for var in jaxpr.outvars}
    return [id(var) in read for var in jaxpr.invars]


def prune(closed: Any, name: str) -> tuple[list[bool], Callable[..., Any]]:
    """Returns which inputs of a jaxpr are used, and its function of these under a name."""
    run, used = jaxpr_as_fun(closed), find_used_inputs(closed.jaxpr)

    def pruned(*values: Any) -> Any:
        arguments = iter(values)
        return run(*[next(arguments) if use else None for use in used])

    return used, rename_function(pruned, name)
