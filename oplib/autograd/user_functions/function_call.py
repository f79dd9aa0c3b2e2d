"""One call of a Function: its arguments, and whether it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.tangents import find_tangents
from oplib.modes import modes
from oplib.tensor import Tensor

from .trees import Specs


class FunctionCall:
    """What is known of one apply before its forward has run.

    Attributes:
        inputs: the Tensors among the arguments.
        argument_count: how many arguments there are.
        specs: the structures of those that are containers of Tensors.
        flags: for each flat argument whether it is a Tensor.
        sequence_nr: of the node.
        recording: whether there will be one.
        tangents: of ``inputs``, or None where none is to be carried on.
    """

    __slots__ = ("argument_count", "flags", "inputs", "recording", "sequence_nr", "specs", "tangents")

    def __init__(
        self,
        leaves: Sequence[Any],
        flags: Sequence[bool],
        *,
        argument_count: int,
        specs: Specs,
        sequence_nr: int,
        recording: bool,
    ) -> None:
        self.inputs: list[Tensor] = [leaf for leaf, flag in zip(leaves, flags, strict=True) if flag]
        self.argument_count = argument_count
        self.specs = specs
        self.flags = flags
        self.sequence_nr = sequence_nr
        self.recording = recording
        level = modes.state.dual_level
        self.tangents: list[Tensor | None] | None = None if level is None else find_tangents(self.inputs)

    def run_below(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the forward where neither the tape nor forward mode sees what it does."""
        state = modes.state
        before = state.grad_enabled, state.forward_enabled
        state.grad_enabled = state.forward_enabled = False
        try:
            return function(*args)
        finally:
            state.grad_enabled, state.forward_enabled = before
