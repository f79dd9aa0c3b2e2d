"""Which tensors are views of which, in the eyes of the tape, and how they came about."""

from __future__ import annotations

import enum
import weakref
from typing import Any


class Creation(enum.IntEnum):
    """How a view was made, which decides whether its history may be rebased when something is written.

    Attributes:
        ORDINARY: by an op that gives one view, while grad mode was on.
        FUNCTION: by the forward of a user's Function, whose backward a rebased history would go past.
        SEVERAL: by an op that gives several views at once.
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
    """Lets a root know of a view that shows its history, so that both can be kept in step.

    The root knows it weakly. Places of views that are gone are given up when the list has doubled, so a loop
    that makes views of one root pays no more for the last than for the first.
    """
    views: list[Any] | None = root._views
    if views is None:
        views = root._views = [_FEW]  # first the length at which the list is looked through
    elif len(views) > views[0]:
        alive = [ref for ref in views[1:] if ref() is not None]
        views = root._views = [2 * len(alive) + _FEW, *alive]
    views.append(weakref.ref(view))


def take_views(root: Any) -> list[Any]:
    """Returns the views that the root knows of, and makes it forget them."""
    views = root._views
    if views is None:
        return []
    root._views = None
    return [view for view in (ref() for ref in views[1:]) if view is not None]


def mark_stale(root: Any, stale: type, *, restricted_only: bool) -> None:
    """Makes the views of a root look their history up anew when they are next asked for it.

    Args:
        root: the tensor whose history has changed, or that has been written.
        stale: the class of views that have to look.
        restricted_only: only views whose history may not be rebased are meant: for these a write is enough.
    """
    for view in take_views(root):
        if restricted_only and not view._creation:
            note_view(root, view)
        else:
            view.__class__ = stale


def share_requires_grad(root: Any) -> None:
    """Makes the views of a root that has just begun to require grad do so too, as leaves of their own."""
    for view in take_views(root):
        view._requires_grad = True
        note_view(root, view)
