"""Readers: generated functions that find the operands of a program again.

A reader goes the ways that were found while tracing, from the function and the leaves of the arguments to the
Tensors that the program reads or writes. It returns None where a way is gone, or where something on the way
differs from what the program was compiled for. Its lines are written once for each program.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any
from weakref import ref

from oplib.generated_code import define_function
from oplib.tensor import Generator, Tensor, default_generator

from .candidates import Candidates
from .constants import ABSENT, identify, identify_object, read_constants, read_kind
from .entries import MISSING, is_stored, read_entries
from .lookups import LOOKUPS
from .paths import KEYS, SCALARS, CapturedPath

_numbers = itertools.count()
_MAX_SHOWN = 8
_OF_IS = frozenset({"a is b", "is_", "is_not"})
_SIZED = (dict, list, tuple, deque)
_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class Reader:
    """Writes the reader of one program.

    Args:
        name: of the function.
        paths: of the operands, in the order of the result: Tensors, and arrays that may change.
        changed: for each entry of a container that a call changes the container, its entries before the
            trace, and the key.
        candidates: what the function could read.
        returned: the objects without Tensors that a call returns.
        generators: the paths of Generators; None for one that is not wanted.

    Attributes:
        read: the reader: ``(function, leaves) -> (paths, (*containers, *generators))``, or None.
    """

    def __init__(
        self,
        name: str,
        paths: list[CapturedPath],
        changed: Sequence[tuple[CapturedPath, dict[Any, Any], Any]],
        candidates: Candidates,
        returned: Sequence[Any] = (),
        generators: Sequence[CapturedPath | None] = (),
    ) -> None:
        self._constants, self._identities = candidates.constants, candidates.identities
        self._names_of_code = candidates.names
        self._operands = {id(path.value) for path in paths}
        self._ancestors = candidates.ancestors
        self._places: set[tuple[int, str]] = set()
        self._names: dict[int, str] = {}
        # plain lines, and tests with what they find, and the expression of a text that names it
        self._lines: list[str | tuple[str, str, str]] = []
        self._namespace: dict[str, Any] = {
            "errors": _ERRORS,
            "differ": _differ,
            "are_others": _are_others,
            "list_changed": _list_changed,
            "kind_of": read_kind,
            "is_stored": is_stored,
            "default_generator": default_generator,
            "modules": sys.modules,
            "MISSING": MISSING,
            **{look_up.__name__: look_up for look_up in LOOKUPS},
        }
        for path in paths:
            self._add(path)
        for container, entries, key in changed:
            self._add_changed(container, entries, key)
        self._add_returned(candidates, {id(value) for value in returned})
        self._add_aliases([*paths, *[container for container, _, _ in changed]])
        for path in (*candidates.containers, *candidates.operands):
            self._add_distant(path)
        for path in (*candidates.containers, *candidates.operands):
            self._add_other_ways(path)
        if self._names_of_code.probes_objects:
            self._add_distinction([*candidates.containers, *candidates.operands])
        self._constants = self._identities = {}  # they hold objects of the user
        rest = [*[container for container, _, _ in changed], *generators]
        groups = [[None if path is None else self._add(path) for path in group] for group in (paths, rest)]
        results = ["".join(f"{name}, " for name in group) for group in groups]
        self._filename = f"<oplib.reader {next(_numbers)} of {name}>"
        self.read = self._write("(({}), ({}))".format(*results), "None")

    def explain(self, function: Any, leaves: Any) -> str:
        """Returns what differs on the ways to the operands; empty if nothing does."""
        return self._write("''", "{reason!r} + {detail}")(function, leaves)

    def _write(self, result: str, refusal: str) -> Callable[..., Any]:
        """Writes the reader, which returns one of two expressions: for a call that fits, or for another."""
        lines = [
            line
            if isinstance(line, str)
            else f"if {line[0]}: return {refusal.format(reason=line[1], detail=line[2])}"
            for line in self._lines
        ]
        gone = refusal.format(reason="the way to a captured Tensor has changed", detail="''")
        text = "\n".join(
            [
                "def read(function, leaves):",
                "    try:",
                *[f"        {line}" for line in lines],
                f"        return {result}",
                "    except errors:",
                f"        return {gone}",
            ]
        )
        return define_function(text, "read", self._filename, dict(self._namespace))

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._namespace)}"
        self._namespace[name] = value
        return name

    def _refuse(self, test: str, reason: str, detail: str = "''") -> None:
        self._lines.append((test, reason, detail))

    def _read(self, path: CapturedPath) -> str:
        """Adds the line that reads a path, unless it is there, and returns the variable."""
        name = self._names.get(id(path))
        if name is None:
            parent = "" if path.parent is None else self._read(path.parent)
            name = self._names[id(path)] = f"p{len(self._names)}"
            self._lines.append(f"{name} = {path.step.format(parent)}")
        return name

    def _add(self, path: CapturedPath) -> str:
        """Adds the lines that read a path, with tests of the containers on the way and their content."""
        if id(path) not in self._names:
            if path.parent is not None:
                self._add(path.parent)
            self._read(path)
            find = identify_object if isinstance(path.value, (Tensor, Generator)) else identify
            self._add_identity(find(path, self._names_of_code), path)
            self._add_constants(path)
        return self._names[id(path)]

    def _add_identity(self, identity: dict[str, Any], path: CapturedPath) -> None:
        for expression, value in identity.items():
            if expression.startswith(ABSENT):
                held = f"{expression.removeprefix(ABSENT).format(self._names[id(path)])}.keys()"
                names = self._constant(value)
                detail = f"str(sorted({held} & {names}))"
                self._refuse(f"not {held}.isdisjoint({names})", f"{path.name} has now ", detail)
                continue
            is_value = isinstance(value, (int, frozenset, tuple))
            expected = (
                f"!= {self._constant(value)}" if is_value else f"is not {self._constant(_refer(value))}()"
            )
            reason = "is another function, or of another class, length or content"
            if "is_stored" in expression:
                reason = f"has an attribute now that it did not have, {expression.partition(' in ')[2][:-2]}"
            elif expression.startswith("tuple"):
                what = "attributes" if "__dict__" in expression else "keys"
                shown = list(value) if len(value) <= _MAX_SHOWN else [*value[:_MAX_SHOWN], ...]
                reason = f"has other {what} than {shown}"
            test = f"{expression.format(self._names[id(path)])} {expected}"
            self._refuse(test, f"{path.name} {reason}")

    def _add_distant(self, path: CapturedPath) -> None:
        """Adds tests of what leads to no operand, and of a Tensor that is none."""
        number = id(path.value)
        if id(path) in self._names or (number not in self._constants and number not in self._identities):
            return
        self._read(path)
        now = identify(path, self._names_of_code)
        before = self._identities.get(number, {})
        # what changes while it is traced is no test
        same = {key: held for key, held in before.items() if now.get(key) == held}
        absent = {
            key: held & now[key] for key, held in before.items() if key.startswith(ABSENT) and key in now
        }
        self._add_identity(same | absent, path)
        self._add_constants(path)

    def _add_other_ways(self, path: CapturedPath) -> None:
        """Refuses a call in which another place, which the code may read, no longer holds the same container.

        Places of functions and classes are compared here, also on the way to an operand.
        """
        is_shared = isinstance(path.value, (type, types.FunctionType, types.ModuleType))
        is_on_the_way = id(path.value) in self._operands or id(path.value) in self._ancestors
        if id(path) not in self._names or (is_on_the_way and not is_shared):
            return
        for other in path.again:
            held: Any = None if other.parent is None else other.parent.value
            is_compared = isinstance(held, type) and isinstance(path.value, (type, types.FunctionType))
            if other.parent is None or "__mro__" in other.step or is_compared:
                continue  # classes and their functions are compared as one
            place = id(getattr(held, "__globals__", held)), other.step
            if place not in self._places and self._names_of_code.lead_to(other) and self._leads(other):
                self._places.add(place)
                test = f"{other.step.format(self._read(other.parent))} is not {self._names[id(path)]}"
                self._refuse(test, f"{other.name} is no longer {path.name}")

    def _add_distinction(self, paths: Iterable[CapturedPath]) -> None:
        """Refuses a call in which two places hold one object that held two."""
        alike: tuple[type, ...] = (type, types.ModuleType)
        if _OF_IS.isdisjoint(self._names_of_code.known):  # other operations compare the content of these
            alike = (*alike, *_SIZED, set, frozenset)
        kept = [path for path in paths if not isinstance(path.value, alike)]
        names = [self._names[id(path)] for path in kept if id(path) in self._names]
        if len(names) > 1:
            test = f"len({{*map(id, ({', '.join(names)}))}}) != {len(names)}"
            self._refuse(test, "two places hold one object, and held two")

    def _leads(self, path: CapturedPath) -> bool:
        """Whether a step still leads to the object of a path; the function may have changed it meanwhile."""
        held = {**self._namespace, "held": path.parent and path.parent.value}
        try:
            return eval(path.step.format("held"), held) is path.value
        except _ERRORS:
            return False

    def _add_constants(self, path: CapturedPath) -> None:
        """Adds a test of what the function may read from a container that is frozen into the program."""
        value, name = path.value, self._names[id(path)]
        before = self._constants.pop(id(value), {})
        now = read_constants(value, None)
        same = {key: held for key, held in before.items() if key in now and now[key] is held}
        scalars = {key: held for key, held in same.items() if isinstance(held, SCALARS)}
        objects = {  # another operand may take the path of one
            key: _refer(held)
            for key, held in same.items()
            if key not in scalars and id(held) not in self._operands
        }
        if isinstance(value, (types.FunctionType, type)):
            name += ".__globals__" if isinstance(value, types.FunctionType) else ".__dict__"
        get = itemgetter if isinstance(value, (*_SIZED, types.FunctionType, type)) else attrgetter
        for test, expected in (("differ", scalars), ("are_others", objects)):
            if not expected:
                continue
            text = f"{self._constant(get(*expected))}({name})"
            if len(expected) == 1:
                text = f"({text},)"
            compared = f"{test}, {text}, {self._constant(tuple(expected.values()))}"
            self._refuse(
                f"{test}({compared.removeprefix(f'{test}, ')})",
                f"a number, string or the like of {path.name} has changed: ",
                f"list_changed({compared}, {self._constant(tuple(expected))})",
            )

    def _add_changed(self, path: CapturedPath, before: dict[Any, Any], key: Any) -> None:
        """Adds a test that an entry that a call changes is what the function found."""
        name = self._add(path)
        if isinstance(path.value, (dict, list)):
            return  # lengths and numbers of these are compared
        missing = self._constant(MISSING)
        held = before.get(key, MISSING)
        if held is MISSING or isinstance(held, SCALARS):
            self._namespace["read_entries"] = read_entries
            self._refuse(
                f"read_entries({name}).get({key!r}, {missing}) != {self._constant(held)}",
                f"{path.name} holds another {key}",
            )

    def _add_returned(self, candidates: Candidates, returned: set[int]) -> None:
        """Adds tests that the objects which a call returns still stand where the function found them."""
        for path in candidates.containers:
            if id(path.value) in returned:
                text = f"{self._constant(_refer(path.value))}()"
                self._refuse(f"{self._add(path)} is not {text}", f"{path.name} is another object")

    def _add_aliases(self, paths: Iterable[CapturedPath]) -> None:
        """Refuses a call in which two paths to one Tensor or container no longer lead to the same object."""
        seen: set[int] = set()
        ahead: list[CapturedPath] = list(paths)
        while ahead:
            path = ahead.pop()
            if id(path) in seen:
                continue
            seen.add(id(path))
            if path.parent is not None:
                ahead.append(path.parent)
            if isinstance(path.value, (type, types.FunctionType, types.ModuleType)):
                continue
            name = self._add(path)
            for other in path.again:
                if not self._names_of_code.probes_objects and KEYS in {
                    way.step for way in other.list_parents()
                }:
                    continue
                is_new = other.parent is not None and id(other.parent) not in self._names
                of_class = any(isinstance(parent.value, type) for parent in other.list_parents())
                if is_new and of_class and not self._names_of_code.probes_objects:
                    continue  # a class and its functions are shared by all of its instances
                parent = "" if other.parent is None else self._add(other.parent)
                self._refuse(
                    f"{other.step.format(parent)} is not {name}", f"{other.name} is no longer {path.name}"
                )


def _refer(value: Any) -> Callable[[], Any]:
    """Returns a reference that does not keep an object alive, if its class has such references."""
    try:
        return ref(value)
    except TypeError:
        return lambda: value


def _are_others(now: tuple[Any, ...], before: tuple[Callable[[], Any], ...]) -> bool:
    """Whether other objects stand where a program has found some."""
    return any(value is not refer() for value, refer in zip(now, before, strict=True))


def _list_changed(
    test: Callable[..., bool], now: tuple[Any, ...], before: tuple[Any, ...], keys: tuple[Any, ...]
) -> str:
    """Returns the keys of what has changed, as text."""
    pairs = zip(keys, now, before, strict=True)
    changed = [key for key, value, other in pairs if test((value,), (other,))]
    return str(changed if len(changed) <= _MAX_SHOWN else [*changed[:_MAX_SHOWN], ...])


def _differ(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Whether constants differ; one that was a number may be a Tensor now, whose ``==`` is another."""
    return not all(map(is_, now, before)) and any(
        value.__class__ is not other.__class__
        or value != other
        or repr(value) != repr(other)  # such as 0.0 and -0.0
        for value, other in zip(now, before, strict=True)
        if value is not other
    )
