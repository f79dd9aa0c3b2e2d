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
LISTS = "_restricted_views", "_views"


def note_view(root: Any, view: Any, creation: int | None = None) -> None:
    """Registers a view at its root, so that both can keep the same history.

    The root holds the view weakly. References to dead views are removed when the list has doubled, so each
    view of a root costs the same. Views whose history may not be rebased have a list of their own, because
    a write that the tape does not record looks at no others.

    Args:
        root: the tensor whose history the view shares.
        view: the view.
        creation: how it was made; None to read it from the view, which takes a while.
    """
    if creation is None:
        creation = view._creation
    views: list[Any] | None = root._restricted_views if creation else root._views
    if views is None:
        views = [_FEW]  # the first item is the length at which dead references are removed
        setattr(root, LISTS[not creation], views)
    elif len(views) > views[0]:
        alive = [ref for ref in views[1:] if ref() is not None]
        views[:] = [2 * len(alive) + _FEW, *alive]
    views.append(weakref.ref(view))


def take_views(root: Any, *, restricted_only: bool = False) -> list[Any]:
    """Returns the registered views of a root, and removes them from it."""
    taken: list[Any] = []
    for name in LISTS[:1] if restricted_only else LISTS:
        views = getattr(root, name)
        if views is not None:
            setattr(root, name, None)
            taken += [view for reference in views[1:] if (view := reference()) is not None]
    return taken


def has_views(root: Any) -> bool:
    """Tells whether there are registered views of a tensor."""
    return any(ref() is not None for name in LISTS for ref in (getattr(root, name) or ())[1:])


def mark_stale(root: Any, stale: type, *, restricted_only: bool) -> None:
    """Makes the views of a root look up their history when it is next read.

    Args:
        root: the tensor whose history has changed, or that was written.
        stale: the class of views that must look up their history.
        restricted_only: marks only views whose history may not be rebased. For these a write is enough.
    """
    for view in take_views(root, restricted_only=restricted_only):
        change_class(view, stale)


def end_history(root: Any) -> None:
    """Makes a root a leaf that does not require grad, whose views keep their histories.

    The view that was written last reads its history first. Other views that were not read since the write
    lose theirs, as in torch.
    """
    written = getattr(root._grad_fn, "written", None)
    if written is not None and (view := written()) is not None:
        view._grad_fn  # noqa: B018  it looks its history up
    # From now on a write without history changes those of the views too.
    for view in take_views(root):
        if view._grad_fn is None:
            view._requires_grad = False
        note_view(root, view, Creation.NO_GRAD)
    root._grad_fn = None
    root._output_nr = 0
    root._requires_grad = False
