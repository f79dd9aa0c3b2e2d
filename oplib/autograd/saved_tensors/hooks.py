"""Hooks on every tensor that is saved for a backward pass: the active pairs of a thread.

A call that saves reads ``modes.state.hook_pairs``: without a pair hooks cost one test per recorded call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from oplib.errors import AutogradError, GradientTypeError
from oplib.hooks import require_parameters
from oplib.modes import ModeState, enter_block, leave_block, modes
from oplib.pytree import TreeSpec, tree_flatten, tree_unflatten
from oplib.tensor import Tensor, box
from oplib.tensor.storage.cut import UNCUT

__all__ = ["HookPair", "disable_saved_tensors_hooks", "saved_tensors_hooks"]


class HookPair(NamedTuple):
    """A pair of hooks.

    Attributes:
        pack: turns a tensor into the object that the graph keeps.
        unpack: turns this object into a tensor.
        compose: whether the packed object also goes through the enclosing pair.
    """

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]
    compose: bool = False


KEEP_VALUES = HookPair(lambda tensor: box(tensor._storage.array), lambda kept: kept)
"""Keeps what is saved. Inside a program it stands for the pairs around the call: versions are not checked."""


def active_pairs() -> tuple[HookPair, ...]:
    """Returns the pairs for a tensor saved now, in order. Often it is the innermost pair alone."""
    pairs = modes.state.hook_pairs
    return pairs[::-1] if pairs and pairs[-1].compose else pairs[-1:]


def make_pair(pack: object, unpack: object, *, compose: bool = False, caller: str) -> HookPair:
    """Returns two callables as a pair, or raises GradientTypeError."""
    require_parameters(pack, f"{caller}: the pack hook", "tensor")
    require_parameters(unpack, f"{caller}: the unpack hook", "packed")
    return HookPair(pack, unpack, compose)  # pyright: ignore[reportArgumentType]  both are callable


def _make_allowed_pair(pack: object, unpack: object, *, compose: bool) -> HookPair:
    pair = make_pair(pack, unpack, compose=compose, caller="saved_tensors_hooks")
    if modes.state.hooks_disabled is not None:
        raise AutogradError(modes.state.hooks_disabled)
    return pair


def push_hooks(
    pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor], *, compose: bool = False
) -> None:
    """Activates a pair in this thread, inside the active ones.

    Raises:
        AutogradError: hooks are disabled. The error has the message given there.
        GradientTypeError: a hook is not callable.
    """
    pair, state = _make_allowed_pair(pack_hook, unpack_hook, compose=compose), modes.state
    state.hook_pairs = (*state.hook_pairs, pair)


def pop_hooks() -> None:
    """Removes the innermost pair of this thread; raises AutogradError if none is active."""
    state = modes.state
    if not state.hook_pairs:
        raise AutogradError(
            "_pop_saved_tensors_default_hooks: no hooks are in force in this thread. Each pop needs a push "
            "before it. Use the context manager saved_tensors_hooks."
        )
    state.hook_pairs = state.hook_pairs[:-1]


class saved_tensors_hooks:  # noqa: N801  users call it like a function
    """Passes every tensor that a block of code saves for a backward pass through ``pack_hook``.

    The graph keeps the result of ``pack_hook`` instead of the tensor. ``unpack_hook`` turns it into a tensor
    each time the tensor is read: by a backward pass, ``ctx.saved_tensors`` or ``grad_fn._saved_self``. The
    tensor should be equal in value, size and dtype. Built-in ops, registered ops and Functions save in this
    way. Python numbers are not packed. ``pack_hook`` must not write its argument in place. A packed tensor
    needs no version check: writing into the original later raises no error.

    As in torch, only the innermost pair of the thread is used, unless it has ``compose=True``. Grad mode is
    off in ``pack_hook``. If its result holds a tensor that is a result of the saving call, the two hold each
    other until the graph is freed or Python collects garbage; detach the tensor to avoid this.

    Args:
        pack_hook: receives a Tensor and returns any object.
        unpack_hook: receives this object and returns a Tensor. Ops cast another precision back, and
            broadcast a shape.
        compose: Tensors in the result of ``pack_hook`` also go through the enclosing pairs, from the inside
            out. Unpacking goes from the outside in.

    Raises:
        AutogradError: hooks are disabled when the block is entered, or ``pack_hook`` writes into its
            argument.
        GradientTypeError: a hook is not callable, or ``unpack_hook`` returns an object that is not a Tensor.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import saved_tensors_hooks
        >>> x = oplib.tensor([3.0], requires_grad=True)
        >>> with saved_tensors_hooks(lambda t: t.numpy(force=True), lambda kept: oplib.tensor(kept)):
        ...     y = x * x
        >>> y.sum().backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(
        self,
        pack_hook: Callable[[Tensor], Any],
        unpack_hook: Callable[[Any], Tensor],
        *,
        compose: bool = False,
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self.compose = compose
        self._before: list[ModeState] = []

    def __enter__(self) -> None:
        pair = _make_allowed_pair(self.pack_hook, self.unpack_hook, compose=self.compose)
        state = enter_block()
        self._before.append(state)
        state.hook_pairs = (*state.hook_pairs, pair)

    def __exit__(self, *exc_info: object) -> None:
        state = self._before[-1]  # inlines pop_hooks, because an interrupt may come at a call
        if not state.hook_pairs:
            pop_hooks()
        state.hook_pairs = state.hook_pairs[:-1]
        leave_block(state)
        del self._before[-1]


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """Disables hooks for saved tensors in a block of code or a function: activating one is an error.

    Args:
        error_message: the text of the error. After the block the enclosing message, if any, is restored.

    Raises:
        AutogradError: hooks are already active. The error has this message.
        GradientTypeError: the message is not a string.

    Example:
        >>> from oplib.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
        >>> with disable_saved_tensors_hooks("not in here"):
        ...     with saved_tensors_hooks(lambda t: t, lambda t: t):
        ...         pass
        Traceback (most recent call last):
        oplib.errors.AutogradError: not in here
    """
    if not isinstance(error_message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise GradientTypeError(
            f"disable_saved_tensors_hooks: 'error_message' is no string. Got {type(error_message).__name__}. "
            f"Give the text of the error."
        )
    state = modes.state
    if state.hook_pairs:
        state.hooks_disabled = None
        raise AutogradError(error_message)
    state = enter_block()
    before, state.hooks_disabled = state.hooks_disabled, error_message
    try:
        yield
    finally:
        state.hooks_disabled = before
        leave_block(state)


def pack_through(pairs: Sequence[HookPair], tensor: Tensor) -> Any:
    """Returns the object that hooks make of a tensor, with grad mode off.

    Raises AutogradError if a hook writes the tensor.
    """
    version = tensor._storage.version
    state = modes.state
    before = state.grad_enabled, state.constant_in
    try:
        state.grad_enabled, state.constant_in = False, UNCUT
        packed = pairs[0].pack(tensor)
        for pair in pairs[1:]:
            packed = _Bundle(packed, pair)
    finally:
        state.grad_enabled, state.constant_in = before
    if tensor._storage.version != version:
        raise AutogradError(
            "saved_tensors_hooks: a saved tensor pack hook is modifying its input in place. Its version went "
            f"from {version} to {tensor._storage.version}, so the saved value would not be the one that "
            f"the op has used. Write into a clone() of it."
        )
    return packed


def unpack_through(pairs: Sequence[HookPair], packed: Any) -> Tensor:
    """Returns the tensor that hooks make of a packed object. They run in the grad mode of the reader.

    Raises:
        GradientTypeError: a hook returned an object that is not a Tensor.
    """
    state = modes.state
    before = state.constant_in
    try:
        state.constant_in = UNCUT
        for pair in pairs[:0:-1]:
            packed = packed.unpack(pair)
        tensor = pairs[0].unpack(packed)
        return tensor if tensor.__class__ is Tensor else _checked(tensor)
    finally:
        state.constant_in = before


class _Bundle:
    """The result of an inner pair, with the Tensors in it packed by an outer one."""

    __slots__ = ("_leaves", "_packed", "_spec")

    def __init__(self, packed: Any, pair: HookPair) -> None:
        leaves, spec = tree_flatten(packed)
        self._spec: TreeSpec = spec
        self._packed = [isinstance(leaf, Tensor) for leaf in leaves]
        self._leaves = [
            pair.pack(leaf) if is_packed else leaf
            for leaf, is_packed in zip(leaves, self._packed, strict=True)
        ]

    def unpack(self, pair: HookPair) -> Any:
        """Returns the result of the inner pair."""
        leaves = [
            _checked(pair.unpack(leaf)) if is_packed else leaf
            for leaf, is_packed in zip(self._leaves, self._packed, strict=True)
        ]
        return tree_unflatten(leaves, self._spec)


def _checked(tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise GradientTypeError(
            f"saved_tensors_hooks: the output of an unpack_hook is expected to be a Tensor. Got result of "
            f"type {type(tensor).__name__}. Return a Tensor equal to the one that was packed."
        )
    return tensor
