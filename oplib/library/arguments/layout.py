"""The layout of a call: which arguments are arrays, which are static, and how they are joined again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.masks import pick_given
from oplib.errors import ArgumentError
from oplib.frozen import freeze
from oplib.library.schema import Argument, FunctionSchema, split_values
from oplib.protocols import Values

from .keys import make_generator
from .trees import Keyed, TreeEntry, is_object_tree, open_functions, read_leaf, split_tree


class EntryKind(enum.Enum):
    """The kind of an argument's position that holds neither a static value nor a list."""

    array = "array"
    absent = "absent"
    key = "key"  # an array too: the key for a Generator


class Fixed(Keyed):
    """A static argument."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = freeze(value)

    def __repr__(self) -> str:
        return repr(self.value)


class TupleFlags(tuple[bool, ...]):
    """The flags of a list of tensors that code gets as a tuple."""

    __slots__ = ()


# A list of tensors has one flag per item: True for an array, False for None.
Entry = EntryKind | Fixed | TreeEntry | tuple[bool, ...]


class Entries:
    """The static parts of several values.

    Attributes:
        entries: one for each value.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)

    def rebuild(
        self, arrays: Iterable[Any], one: Callable[[Entry, Iterator[Any]], Any] | None = None
    ) -> list[Any]:
        """Joins arrays and static parts again, as one value per entry.

        Args:
            arrays: the arrays of all entries, or as many other values, such as gradients.
            one: makes one value; by default :func:`rebuild_entry`.
        """
        rest = iter(arrays)
        return [(one or rebuild_entry)(entry, rest) for entry in self.entries]


