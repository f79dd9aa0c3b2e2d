"""Views that compiled calls read themselves, so that a view and the op on it are one call of XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from .chain import Chain


class ViewOperand:
    """Stands for the array of a view among the arguments of a compiled call.

    For JAX it is a node of a tree. The arrays are its leaves, and the chain belongs to the signature. So a
    call with another chain compiles another program, and nothing in Python looks it up.

    Attributes:
        whole: the array of the base.
        starts: the starts of the windows as one array; an empty tuple if there are none.
        chain: the frames from base to view.
    """

    __slots__ = ("chain", "starts", "whole")

    def __init__(self, whole: Any, starts: Any, chain: Chain) -> None:
        self.whole = whole
        self.starts = starts
        self.chain = chain


jax.tree_util.register_dataclass(ViewOperand, ["whole", "starts"], ["chain"])


def read_operands(values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the arrays that the arguments of a compiled call stand for. Call it while the call is traced.

    XLA does not move the op across the barrier. So the result is the same, to the last bit, as that of a call
    that takes the array of the view.
    """
    return tuple(map(_read, values))


def _read(value: Any) -> Any:
    if value.__class__ is not ViewOperand:
        return value
    value.chain.note_program()
    return lax.optimization_barrier(value.chain.get(value.whole, value.starts))
