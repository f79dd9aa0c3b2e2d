"""Anomaly detection: it finds the forward call behind an error of a backward pass, and the first NaN."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax.core import Tracer

from oplib.errors import AutogradError, OplibError, describe
from oplib.modes import ModeState, enter_block, leave_block, modes
from oplib.tensor import Tensor
from oplib.torch_names import make_dir as _make_dir
from oplib.tracebacks import warn_user

from .array_functions.compilation import advise_first_nan
from .nodes.locations import find_frame, locate_line, note_location, show_location

if TYPE_CHECKING:
    from .nodes.backward_run import BackwardRun
    from .nodes.node import Gradients, TapeNode

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]
__dir__ = _make_dir(globals())
_has_nan = jax.jit(lambda array: jnp.isnan(array).any())


class _AnomalyBlock:
    def __init__(self, mode: bool, check_nan: bool) -> None:
        self.prev, self.prev_check_nan = modes.anomaly, modes.check_nan
        self.mode, self.check_nan = mode, check_nan
        self._state = modes.state

    def __enter__(self) -> None:
        self._state = enter_block()
        _set(self._state, self.mode, self.check_nan)

    def __exit__(self, *exc_info: object) -> None:
        _set(self._state, self.prev, self.prev_check_nan)
        leave_block(self._state)


class set_detect_anomaly(_AnomalyBlock):  # noqa: N801  users call it like a function
    """Switches anomaly detection of this thread on or off, at once or for a ``with`` block.

    While it is on, each recorded node keeps the stack of the call that made it in ``metadata["traceback_"]``.
    A node that was recorded by a backward pass keeps the node of that pass in ``metadata["parent_"]``. An
    error in a backward pass then shows the forward call in its text and in a warning. A NaN in a gradient is
    an error. Anomaly detection is slow; the lines of the calls alone are
    recorded without it, see :class:`~oplib.autograd.graph.record_locations`.

    Args:
        mode: whether anomaly detection is on.
        check_nan: whether a NaN in the results of a node is an error.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> with oplib.autograd.set_detect_anomaly(True):
        ...     y = x * x
        >>> "traceback_" in y.grad_fn.metadata
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(mode, check_nan)
        _set(self._state, mode, check_nan)

    def __enter__(self) -> None:
        _set(self._state, self.prev, self.prev_check_nan)
        super().__enter__()


class detect_anomaly(_AnomalyBlock):  # noqa: N801
    """Detects anomalies in a block of code, and warns that this is slow; see :class:`set_detect_anomaly`.

    Args:
        check_nan: whether a NaN in the results of a node is an error.

    Example:
        >>> import oplib, warnings
        >>> x = oplib.tensor([0.0], requires_grad=True)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     with oplib.autograd.detect_anomaly():
        ...         (x / x).sum().backward()
        Traceback (most recent call last):
        oplib.errors.AutogradError: DivBackward0: Function 'DivBackward0' returned nan values in its ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
        warn_user(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging."
        )


def is_anomaly_enabled() -> bool:
    """Returns whether anomaly detection is on in this thread."""
    return modes.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Returns whether a NaN is an error while anomaly detection is on."""
    return modes.check_nan


def _set(state: ModeState, mode: bool, check_nan: bool) -> None:
    state.watchers += bool(mode) - state.anomaly
    state.anomaly = bool(mode)
    state.check_nan = bool(check_nan)


def note_anomaly(node: TapeNode, run: BackwardRun | None) -> None:
    """Keeps the stack of the call that makes a node, and the node whose backward the call belongs to."""
    frame = find_frame()
    node.metadata["traceback_"] = traceback.format_stack(frame)
    if run is not None and run.node is not None:
        node.metadata["parent_"] = run.node
    note_location(node, run)


def refuse_nan(results: Gradients, node: TapeNode) -> None:
    """Raises AutogradError if a node has returned a NaN. Traced gradients are not checked."""
    for position, grad in enumerate(results):
        array = grad._storage.array if isinstance(grad, Tensor) else grad
        if array is None or isinstance(array, Tracer) or not jnp.issubdtype(array.dtype, jnp.inexact):
            continue
        if _has_nan(array):
            raise AutogradError(
                f"{node.name()}: Function '{node.name()}' returned nan values in its {position}th output. It "
                f"is {describe(array)}. Look at the values that the forward call got; check_nan=False lets "
                "NaNs pass."
            )


def explain_node_error(error: BaseException, node: TapeNode) -> None:
    """Adds to an error the name of the running node, its op, and the line that recorded it, if known.

    The error stays the same object. An error of oplib gets the line in its text; another error gets a note.
    """
    if not isinstance(error, Exception):
        return
    op = node.op_name()
    error.add_note(
        f"Raised in the backward pass, while {node.name()}{f' of {op}' if op else ''} was running."
    )
    if node._location is not None:
        _tell_location(error, show_location(*locate_line(node._location)))
    advise_first_nan(error)
    if modes.anomaly:
        _tell_forward(error, node)


def _tell_location(error: Exception, shown: str) -> None:
    text = f"The forward call was at {shown}"
    if isinstance(error, OplibError) and len(error.args) == 1 and isinstance(error.args[0], str):
        if text not in error.args[0]:  # an outer run may have added it
            error.args = (f"{error.args[0]} {text}",)
    else:
        error.add_note(text)


def _tell_forward(error: Exception, node: TapeNode) -> None:
    """Adds the stack of the forward call, and the stacks of the nodes that it was recorded for."""
    stack: list[str] | None = node.metadata.get("traceback_")
    if stack is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly "
            "during forward pass for more information."
        )
    else:
        text = f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        text += "".join(stack)
    parent = node.metadata.get("parent_")
    while parent is not None:
        stack = parent.metadata.get("traceback_")
        text += f"\n\nPrevious calculation was induced by {parent.name()}. " + (
            "No forward pass information available."
            if stack is None
            else "Traceback of forward call that induced the previous calculation:\n" + "".join(stack)
        )
        parent = parent.metadata.get("parent_")
    error.add_note(text)
    try:
        warn_user(text, UserWarning)
    except UserWarning:  # warnings are errors here; the error being raised says the same
        return
