"""Alias marks: which arguments an op writes, and which values share memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AliasInfo:
    """The alias mark of an argument or a return: ``(a!)``, ``(a|b)``, ``(a -> *)``.

    Attributes:
        is_write: the op writes the value or an element of it.
        before_set: the alias sets of the value before the call. Empty if only the elements have marks, as in
            ``Tensor(a!)[]``.
        after_set: the alias sets after the call; by default ``before_set``.
        elements: the marks of the elements: one entry for a list, one entry per position for a tuple. Empty
            if no element has a mark.
    """

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str] | None = None
    elements: tuple[AliasInfo | None, ...] = ()

    def __post_init__(self) -> None:
        if self.after_set is None:
            object.__setattr__(self, "after_set", self.before_set)
