"""Array functions with side effects: their derivatives keep each of them, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import Arrays, Mask
from oplib.autograd.array_functions.residual_function import ResidualFunction, linearize
from oplib.errors import TracingError
from oplib.library.batching_and_sharding.bodies import find_bodies
from oplib.protocols import AnyFunction

_CALLBACKS = frozenset({"io_callback", "debug_callback", "debug_print"})


class EffectfulFunction(ResidualFunction):
    """A function with side effects.

    Args:
        function: the function.
        name: its name.
        differentiate: does what :func:`.residual_function.linearize` does, for this function.
    """

    __slots__ = ("_differentiate",)

    def __init__(
        self, function: Callable[..., Arrays], name: str, differentiate: AnyFunction | None = None
    ) -> None:
        super().__init__(function, name)
        self._differentiate = differentiate or partial(linearize, function)

    def linearize(self, wanted: Mask, arrays: Arrays) -> tuple[Arrays, Any]:
        """Differentiates the function.

        Raises:
            TracingError: JAX leaves a side effect out, as in a loop inside of what it differentiates.
        """

        def run(*values: Any) -> list[Any]:
            return jax.tree_util.tree_leaves(self._differentiate(wanted, values))

        if _count_effects(jax.make_jaxpr(run)(*arrays)) != _count_effects(
            jax.make_jaxpr(self.function)(*arrays)
        ):
            raise TracingError(
                f"{self.name.lower()}: a side effect stands in a loop inside of a body that is derived. "
                "JAX's derivative of the inner loop leaves it out. Make one loop of the two, or call the "
                "inner one with values that do not require grad."
            )
        return self._differentiate(wanted, arrays)


def _count_effects(jaxpr: Any) -> int:
    """Returns how often side effects occur in the text of a jaxpr."""
    body = getattr(jaxpr, "jaxpr", jaxpr)
    own = sum(equation.primitive.name in _CALLBACKS for equation in body.eqns)
    return own + sum(_count_effects(inner) for equation in body.eqns for inner in find_bodies(equation))
