"""The registry: all contributions of all libraries to all ops. The process has one.

Calls read an overload's record without a lock; the registry only replaces records. Its tuples of
contributions are replaced, never changed, and one lock orders the writers.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import jax

from oplib.errors import RegistrationError
from oplib.library.dispatch.overload_call import build_call
from oplib.library.op_objects.deferral import settle, settle_all
from oplib.library.op_objects.namespace import publish, withdraw
from oplib.library.op_objects.overload import OpOverload, overloads
from oplib.library.op_records.contribution import (
    FOREVER,
    Contribution,
    Contributions,
    Owner,
    Slot,
    compose_record,
    find_newest,
)
from oplib.library.op_records.qualname import LocalQualname, Qualname
from oplib.library.op_records.sites import Site, find_definition, find_origin, find_site


class Snapshot(NamedTuple):
    """All registrations at one time."""

    contributions: dict[Qualname, Contributions]
    disabled: dict[Qualname, frozenset[str]]
    sole_owners: dict[str, Owner]


class Registry:
    """The contributions by the name of their op, and all consequences of a change of them."""

    def __init__(self) -> None:
        self._contributions: dict[Qualname, Contributions] = {}
        self._disabled: dict[Qualname, frozenset[str]] = {}
        self._sole_owners: dict[str, Owner] = {}
        self._local_ops: WeakSet[OpOverload] = WeakSet()
        self._lock = threading.RLock()
        self._is_writing = False
        self._dropped: deque[Owner] = deque()

    def read(self, qualname: Qualname) -> Contributions:
        """Returns the contributions to an op, oldest first."""
        if isinstance(qualname, LocalQualname):
            return qualname.pieces
        settle(qualname.packet)
        return self._contributions.get(qualname, ())

    def claim_namespace(self, owner: Owner) -> None:
        """Makes a library the only ``DEF`` of its namespace, or raises RegistrationError."""
        with self._writing():
            first = self._sole_owners.setdefault(owner.namespace, owner)
            if first is not owner:
                raise RegistrationError(
                    f"Library: Only a single DEF library can be used for the namespace {owner.namespace}. "
                    f"The first was made at {first.site}, another at {owner.site}. "
                    f"Make this one a FRAGMENT, of which there may be many."
                )

    def define(self, qualname: Qualname, facts: Mapping[Slot, Any], owner: Owner) -> OpOverload:
        """Defines an op, with further facts by their slots.

        An op of ``custom_op`` replaces an earlier one, with the registrations that name no library.

        Raises:
            RegistrationError: the op is defined already; the text names both places.

        Warns:
            UserWarning: the earlier op comes from another file, or from a function of another name.
        """
        site = find_site()
        new = tuple([Contribution(slot, value, owner, site) for slot, value in facts.items()])
        with self._writing(qualname):
            kept = self.read(qualname)
            first = find_newest(kept, "definition")
            if first is not None:
                if first.value.function is None or facts["definition"].function is None:
                    raise RegistrationError(
                        f"{qualname}: an operator with the same name and overload name is registered "
                        f"multiple times. First registered at {first.site} as {first.value.schema}, again at "
                        f"{site} as {facts['definition'].schema}. Destroy the first library, or choose "
                        "another name."
                    )
                _warn_of_replacement(qualname, first, facts["definition"].function, site)
                kept = tuple(piece for piece in kept if piece.owner is not FOREVER)
                self._disabled.pop(qualname, None)
            return self._publish(qualname, (*kept, *new))

    def add(
        self,
        qualname: Qualname,
        slot: Slot,
        value: Any,
        owner: Owner,
        check: Callable[[Contributions], None] | None = None,
    ) -> None:
        """Adds one fact on top of its slot; ``check`` gets the earlier contributions and may raise."""
        site = find_site()
        with self._writing(qualname):
            pieces = self.read(qualname)
            if check is not None:
                check(pieces)
            self._publish(qualname, (*pieces, Contribution(slot, value, owner, site)))

    def drop(self, owner: Owner) -> None:
        """Removes all contributions of a library. Finalizers call this too, so it may run at any moment."""
        self._dropped.append(owner)
        with self._writing():
            pass  # the next writer removes them

    def set_disabled(self, qualname: Qualname, slot: str, *, disabled: bool) -> bool:
        """Disables or enables the kernel of a slot; returns whether it was disabled."""
        with self._writing(qualname):
            before = self._disabled.get(qualname, frozenset())
            self._disabled[qualname] = before | {slot} if disabled else before - {slot}
            self._publish(qualname, self.read(qualname))
            return slot in before

    def refresh(self) -> None:
        """Gives every op a record of a new version, so that nothing compiled before is used again."""
        with self._writing():
            for qualname, pieces in self._list_ops():
                self._publish(qualname, pieces)

    def save(self) -> Snapshot:
        """Returns all current registrations, for :meth:`restore`."""
        settle_all()
        with self._writing():
            return Snapshot(dict(self._contributions), dict(self._disabled), dict(self._sole_owners))

    def restore(self, saved: Snapshot) -> None:
        """Removes all registrations made since, and restores those removed since."""
        with self._writing():
            self._sole_owners = dict(saved.sole_owners)
            for qualname in [*saved.contributions, *self._contributions]:
                pieces = saved.contributions.get(qualname, ())
                disabled = saved.disabled.get(qualname, frozenset())
                if pieces != self.read(qualname) or disabled != self._disabled.get(qualname, frozenset()):
                    self._disabled[qualname] = disabled
                    self._publish(qualname, pieces)

    @contextmanager
    def _writing(self, qualname: Qualname | None = None) -> Generator[None]:
        """Orders writers, of one op or of all; an op that is deferred is registered first.

        A finalizer that interrupts a writer in its thread leaves the work to it.
        """
        if qualname is not None:
            settle(qualname.packet)
        with self._lock:
            if self._is_writing:
                yield
                return
            self._is_writing = True
            try:
                yield
            finally:
                try:
                    while self._dropped:
                        self._forget(self._dropped.popleft())
                finally:
                    self._is_writing = False

    def _forget(self, owner: Owner) -> None:
        if self._sole_owners.get(owner.namespace) is owner:
            del self._sole_owners[owner.namespace]
        for qualname, pieces in self._list_ops():
            rest = tuple(piece for piece in pieces if piece.owner is not owner)
            if len(rest) < len(pieces):
                self._publish(qualname, rest)

    def _list_ops(self) -> Iterator[tuple[Qualname, Contributions]]:
        """Yields the names of all ops with their contributions, also of the local ops that live."""
        yield from list(self._contributions.items())
        for op in list(self._local_ops):  # the list keeps an op alive until it is published
            yield op._qualname, self.read(op._qualname)

    def _publish(self, qualname: Qualname, pieces: Contributions) -> OpOverload:
        """Stores the contributions to an op and updates its overload, packet and namespace."""
        is_local = isinstance(qualname, LocalQualname)  # the registry does not hold it, nor does a namespace
        op: OpOverload = (
            qualname.home() if is_local else overloads.intern(str(qualname), lambda: OpOverload(qualname))
        )
        version = op.record.version + 1 if hasattr(op, "record") else 0
        record = compose_record(pieces, self._disabled.get(qualname, ()), version=version)
        if is_local:
            qualname.pieces = pieces
        else:
            self._contributions[qualname] = pieces
        was_alive = op.alive
        if record is not None:
            op.replace(record, self._build)
        elif was_alive:
            op.retire()
            self._disabled.pop(qualname, None)
        if is_local:
            self._local_ops.add(op)
            _ = op.in_traces  # has the new record too
            return op
        if op.alive != was_alive:
            (publish if op.alive else withdraw)(op)
        if not pieces:
            del self._contributions[qualname]
            overloads.retire(op.name())
        return op

    def _build(self, overload: OpOverload) -> None:
        """Builds the function of a call of the overload, for its current record."""
        with self._writing():
            if not overload._is_built and overload.alive:
                overload.take_call(build_call(overload))


def _warn_of_replacement(qualname: Qualname, first: Contribution, function: Any, site: Site) -> None:
    """Warns if a definition of an op is no repetition of the first, as when a cell or a module runs again."""
    if find_origin(first.value.function) != find_origin(function):
        warnings.warn(
            f"{qualname}: a second op of this name replaces the first. The first is "
            f"{find_definition(first.value.function)}, registered at {first.site}; the second is "
            f"{find_definition(function)}, registered at {site}. Choose another name for one of them.",
            stacklevel=find_site().stacklevel,
        )


registry = Registry()


def refresh() -> None:
    """Makes compiled and traced code start anew at its next call: that of ops, and all of JAX's.

    Eager calls and new traces use a kernel or rule at once after its registration. A function that JAX has
    traced before keeps the old one, and so does a second ``jax.jit`` of the same function. ``refresh`` is for
    these functions, and for a kernel that reads global state that has changed. Afterwards everything is
    compiled again.

    Example:
        >>> from oplib.library import refresh
        >>> refresh()
    """
    registry.refresh()
    jax.clear_caches()
