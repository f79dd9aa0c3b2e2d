"""Hooks on several tensors, called when all of their gradients, or the first of them, are computed.

The run holds the state of the hook. So no lock is needed (a run stays in its thread), nested runs do not mix,
and no state is left when the run ends.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oplib.autograd.nodes.accumulate import existing_accumulator
from oplib.autograd.nodes.node import TapeNode
from oplib.errors import AutogradError, GradientValueError, MisplacedCallError, describe
from oplib.hooks import RemovableHandle, require_parameters
from oplib.tensor import Tensor

from .engine import will_engine_execute_node
from .run import find_run

MODES = ("all", "any")
_MISPLACED = (
    "register_multi_grad_hook: expected this hook to be called inside a backward call. No run is going on in "
    "this thread. Do not call hooks of tensors by hand."
)


class MultiHandle(RemovableHandle):
    """A handle that removes several hooks at once.

    Attributes:
        handles: the handles of the single hooks.
    """

    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Removes the hooks, in order. Hooks that are removed already are skipped."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[RemovableHandle, ...]:
        return self.handles

    def __setstate__(self, state: tuple[RemovableHandle, ...]) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], object], *, mode: str = "all"
) -> RemovableHandle:
    """Calls ``fn`` once for each backward pass, when gradients of several tensors have been computed.

    Args:
        tensors: the tensors to watch.
        fn: in mode ``all`` it receives a list with the gradient of each tensor, and None for tensors that the
            pass does not reach. It is called when the last of these gradients is computed. In mode ``any`` it
            receives the first gradient. It must not change its argument; its result is ignored.
        mode: ``all`` or ``any``.

    Returns:
        A handle whose ``remove()`` removes the hooks.

    Raises:
        GradientValueError: ``mode`` has another value.
        GradientTypeError: ``fn`` does not take one argument.
        AutogradError: in mode ``all``, a tensor does not require grad. In a pass, ``grad()`` returns the
            gradient of a leaf among ``tensors`` directly, so that the number of gradients is not known. Or
            the hook was registered inside ``oplib.vmap``, and the pass runs outside.
        MisplacedCallError: a hook of one tensor is called outside of a backward pass.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import register_multi_grad_hook
        >>> a = oplib.tensor(2.0, requires_grad=True)
        >>> b = oplib.tensor(3.0, requires_grad=True)
        >>> c = oplib.tensor(1.0, requires_grad=True)
        >>> handle = register_multi_grad_hook((a, b, c), print)
        >>> (a * b).backward()
        [tensor(3.), tensor(2.), None]
    """
    if mode not in MODES:
        raise GradientValueError(
            f"register_multi_grad_hook: Expects mode to be one of {MODES}. Got {mode!r}. Choose one of them."
        )
    require_parameters(fn, "register_multi_grad_hook: the hook", "grads" if mode == "all" else "grad")
    listed = tuple(tensors)
    hooks = _make_all_hooks(listed, fn) if mode == "all" else _make_any_hooks(listed, fn)
    return MultiHandle(tuple(tensor.register_hook(hook) for tensor, hook in hooks))


Hooks = list[tuple[Tensor, Callable[[Any], None]]]
Finder = Callable[[], "TapeNode | None"]


@dataclass
class _Record:
    """The gradients that one run has computed for the tensors of one hook, and how many more it computes."""

    buffer: list[Tensor | None]
    missing: int


def _make_all_hooks(tensors: tuple[Tensor, ...], fn: Callable[[Any], object]) -> Hooks:
    finders = [_make_finder(tensor, position) for position, tensor in enumerate(tensors)]
    key, size = object(), len(tensors)

    def make_hook(position: int) -> Callable[[Any], None]:
        def inner_hook(grad: Tensor | None) -> None:
            run = find_run(_MISPLACED, MisplacedCallError)
            record: _Record | None = run.notes.get(key)
            if record is None:
                node = finders[position]()
                if node is not None and not will_engine_execute_node(node):
                    raise AutogradError(
                        "register_multi_grad_hook: the hook was registered inside vmap, and this pass runs "
                        "outside, on other nodes. It cannot tell when all gradients are there. Take the "
                        "gradient inside of vmap, use mode='any', or register a hook on each tensor."
                    )
                record = run.notes[key] = _Record([None] * size, _count_executed(finders))
            record.buffer[position] = grad
            record.missing -= 1
            if not record.missing:
                del run.notes[key]
                fn(record.buffer)

        return inner_hook

    return [(tensor, make_hook(position)) for position, tensor in enumerate(tensors)]


def _count_executed(finders: Sequence[Finder]) -> int:
    nodes = [find() for find in finders]
    return sum(will_engine_execute_node(node) for node in nodes if node is not None)


def _make_any_hooks(tensors: tuple[Tensor, ...], fn: Callable[[Any], object]) -> Hooks:
    key = object()

    @functools.wraps(fn)
    def wrapped_fn(grad: Tensor | None) -> None:
        notes = find_run(_MISPLACED, MisplacedCallError).notes
        if key not in notes:
            notes[key] = True
            fn(grad)

    return [(tensor, wrapped_fn) for tensor in tensors if tensor._requires_grad]


def _make_finder(tensor: Tensor, position: int) -> Finder:
    """Returns a function that finds the node of a tensor. It holds neither of them: both hold the hook."""
    if not tensor._requires_grad:
        raise AutogradError(
            f"register_multi_grad_hook: the tensor at position {position} doesn't require grad. Got "
            f"{describe(tensor)}, whose gradient is never computed. Leave it out, or set "
            f"requires_grad=True on it."
        )
    node: Any = tensor._grad_fn
    if node is not None:
        return weakref.ref(node)
    leaf = weakref.ref(tensor)

    def find_accumulator() -> TapeNode | None:
        accumulator = leaf()
        return None if accumulator is None else existing_accumulator(accumulator)

    return find_accumulator
