"""Programs of JAX as keys: equal keys stand for programs that compute the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from jax.extend.core import Literal

from oplib.library.batching_and_sharding.bodies import find_bodies


def read_program(jaxpr: Any) -> Hashable:
    """Returns a jaxpr as a key.

    Raises:
        TypeError: it has none, because it has effects or bodies of loops, or calls an op that no cache may
            hold or that runs as plain Python.
    """
    numbers = {var: number for number, var in enumerate((*jaxpr.constvars, *jaxpr.invars))}

    def show(values: Any) -> Any:
        return tuple(
            [
                (value.aval, np.asarray(value.val).tobytes())
                if isinstance(value, Literal)
                else numbers[value]
                for value in values
            ]
        )

    key: list[Any] = [var.aval for var in numbers]
    for equation in jaxpr.eqns:
        params, call = dict(equation.params), equation.params.get("call")
        if equation.primitive.name == "jit" and not params["jaxpr"].consts:  # newer JAX enters ops by it
            params["jaxpr"] = read_program(params["jaxpr"].jaxpr)
        elif getattr(call, "is_transient", True) or "body" in params if call else find_bodies(equation):
            raise TypeError
        if equation.effects:
            raise TypeError
        key.append((equation.primitive, equation.ctx, show(equation.invars), *params.items()))
        for var in equation.outvars:
            numbers[var] = len(numbers)
    return *key, show(jaxpr.outvars)
