"""The views of a tensor that share its history, and the way in which each was made."""

from __future__ import annotations

import enum
import weakref
from typing import Any

from oplib.tensor.storage.class_changes import change_class


class Creation(enum.IntEnum):
    """The way in which a view was made. It decides whether a write may rebase its history.

    Attributes:
        ORDINARY: by an op that returns one view, with grad mode on.
        FUNCTION: by the forward of a user's Function. A rebased history would skip its backward.
        SEVERAL: by an op that returns several views.
        NO_GRAD: with grad mode off.
        INFERENCE: in inference mode.
    """

    ORDINARY = 0
    FUNCTION = 1
    SEVERAL = 2
    NO_GRAD = 3
    INFERENCE = 4


_FEW = 8


def note_view(root: Any, view: Any) -> None:
    """Registers a view at its root, so that both can keep the same history.

    The root holds the view weakly. References to dead views are removed when the list has doubled, so each
    view of a root costs the same.
    """
    views: list[Any] | None = root._views
    if views is None:
        views = root._views = [_FEW]  # the first item is the length at which dead references are removed
    elif len(views) > views[0]:
        alive = [ref for ref in views[1:] if ref() is not None]
        views = root._views = [2 * len(alive) + _FEW, *alive]
    views.append(weakref.ref(view))


def take_views(root: Any) -> list[Any]:
    """Returns the registered views of a root, and removes them from it."""
    views = root._views
    if views is None:
        return []
    root._views = None
    return [view for view in (ref() for ref in views[1:]) if view is not None]


def has_views(root: Any) -> bool:
    """Tells whether there are registered views of a tensor."""
    return any(ref() is not None for ref in (root._views or ())[1:])


def mark_stale(root: Any, stale: type, *, restricted_only: bool) -> None:
    """Makes the views of a root look up their history when it is next read.

    Args:
        root: the tensor whose history has changed, or that was written.
        stale: the class of views that must look up their history.
        restricted_only: marks only views whose history may not be rebased. For these a write is enough.
    """
    if restricted_only and not _has_restricted(root):
        return
    for view in take_views(root):
        if restricted_only and not view._creation:
            note_view(root, view)
        else:
            change_class(view, stale)


def _has_restricted(root: Any) -> bool:
    """Tells whether a view of a root may not be rebased. It removes the list of views if none lives."""
    views: list[Any] = root._views
    references, is_any_alive = views[1:], False
    for reference in references:
        view = reference()
        if view is not None:
            if view._creation:
                return True
            is_any_alive = True
    if not is_any_alive and len(views) == len(references) + 1:  # no other thread has registered one
        root._views = None
    return False


def share_requires_grad(root: Any) -> None:
    """Makes the views of a root that now requires grad require grad too, as leaves."""
    for view in take_views(root):
        view._requires_grad = True
        note_view(root, view)