class Layout(Entries):
    """The static part of a call: one entry per schema argument.

    Attributes:
        schema: the schema of the call.
        entries: one entry per argument.
        array_count: the number of arrays in the call, counting the items of lists.
        is_transient: a function among the arguments ends with its last user, and so must what is compiled.
        refs: each ``jax.Ref`` among the arguments.
    """

    __slots__ = ("_hash", "array_count", "is_transient", "refs", "schema")

    def __init__(self, schema: FunctionSchema, entries: Sequence[Entry]) -> None:
        super().__init__(entries)
        self.schema = schema
        self.array_count = sum(map(count_arrays, entries))
        trees = [entry for entry in entries if isinstance(entry, TreeEntry)]
        self.is_transient = any(entry.is_transient for entry in trees)
        self.refs = [ref for entry in trees for ref in entry.refs]
        self._hash = hash(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.entries == other.entries

    def __hash__(self) -> int:
        return self._hash

    @property
    def written_indices(self) -> list[int]:
        """Returns the positions of the arguments that the op writes."""
        return [index for index, argument in enumerate(self.schema.arguments) if argument.is_written]

    def list_functions(self) -> list[str]:
        """Returns the names of the arguments that are functions or contain some."""
        return [
            argument.name
            for argument, entry in zip(self.schema.arguments, self.entries, strict=True)
            if isinstance(entry, TreeEntry) and (argument.is_object or entry.is_transient)
        ]

    def find_argument(self, position: int) -> str:
        """Returns the name of the argument that contains the array at a flat position."""
        for argument, entry in zip(self.schema.arguments, self.entries, strict=True):
            position -= count_arrays(entry)
            if position < 0:
                return argument.name
        raise IndexError(position)

    def split(self, values: Sequence[Any]) -> tuple[Values, dict[str, Any]]:
        """Splits one value per schema argument into positional and keyword-only values."""
        return split_values(self.schema, values)

    def spread_facts(self, facts: Sequence[Any], *, absent: Any = False) -> list[Any]:
        """Arranges one fact per array as one per argument: a list for a list, ``absent`` without an array."""
        return self.rebuild(facts, partial(_spread_facts, absent=absent))


def replace_refs(layout: Layout, refs: Sequence[Any]) -> Layout:
    """Returns a layout with other Refs among its arguments."""
    rest = iter(refs)
    entries = [own.replace_refs(rest) if isinstance(own, TreeEntry) else own for own in layout.entries]
    return Layout(layout.schema, entries)


def count_arrays(entry: Entry) -> int:
    """Returns the number of arrays in an argument."""
    if isinstance(entry, TreeEntry):
        return entry.count
    return sum(entry) if isinstance(entry, tuple) else int(entry in (EntryKind.array, EntryKind.key))


def rebuild_entry(entry: Entry, arrays: Iterator[Any]) -> Any:
    """Returns the value of an argument or result, with arrays from an iterator."""
    if entry is EntryKind.array:
        return next(arrays)
    if isinstance(entry, tuple):
        return _join(entry, [next(arrays) if present else None for present in entry])
    if isinstance(entry, Fixed):
        return copy_lists(entry.value)
    if isinstance(entry, TreeEntry):
        return entry.rebuild(arrays)
    return make_generator(next(arrays)) if entry is EntryKind.key else None


def _join(entry: tuple[bool, ...], items: list[Any]) -> list[Any] | Values:
    return tuple(items) if isinstance(entry, TupleFlags) else items


def rebuild_tangent(entry: Entry, tangents: Iterator[Any]) -> Any:
    """Returns the tangent or gradient of an argument or result: None in place of a static value."""
    if isinstance(entry, TreeEntry):
        return entry.rebuild(tangents, static=False)
    if isinstance(entry, Fixed):
        return None
    return next(tangents) if entry is EntryKind.key else rebuild_entry(entry, tangents)


def copy_lists(value: Any) -> Any:
    """Copies the lists in a value, because a kernel may change its lists and the layout is used again."""
    return type(value)(map(copy_lists, value)) if type(value) in {list, tuple} else value


def _spread_facts(entry: Entry, facts: Iterator[Any], absent: Any) -> Any:
    if entry in (EntryKind.array, EntryKind.key):
        return next(facts)
    if isinstance(entry, tuple):
        return _join(entry, [next(facts) if present else absent for present in entry])
    return entry.spread_facts(facts, absent) if isinstance(entry, TreeEntry) else absent


def make_layout(
    schema: FunctionSchema, values: Sequence[Any], operand: frozenset[str], *, op: str
) -> tuple[Layout, list[Any]]:
    """Splits the bound values of a call into its layout and its flat arrays.

    Args:
        schema: the op's schema.
        values: one value per schema argument, as the binder gives them.
        operand: names of number arguments that are operands.
        op: the op's name, for errors.

    Returns:
        The layout, and the flat list of the values at array positions. A Generator, or None in its place,
        stays in the list until ``keys.draw_keys`` replaces it by a key.

    Raises:
        ArgumentError: a static argument cannot be hashed.
    """
    entries: list[Entry] = []
    flat: list[Any] = []
    for argument, value in zip(schema.arguments, values, strict=True):
        if argument.is_tensor_list and value is not None:
            flags = TupleFlags if isinstance(value, tuple) else tuple
            entries.append(flags([member is not None for member in value]))
            flat.extend(pick_given(value))
        elif argument.is_tensor or argument.is_optional_tensor or argument.name in operand:
            entries.append(EntryKind.absent if value is None else EntryKind.array)
            if value is not None:
                flat.append(value)
        elif argument.is_generator:
            entries.append(EntryKind.key)
            flat.append(value)
        else:
            entry, arrays = _make_static_or_tree(argument, value, op)
            entries.append(entry)
            flat.extend(arrays)
    return Layout(schema, entries), flat


def _make_static_or_tree(argument: Argument, value: Any, op: str) -> tuple[Entry, list[Any]]:
    """Returns the entry of an argument, and its arrays if it is a tree with arrays."""
    if not (argument.is_tree or argument.is_object) or argument.kwarg_only:
        if argument.kwarg_only and is_object_tree(value):
            _refuse_frozen(value, f"{op}: argument '{argument.name}'")
        return _fix(value, argument.name, op), []

    def fix(leaf: Any) -> Fixed:
        return _fix(leaf, argument.name, op)

    subject = f"{op}: argument '{argument.name}'"
    opened, is_transient = open_functions(value, fix, subject=subject, is_static=argument.is_object)
    is_parted = is_transient is not None or is_object_tree(value)
    if is_parted or argument.is_tree:
        entry, arrays = split_tree(opened, read_leaf, fix, is_transient=bool(is_transient))
        if arrays or is_parted or entry.refs:
            return entry, arrays
    return fix(value), []


def _refuse_frozen(value: Any, subject: str) -> None:
    """Raises if the program of a call would keep the leaves of a pytree, which is not compared by value."""
    leaves = jax.tree_util.tree_leaves(value)
    is_compared = isinstance(value, Hashable) and type(value).__eq__ not in (object.__eq__, tuple.__eq__)
    if leaves and (not is_compared or any(read_leaf(leaf) is not None for leaf in leaves)):
        raise ArgumentError(
            f"{subject} is a pytree, and is given by keyword only. Got {type(value).__name__}. Keyword-only "
            "arguments are static: its leaves would be frozen in the program. Let the op take it by position."
        )


def _fix(value: Any, name: str, op: str) -> Fixed:
    try:
        return Fixed(value)
    except TypeError as error:
        raise ArgumentError(
            f"{op}: argument '{name}' is static but cannot be hashed. Got {type(value).__name__}. "
            f"Pass a hashable value, or an array, or register the class as a pytree."
        ) from error
