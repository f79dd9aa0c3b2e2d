"""The structure of the results of one call: flat arrays, and the static description of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax

from oplib.errors import ResultError, describe

from .layout import Entries, Entry, EntryKind, Fixed, count_arrays, rebuild_tangent
from .trees import TreeEntry, split_tree


class Structure(Entries):
    """The static part of a result: one entry per written argument, then one per declared return.

    The entries are those of layouts: ``EntryKind.array``, ``EntryKind.absent`` for None, and a tree for
    everything else, also a list or a number. The structure has no leaves as a pytree, so a traced function
    can return it beside the arrays.

    Attributes:
        entries: one entry per written argument and return.
        written: the number of entries for written arguments.
        is_plain: every entry is one array, so the flat arrays are the results.
    """

    __slots__ = ("is_plain", "written")

    def __init__(self, entries: Sequence[Entry], written: int) -> None:
        super().__init__(entries)
        self.written = written
        self.is_plain = all(entry is EntryKind.array for entry in entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (self.entries, self.written) == (other.entries, other.written)

    def __hash__(self) -> int:
        return hash((self.entries, self.written))

    def __repr__(self) -> str:
        return repr(self.arrange([_STAR] * sum(map(count_arrays, self.entries))))

    @property
    def written_count(self) -> int:
        """Returns the number of flat arrays that are new values of written arguments."""
        return sum(map(count_arrays, self.entries[: self.written]))

    def without_written(self) -> Structure:
        """Returns the structure of the declared returns alone."""
        return Structure(self.entries[self.written :], 0) if self.written else self

    def arrange(self, flat: Sequence[Any]) -> Any:
        """Arranges flat values as the op returns them."""
        return pack(self.rebuild(flat))

    def arrange_returns(self, flat: Sequence[Any]) -> Any:
        """Arranges the flat values of the declared returns, without new values of written arguments."""
        return pack(self.rebuild(flat)[self.written :])

    def spread(self, values: Sequence[Any], stands_for_all: Callable[[Any], bool]) -> list[Any]:
        """Returns one value per array.

        Args:
            values: for each entry a tree of its structure.
            stands_for_all: tells whether a value stands for all arrays below its place.

        Raises:
            ValueError: a tree has another structure.
        """
        spread: list[Any] = []
        for entry, value in zip(self.entries, values, strict=True):
            is_tree = isinstance(entry, TreeEntry)
            spread.extend(entry.pick(value, stands_for_all) if is_tree else [value] * count_arrays(entry))
        return spread

    def rebuild_grads(self, grads: Sequence[Any]) -> list[Any]:
        """Arranges one gradient per array as one per declared return; None for a number."""
        return self.rebuild(grads, rebuild_tangent)[self.written :]


class _Star:
    """Stands for an array in the text of a structure."""

    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def require_same_structure(op: str, part: str, structure: Structure, due: Structure) -> None:
    """Raises ResultError if what runs instead of a kernel, or describes it, returns another structure.

    Args:
        op: the name of the op.
        part: what has run, for errors.
        structure: the structure of its results.
        due: the structure of the kernel's results.
    """
    if structure != due:
        raise ResultError(
            f"{op}: {part} and the kernel return results of different structures. Got {structure}, and from "
            f"the kernel {due}, where * is an array. Return the same containers, with the same static parts."
        )


def pack(results: Sequence[Any]) -> Any:
    """Returns one result as itself, several as a tuple, none as None."""
    return results[0] if len(results) == 1 else tuple(results) if results else None


Results = tuple[Structure, Sequence[Any]]
"""The results of a kernel: their structure, and the flat arrays."""


def make_structure(
    values: Sequence[Any], written: int, read: Callable[[Any], Any], *, subject: str
) -> tuple[Structure, list[Any]]:
    """Splits the results of a kernel, in canonical form, into structure and flat arrays.

    Args:
        values: one value per written argument and return.
        written: the number of written arguments among them.
        read: returns the array of a leaf, None if the leaf is static.
        subject: the op and what returned the values, for errors.

    Raises:
        ResultError: a tree has a leaf that is neither an array nor a static value.
    """
    entries: list[Entry] = []
    flat: list[Any] = []
    for value in values:
        array = None if value is None else read(value)
        if value is None:
            entries.append(EntryKind.absent)
        elif array is not None:
            entries.append(EntryKind.array)
            flat.append(array)
        else:
            entry, arrays = split_tree(value, read, lambda leaf: _fix(leaf, subject))
            entries.append(entry)
            flat.extend(arrays)
    return Structure(entries, written), flat


def _fix(leaf: Any, subject: str) -> Fixed:
    """Keeps a static leaf. An object that is equal only to itself may hide arrays, and is refused."""
    if callable(leaf) or type(leaf).__hash__ not in (None, object.__hash__):
        with suppress(TypeError):
            return Fixed(leaf)
    raise ResultError(
        f"{subject} returned {describe(leaf)}, of type {type(leaf).__name__}, which is neither an array nor "
        "a pytree. Register the class with jax.tree_util.register_dataclass, or return its arrays as a dict, "
        "a tuple or a NamedTuple."
    )


jax.tree_util.register_pytree_node(
    Structure, lambda structure: ((), structure), lambda structure, _: structure
)

ONE_ARRAY = Structure((EntryKind.array,), 0)
