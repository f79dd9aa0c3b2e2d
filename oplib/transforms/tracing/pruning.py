"""Traced functions that take only the inputs that are used."""

from __future__ import annotations

from typing import Any

from oplib.autograd.array_functions.compilation import rename_function
from oplib.autograd.array_functions.liveness import fill_unused
from oplib.protocols import AnyFunction


def find_used_inputs(jaxpr: Any) -> list[bool]:
    """Tells for each input of a jaxpr whether an equation or an output reads it."""
    read = {id(var) for equation in jaxpr.eqns for var in equation.invars}
    read |= {*map(id, jaxpr.outvars)}
    return [id(var) in read for var in jaxpr.invars]


def prune(run: AnyFunction, closed: Any, name: str) -> tuple[list[bool], AnyFunction]:
    """Tells which inputs of a traced function are used, and makes a function of these.

    The new function calls the traced one, which JAX does not trace again: the call is one equation. Zeros
    stand for the inputs that are not used. ``closed`` is the jaxpr of ``run``.
    """
    used = find_used_inputs(closed.jaxpr)
    return used, rename_function(fill_unused(run, used, closed.in_avals), name)
