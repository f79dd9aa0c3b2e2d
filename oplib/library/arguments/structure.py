"""The structure of the results of one call: flat arrays, and the static description of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .layout import Entry, Fixed, Slot, count_arrays, make_tuple_entry, rebuild_entry, rebuild_tangent


class Structure:
    """The static part of a result: one entry per written argument, then one per declared return.

    The entries are those of layouts: ``Slot.absent`` for an absent written argument, and a tree for a tuple
    of arrays as one return, declared as ``((Tensor))``. The structure has no leaves as a pytree, so a traced
    function can return it beside the arrays.

    Attributes:
        entries: one entry per written argument and return.
        written: the number of entries for written arguments.
        is_plain: every entry is one array, so the flat arrays are the results.
    """

    __slots__ = ("entries", "is_plain", "written")

    def __init__(self, entries: Sequence[Entry], written: int) -> None:
        self.entries = tuple(entries)
        self.written = written
        self.is_plain = all(entry is Slot.array for entry in entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (self.entries, self.written) == (other.entries, other.written)

    def __hash__(self) -> int:
        return hash((self.entries, self.written))

    @property
    def written_count(self) -> int:
        """Returns the number of flat arrays that are new values of written arguments."""
        return sum(count_arrays(entry) for entry in self.entries[: self.written])

    def without_written(self) -> Structure:
        """Returns the structure of the declared returns alone."""
        return Structure(self.entries[self.written :], 0) if self.written else self

    def rebuild(self, flat: Sequence[Any]) -> list[Any]:
        """Arranges flat values, or their gradients, as one value per entry; a number stays unchanged."""
        rest = iter(flat)
        return [rebuild_entry(entry, rest) for entry in self.entries]

    def arrange(self, flat: Sequence[Any]) -> Any:
        """Arranges flat values as the op returns them."""
        return pack(self.rebuild(flat))

    def arrange_returns(self, flat: Sequence[Any]) -> Any:
        """Arranges the flat values of the declared returns, without new values of written arguments."""
        return pack(self.rebuild(flat)[self.written :])

    def rebuild_grads(self, grads: Sequence[Any]) -> list[Any]:
        """Arranges one gradient per array as one per declared return; None for a number."""
        rest = iter(grads)
        return [rebuild_tangent(entry, rest) for entry in self.entries][self.written :]


def pack(results: Sequence[Any]) -> Any:
    """Returns one result as itself, several as a tuple, none as None."""
    return results[0] if len(results) == 1 else tuple(results) if results else None


Results = tuple[Structure, list[Any]]
"""The results of a kernel: their structure, and the flat arrays."""


def make_structure(values: Sequence[Any], written: int, is_array: Any) -> tuple[Structure, list[Any]]:
    """Splits the results of a kernel, in canonical form, into structure and flat arrays.

    Args:
        values: one value per written argument and return.
        written: the number of written arguments among them.
        is_array: the predicate that decides whether a value is an array.
    """
    entries: list[Entry] = []
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            flags = tuple([member is not None for member in value])
            entries.append(flags if isinstance(value, list) else make_tuple_entry(flags))
            flat.extend([member for member in value if member is not None])
        elif is_array(value):
            entries.append(Slot.array)
            flat.append(value)
        else:
            entries.append(Slot.absent if value is None else Fixed(value))
    return Structure(entries, written), flat


jax.tree_util.register_pytree_node(
    Structure, lambda structure: ((), structure), lambda structure, _: structure
)

ONE_ARRAY = Structure((Slot.array,), 0)
