"""The names that ``jax.named_scope`` gives to a call, for the operations of its backward."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jax.extend.source_info_util import NameStack, current_name_stack, set_name_stack

_NONE = NameStack()


def note_scope(node: Any) -> None:
    """Stores the names around the current line, if there are any."""
    names = current_name_stack()
    if names != _NONE:
        node._scope = names


def enter_scope(node: Any) -> AbstractContextManager[Any]:
    """Returns a context in which operations have the names of the call that made a node."""
    return nullcontext() if node._scope is None else set_name_stack(node._scope)
