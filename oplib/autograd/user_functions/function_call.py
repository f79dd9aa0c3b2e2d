"""The arguments of a call of a Function, bound to the parameters of forward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.nodes.gradient_representation import is_tracer_class
from oplib.protocols import Values
from oplib.tensor import Tensor, read_array
from oplib.tensor.storage.escape import is_only_mapped
from oplib.tensor.storage.overlay import overlays

_ABSENT: Any = inspect.Parameter.empty
_KEYWORD_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_STAR_KINDS = (*_KEYWORD_KINDS, inspect.Parameter.VAR_POSITIONAL)


class Binding:
    """The parameters of a forward, read once for each Function.

    Attributes:
        is_complete: whether omitted defaults are filled in, so that every call has the same positions. This
            is so with a setup_context, as in torch, and with keyword-only parameters.
        has_keyword_only: whether some parameter is keyword-only.
        fixed_names: the parameters, if each call gives them all; else None.
    """

    __slots__ = ("_defaults", "_signature", "fixed_names", "has_keyword_only", "is_complete")

    def __init__(self, forward: Callable[..., Any], *, has_setup: bool) -> None:
        parameters = list(inspect.signature(forward).parameters.values())
        if not has_setup and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            parameters = parameters[1:]  # ctx
        self._signature = inspect.Signature(parameters)
        self._defaults = [parameter.default for parameter in parameters if parameter.kind not in _STAR_KINDS]
        self.has_keyword_only = any(parameter.kind in _KEYWORD_KINDS for parameter in parameters)
        self.is_complete = has_setup or self.has_keyword_only
        is_fixed = self._defaults == [_ABSENT] * len(parameters)
        self.fixed_names = list(self._signature.parameters) if is_fixed else None

    def bind(self, args: Values, kwargs: dict[str, Any]) -> tuple[Values, dict[str, Any]]:
        """Moves keyword arguments to their positions and fills in defaults.

        Returns:
            The positional arguments, and the keyword-only ones in the order of the signature.

        Raises:
            TypeError: the forward does not accept these arguments.
        """
        if not kwargs and not self.has_keyword_only:
            rest = self._defaults[len(args) :]
            return (args if _ABSENT in rest else (*args, *rest)), {}
        bound = self._signature.bind(*args, **kwargs)
        are_passed = [name in bound.arguments for name in self._signature.parameters]
        bound.apply_defaults()
        positional = bound.args
        if not self.is_complete:  # no trailing defaults
            while not are_passed[len(positional) - 1]:
                positional = positional[:-1]
        return positional, bound.kwargs


def are_traced(inputs: Sequence[Tensor]) -> bool:
    """Returns whether JAX may differentiate a call; in the trace of ``oplib.jit`` only the tape does."""
    overlay = overlays.current
    if overlay is not None and overlay.takes_writes and overlay.is_current_trace():
        return False
    return any(is_tracer_class[type(read_array(tensor))] for tensor in inputs) and not is_only_mapped()
