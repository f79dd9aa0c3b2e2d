"""Alias and write marks: which arguments an op writes, and what shares memory with what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AliasInfo:
    """The alias mark of an argument or a return: ``(a!)``, ``(a|b)``, ``(a -> *)``.

    Attributes:
        is_write: the value, or something in it, is written.
        before_set: the alias sets it belongs to before the call. Empty where only the elements are marked, as
            in ``Tensor(a!)[]``.
        after_set: the same after the call; the default says it does not change.
        elements: the marks of the elements of a list (one entry) or of a tuple (one for each place); empty if
            there is none.
    """

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str] | None = None
    elements: tuple[AliasInfo | None, ...] = ()

    def __post_init__(self) -> None:
        if self.after_set is None:
            object.__setattr__(self, "after_set", self.before_set)
