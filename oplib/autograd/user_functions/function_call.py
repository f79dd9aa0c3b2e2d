"""One call of a Function: its arguments, bound to the parameters of forward, and whether it is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.nodes.gradient_representation import is_tracer_class
from oplib.autograd.tangents import find_tangents, run_without_tangents
from oplib.modes import ModeState, modes
from oplib.tensor import Tensor, read_array
from oplib.tensor.storage.overlay import overlays

from .trees import Specs

_ABSENT: Any = inspect.Parameter.empty
_KEYWORD_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_STAR_KINDS = (*_KEYWORD_KINDS, inspect.Parameter.VAR_POSITIONAL)


class Binding:
    """The parameters of a forward, read once for each Function.

    Attributes:
        is_complete: whether omitted defaults are filled in, so that every call has the same positions. This
            is so with a setup_context, as in torch, and with keyword-only parameters.
        has_keyword_only: whether some parameter is keyword-only.
    """

    __slots__ = ("_defaults", "_signature", "has_keyword_only", "is_complete")

    def __init__(self, forward: Callable[..., Any], *, has_setup: bool) -> None:
        parameters = list(inspect.signature(forward).parameters.values())
        if not has_setup and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            parameters = parameters[1:]  # ctx
        self._signature = inspect.Signature(parameters)
        self._defaults = [parameter.default for parameter in parameters if parameter.kind not in _STAR_KINDS]
        self.has_keyword_only = any(parameter.kind in _KEYWORD_KINDS for parameter in parameters)
        self.is_complete = has_setup or self.has_keyword_only

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
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


class FunctionCall:
    """The facts of one ``apply`` that are known before its forward runs.

    Attributes:
        inputs: the Tensors among the arguments.
        argument_count: the number of arguments.
        specs: the structures of arguments that are containers of Tensors.
        flags: for each flat argument whether it is a Tensor.
        sequence_nr: the sequence number of the node.
        recording: whether the call is recorded.
        tangents: the tangents of ``inputs``, or None if the call carries none.
    """

    __slots__ = ("argument_count", "flags", "inputs", "recording", "sequence_nr", "specs", "tangents")

    def __init__(
        self,
        inputs: list[Tensor],
        flags: Sequence[bool],
        argument_count: int,
        specs: Specs,
        state: ModeState,
        *,
        recording: bool,
    ) -> None:
        self.inputs = inputs
        self.argument_count = argument_count
        self.specs = specs
        self.flags = flags
        self.sequence_nr = state.sequence_nr
        self.recording = recording
        level = state.dual_level
        self.tangents: list[Tensor | None] | None = None if level is None else find_tangents(self.inputs)

    @property
    def is_traced(self) -> bool:
        """Whether JAX may differentiate the call; in the trace of ``oplib.jit`` only the tape does."""
        if self.tangents is not None:
            return False
        overlay = overlays.current
        if overlay is not None and overlay.takes_writes and overlay.is_current_trace():
            return False
        return any(is_tracer_class[type(read_array(tensor))] for tensor in self.inputs)

    def run_below(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the forward with the tape and forward mode off."""
        state = modes.state
        before = state.grad_enabled
        state.grad_enabled = False
        try:
            return run_without_tangents(function, *args)
        finally:
            state.grad_enabled = before
