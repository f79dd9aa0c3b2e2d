"""Hooks through which every tensor goes that is saved for a backward pass: the pairs in force in a thread.

While a pair is in force the calls of its thread take the complete path (``modes.state.watchers``), where
saving asks for it; where none is, nothing is paid.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from oplib.errors import AutogradError, GradientTypeError
from oplib.modes import modes
from oplib.pytree import TreeSpec, tree_flatten, tree_unflatten
from oplib.tensor import Tensor

__all__ = ["HookPair", "disable_saved_tensors_hooks", "saved_tensors_hooks"]


class HookPair(NamedTuple):
    """One pair of hooks.

    Attributes:
        pack: makes of a tensor what is kept in its place.
        unpack: makes of what was kept a tensor again.
        compose: what it packs goes through the pair around it too.
    """

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]
    compose: bool = False


class _HookStack(threading.local):
    """The pairs of this thread, the innermost last, and why there may be none."""

    pairs: tuple[HookPair, ...] = ()
    disabled: str | None = None


_stack = _HookStack()


def active_pairs() -> tuple[HookPair, ...]:
    """Returns the pairs that a tensor saved now goes through, in order; often the innermost alone."""
    pairs = _stack.pairs
    if not pairs:
        return ()
    return pairs[::-1] if pairs[-1].compose else pairs[-1:]


def make_pair(pack: object, unpack: object, *, compose: bool = False, caller: str) -> HookPair:
    """Returns two callables as a pair.

    Raises:
        GradientTypeError: one of them cannot be called.
    """
    for role, hook in (("pack", pack), ("unpack", unpack)):
        if not callable(hook):
            raise GradientTypeError(
                f"{caller}: the {role} hook cannot be called. Got {type(hook).__name__}. Give a function of "
                f"one argument."
            )
    return HookPair(pack, unpack, compose)  # pyright: ignore[reportArgumentType]  both are callable


def push_hooks(
    pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor], *, compose: bool = False
) -> None:
    """Puts a pair in force in this thread, inside those that are.

    Raises:
        AutogradError: hooks are disabled, with the message that was given then.
        GradientTypeError: one of the hooks cannot be called.
    """
    pair = make_pair(pack_hook, unpack_hook, compose=compose, caller="saved_tensors_hooks")
    if _stack.disabled is not None:
        raise AutogradError(_stack.disabled)
    _stack.pairs = (*_stack.pairs, pair)
    modes.state.watchers += 1


def pop_hooks() -> None:
    """Takes the innermost pair of this thread away.

    Raises:
        AutogradError: there is none.
    """
    if not _stack.pairs:
        raise AutogradError(
            "_pop_saved_tensors_default_hooks: no hooks are in force in this thread. Each pop needs a push "
            "before it. Use the context manager saved_tensors_hooks."
        )
    _stack.pairs = _stack.pairs[:-1]
    modes.state.watchers -= 1


class saved_tensors_hooks:  # noqa: N801  a function to its users
    """Lets every tensor that is saved for a backward pass go through ``pack_hook``, in a block of code.

    The graph keeps what ``pack_hook`` returns instead of the tensor, and ``unpack_hook`` makes a tensor of it
    each time it is read: by a backward pass, ``ctx.saved_tensors`` or ``grad_fn._saved_self``. It should be
    equal in value, size and dtype. Built-in and registered ops and Functions save in this way; Python
    numbers are not packed. The tensor given to ``pack_hook`` must not be written in place, and what is packed
    needs no version check: writing into the tensor later raises no error.

    Only the innermost pair of the thread is used, as in torch, unless it says ``compose=True``. Grad mode is
    off in ``pack_hook``. If what it returns holds a tensor that is a result of the saving call, the two hold
    each other until the graph is freed or Python collects garbage: detach the tensor.

    Args:
        pack_hook: gets a Tensor and returns any object.
        unpack_hook: gets that object and returns a Tensor.
        compose: the Tensors in what ``pack_hook`` returns go through the pairs around this one as well, from
            the inside out; unpacking runs the other way.

    Raises:
        AutogradError: on entering, where hooks are disabled; on saving, where ``pack_hook`` writes into what
            it is given.
        GradientTypeError: a hook cannot be called, or ``unpack_hook`` returns something that is no Tensor.

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

    def __enter__(self) -> None:
        push_hooks(self.pack_hook, self.unpack_hook, compose=self.compose)

    def __exit__(self, *exc_info: object) -> None:
        pop_hooks()


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """Makes it an error to put hooks for saved tensors in force, in a block of code or a function.

    Args:
        error_message: the text of the error; an enclosing one comes back after the block.

    Raises:
        AutogradError: hooks are in force already, with this message.
        GradientTypeError: the message is no string.

    Example:
        >>> from oplib.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
        >>> with disable_saved_tensors_hooks("not in here"):
        ...     with saved_tensors_hooks(lambda t: t, lambda t: t):
        ...         pass
        Traceback (most recent call last):
        oplib.errors.AutogradError: not in here
    """
    if not isinstance(error_message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  what users give
        raise GradientTypeError(
            f"disable_saved_tensors_hooks: 'error_message' is no string. Got {type(error_message).__name__}. "
            f"Give the text of the error."
        )
    if _stack.pairs:
        _stack.disabled = None
        raise AutogradError(error_message)
    before, _stack.disabled = _stack.disabled, error_message
    try:
        yield
    finally:
        _stack.disabled = before


def pack_through(pairs: tuple[HookPair, ...], tensor: Tensor) -> Any:
    """Returns what is kept in the place of a tensor, by hooks that run with grad mode off.

    Raises:
        AutogradError: a hook has written into the tensor.
    """
    version = tensor._storage.version
    state = modes.state
    grad_mode = state.grad_enabled
    state.grad_enabled = False
    try:
        packed = pairs[0].pack(tensor)
        for pair in pairs[1:]:
            packed = _Bundle(packed, pair)
    finally:
        state.grad_enabled = grad_mode
    if tensor._storage.version != version:
        raise AutogradError(
            "saved_tensors_hooks: a saved tensor pack hook is modifying its input in place. Its version went "
            f"from {version} to {tensor._storage.version}, and what the op computed would no longer be what "
            f"was saved. Write into a clone() of it."
        )
    return packed


def unpack_through(pairs: tuple[HookPair, ...], packed: Any) -> Tensor:
    """Returns the tensor that was packed, by hooks that run in the grad mode of whoever reads it.

    Raises:
        GradientTypeError: a hook returned something that is no Tensor.
    """
    for pair in pairs[:0:-1]:
        packed = packed.unpack(pair)
    return _checked(pairs[0].unpack(packed))


class _Bundle:
    """What an inner pair has packed, after an outer one has packed the Tensors in it."""

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
        """Returns what the inner pair has packed."""
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
