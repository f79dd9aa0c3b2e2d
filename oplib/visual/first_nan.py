"""The first NaN of a step: the op and the line that made it, and the values that it was made of."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import keystr

from oplib.autograd.anomaly_mode import detect_anomaly
from oplib.autograd.nodes.locations import find_frame, locate_line, show_location
from oplib.errors import describe
from oplib.frozen import frozen
from oplib.library.op_objects.observers import ObservedCall, observing
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point
from oplib.transforms.tracing.paths import Walk

from .records import name_op, read_saved
from .traversal import list_leaves, require_step


@frozen
class FirstNaN:
    """The call that made the first NaN of a step.

    Attributes:
        op: the name of the op, or of the node of which a gradient is NaN.
        place: the line of the user's code that called it.
        in_backward: the backward of the call made it.
        is_given: a value that the call read has a NaN already, so none of the step's calls made it.
        operands: name, type and range of each array that the call read.
    """

    op: str
    place: str
    in_backward: bool
    is_given: bool
    operands: tuple[str, ...]

    def __str__(self) -> str:
        subject = f"The backward of {self.op}" if self.in_backward else self.op
        verb = "was given" if self.is_given else "made"
        return "\n    ".join([f"{subject} {verb} the first nan, called at {self.place}", *self.operands])


@entry_point
def first_nan(step: AnyFunction, *args: Any, **kwargs: Any) -> FirstNaN | None:
    """Calls a step op by op, and returns the call that made its first NaN; None if there is no NaN.

    The step runs once and does all that it does, such as to write parameters. Functions of ``oplib.jit`` and
    compiled backwards run op by op too. The body of a JAX transformation is traced, and has no values.

    Args:
        step: a function, usually one that computes a loss and calls ``backward``.
        *args: its arguments.
        **kwargs: its arguments by name.

    Raises:
        ArgumentTypeError: ``step`` cannot be called.

    Example:
        >>> import oplib
        >>> def step(w):
        ...     return (w - 2).sqrt().sum()
        >>> print(oplib.visual.first_nan(step, oplib.tensor([1.0, 6.0])))  # doctest: +ELLIPSIS
        sqrt made the first nan, called at ...
            self: f32[2], from -1 to 4
    """
    require_step(step, "first_nan")
    search = _Search(_name_tensors(step, args, kwargs))
    state = modes.state
    hooks, state.node_hooks = state.node_hooks, (search.start_node, search.end_node)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anomaly mode warns that it is slow
            block = detect_anomaly(check_nan=False)
        with block, observing(search.observe):
            step(*args, **kwargs)
    except Exception:
        if search.found is None:
            raise
    finally:
        state.node_hooks = hooks
    return search.found


class _Search:
    """Looks at the results of calls and nodes until one has a NaN."""

    def __init__(self, names: dict[int, str]) -> None:
        self.found: FirstNaN | None = None
        self._names = names
        self._saved: list[tuple[str, Any]] = []

    def observe(self, call: ObservedCall) -> Any:
        outcome = call.run()
        if self.found is None and has_nan(call.read(outcome)):
            positional, named = call.arguments
            names = [argument.name for argument in call.overload._schema.arguments]
            frame = find_frame()
            place = "" if frame is None else show_location(frame.f_code, frame.f_lineno)
            pairs = zip(names, (*positional, *named.values()), strict=True)
            operands = [
                (f"{name}{keystr(path)}", leaf) for name, value in pairs for path, leaf in list_leaves(value)
            ]
            self._note(name_op(call.overload.name())[0], place, operands, in_backward=False)
        return outcome

    def start_node(self, *_: Any) -> None:
        if self.found is None:  # a node frees what it saved when it has run
            self._saved = list(read_saved(modes.state.run.node)[0])

    def end_node(self, sent: Any, received: Any) -> None:
        if self.found is None and has_nan(sent):
            node = modes.state.run.node
            location = node._location
            place = "" if location is None else show_location(*locate_line(location))
            arrived = [(f"grad_outputs[{index}]", one) for index, one in enumerate(received)]
            self._note(node.name(), place, [*arrived, *self._saved], in_backward=True)

    def _note(self, op: str, place: str, operands: Sequence[tuple[str, Any]], *, in_backward: bool) -> None:
        texts: list[str] = []
        for name, value in operands:
            if (text := _show(value)) is not None:
                known = self._names.get(id(value))
                texts.append(f"{name}: {f'{known}, ' if known else ''}{text}")
        is_given = has_nan([value for _, value in operands])
        self.found = FirstNaN(op, place, in_backward, is_given, tuple(texts))


def _read(value: Any) -> Any:
    """Returns the array of a leaf on the host; None if it has no floating numbers, or no values."""
    array = value._storage.array if isinstance(value, Tensor) else value
    if isinstance(array, Tracer) or not jnp.issubdtype(getattr(array, "dtype", np.void), jnp.inexact):
        return None
    return np.asarray(value.array if isinstance(value, Tensor) else array)


def has_nan(values: Any) -> bool:
    """Returns whether an array among values has a nan. It reads them."""
    arrays = [_read(leaf) for _, leaf in list_leaves(values)]
    return any(array is not None and bool(np.isnan(array).any()) for array in arrays)


def _show(value: Any) -> str | None:
    """Returns type and range of an array; the text of another value; None where there is none."""
    array = _read(value)
    if array is None:
        return None if value is None else describe(value)
    sizes = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    text, nans = describe(array), int(np.isnan(sizes).sum())
    if sizes.size > nans:
        text += f", from {np.nanmin(sizes):.6g} to {np.nanmax(sizes):.6g}"
    return f"{text}, {nans} of {sizes.size} items nan" if nans else text


def _name_tensors(step: Any, args: Any, kwargs: Any) -> dict[int, str]:
    """Returns how the user would call each Tensor that a step reads, by its identity."""
    try:
        given = dict(inspect.signature(step).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # a builtin, or the call itself will raise
        given = {"args": args, "kwargs": kwargs}
    pairs = [
        (f"{name}{keystr(path)}", leaf) for name, value in given.items() for path, leaf in list_leaves(value)
    ]
    walk = Walk(inspect.unwrap(step), [leaf for _, leaf in pairs], lambda number: pairs[number][0])
    return {number: path.name for number, path in walk.tensors.items()}
