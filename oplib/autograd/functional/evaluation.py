"""The first steps of the functions of this package: new inputs, and the run of the user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arguments import OUTPUTS, Group, make_inputs, take_tuple
from .strictness import require_recorded

Function = Callable[..., Any]


def take_point(inputs: Any, caller: str, *, create_graph: bool) -> Group:
    """Returns new tensors for the user's inputs. The arguments are those of :func:`make_inputs`.

    Raises:
        GradientTypeError: ``inputs`` is neither a Tensor nor a tuple of Tensors.
    """
    is_tuple, given = take_tuple(inputs, "inputs", caller)
    tensors = make_inputs(given, create_graph=create_graph)
    return Group(is_tuple, tensors, "the input to the user-provided function")


def evaluate(func: Function, at: Group, caller: str, *, strict: bool) -> Group:
    """Runs the user's function.

    Args:
        func: takes Tensors and returns a Tensor or a tuple of Tensors.
        at: its arguments.
        caller: the function that received it, for errors.
        strict: raise if an output does not depend on any argument.

    Raises:
        AutogradError: an output is independent, with ``strict``.
        GradientTypeError: the function returned another type.
    """
    is_tuple, outputs = take_tuple(func(*at.tensors), OUTPUTS, caller)
    if strict:
        require_recorded(outputs, "outputs", caller)
    return Group(is_tuple, outputs, "what the user-provided function returns")
