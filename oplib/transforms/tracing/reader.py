"""Readers: the lines of generated functions that find the operands of a program again.

These lines go the ways that were found while tracing, from the function and the leaves of the arguments to
the Tensors that the program reads or writes. They refuse a call where a way is gone, or where something on
the way differs from what the program was compiled for.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import is_, itemgetter
from typing import Any
from weakref import ref

from oplib.autograd.array_functions.masks import map_given
from oplib.generated_code import define_function, fill_template, render_tuple
from oplib.protocols import Values
from oplib.tensor import Generator, Tensor, default_generator

from .candidates import Candidates
from .constants import ABSENT, PROBES_OF_OBJECTS, identify, identify_object, read_kind
from .entries import MISSING, is_stored, read_entries
from .paths import CODE_OF_CLASS, SCALARS, WORDS, CapturedPath, compile_step

_numbers = itertools.count()
_MAX_SHOWN = 8
_OF_IS = frozenset({"a is b", "is_", "is_not"})
_SIZED = (dict, list, tuple, deque)
_SHARED = (type, types.ModuleType)
_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_READ = """
def read(function, leaves):
    try:
        {find}
        return {tensors}, {rest}
    except errors:
        return {gone}
"""


class Reader:
    """Finds the operands of one program, or writes another function that does.

    Args:
        name: of the function.
        paths: of the operands, in the order of the result: Tensors, and arrays that may change.
        changed: for each entry of a container that a call changes the container, its entries before the
            trace, and the key.
        candidates: what the function could read.
        returned: the objects without Tensors that a call returns.
        generators: the paths of Generators; None for one that is not wanted.

    Attributes:
        tensors: the variables of the operands.
        rest: those of the containers and Generators.
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
        self._names_of_code = candidates.names
        self._operands = {id(path.value) for path in paths}
        self._names: dict[int, str] = {}
        # plain lines, and tests with what they find, and the expression of a text that names it
        self._lines: list[str | tuple[str, str, str]] = []
        self._namespace = dict(_NAMESPACE)
        self._replaced = _list_replaced(candidates)
        guarded = [path for path in candidates.guarded if id(path.value) not in self._replaced]
        for path in guarded:
            self._compare(path, candidates)
        for container, entries, key in changed:
            self._add_changed(container, entries, key)
        numbers = {*map(id, returned)}
        for path in guarded:
            if id(path.value) in numbers:
                held = f"{self._constant(_refer(path.value))}()"
                self._refuse(f"{self._read(path)} is not {held}", f"{path.name} is another object")
        places: set[Any] = set()
        for path in dict.fromkeys((*guarded, *paths)):
            self._compare_ways(path, candidates, places)
        rest = [*[container for container, _, _ in changed], *generators]
        self._add_distinction(guarded, filter(None, rest))
        self.tensors = list(map(self._read, paths))
        self.rest = map_given(self._read, rest)
        self._filename = f"<oplib.reader {next(_numbers)} of {name}>"

    @cached_property
    def read(self) -> Callable[[Any, Any], tuple[Any, Any] | str]:
        """Returns ``(operands, (*containers, *generators))`` for a function and leaves, or what differs."""
        return self.write(_READ, "{reason!r} + {detail}", {})

    def write(self, template: str, refusal: str, objects: dict[str, Any], **parts: str) -> Any:
        """Writes a function that finds the operands.

        Args:
            template: of the function ``read``, with ``{find}`` for the lines.
            refusal: the expression that the function returns for a call that does not fit.
            objects: to which other parts of the template refer, by name.
            **parts: of the template.
        """
        lines = [
            line
            if isinstance(line, str)
            else f"if {line[0]}: return {refusal.format(reason=line[1], detail=line[2])}"
            for line in self._lines
        ]
        gone = refusal.format(reason="the way to a captured Tensor has changed", detail="''")
        parts |= {"tensors": render_tuple(self.tensors), "rest": render_tuple(list(map(str, self.rest)))}
        text = fill_template(template, find="\n".join(lines), gone=gone, **parts)
        namespace = {**self._namespace, **objects}
        function = define_function(text, "read", self._filename, namespace)
        del namespace["read"]  # such a circle would keep the program alive
        return function

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

    def _compare(self, path: CapturedPath, candidates: Candidates) -> None:
        """Adds tests of what is guarded. What changes while it is traced is no test."""
        self._read(path)
        now = identify_object(path, self._names_of_code)
        if id(path.value) not in self._operands:
            now = identify(path, self._names_of_code)
        before = candidates.identities[id(path.value)]
        same = {key: held for key, held in before.items() if now.get(key) == held}
        absent = {
            key: held & now[key] for key, held in before.items() if key.startswith(ABSENT) and key in now
        }
        self._add_identity(same | absent, path)
        self._add_constants(path, candidates.constants[id(path.value)])

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

    def _compare_ways(self, path: CapturedPath, candidates: Candidates, places: set[Any]) -> None:
        """Refuses a call in which another place, which the code may read, no longer holds the same object."""
        for other in path.again:
            held: Any = other.parent and other.parent.value
            is_method = isinstance(held, type) and isinstance(path.value, (type, *CODE_OF_CLASS))
            if "__mro__" in other.via or is_method or id(held) in self._replaced:
                continue  # classes and their functions are compared as one
            # a backward adds to gradients, which no code names
            is_near = isinstance(held, (Tensor, types.NoneType)) or id(held) in candidates.ancestors
            is_near &= not isinstance(path.value, (type, types.FunctionType, types.ModuleType))
            if (
                other.place not in places
                and (other.is_step_of_code or is_near)
                and follow(other) is path.value
            ):
                places.add(other.place)
                parent = "" if other.parent is None else self._read(other.parent)
                test = f"{other.step.format(parent)} is not {self._read(path)}"
                self._refuse(test, f"{other.name} is no longer {path.name}")

    def _add_distinction(self, paths: Iterable[CapturedPath], changed: Iterable[CapturedPath]) -> None:
        """Refuses a call in which two places hold one object that held two.

        It matters where the code may ask for that, and where a call changes what another place may show.
        """
        kept = dict.fromkeys(changed)
        kinds = {type(path.value) for path in kept} - {Generator, types.FunctionType}
        if self._names_of_code.has(PROBES_OF_OBJECTS):
            # other operations compare the content of these
            is_asked = self._names_of_code.has(_OF_IS)
            alike = _SHARED if is_asked else (*_SHARED, *_SIZED, set, frozenset)
            kept |= dict.fromkeys(path for path in paths if not isinstance(path.value, alike))
        kept |= dict.fromkeys(path for path in paths if type(path.value) in kinds)
        if len(kept) > 1:
            test = f"len({{*map(id, ({', '.join(map(self._read, kept))}))}}) != {len(kept)}"
            self._refuse(test, "two places hold one object, and held two")

    def _add_constants(self, path: CapturedPath, constants: Iterable[CapturedPath]) -> None:
        """Adds tests of what the function may read from a container that is frozen into the program."""
        groups: dict[tuple[str, Any, str], dict[Any, Any]] = {}
        for child in constants:
            # another operand may take the path of one
            if follow(child) is child.value and id(child.value) not in self._operands:
                is_scalar = isinstance(child.value, SCALARS)
                test = "differ" if is_scalar else "are_others"
                group = groups.setdefault((child.via, child.key is None, test), {})
                group[child.name_in_code if child.key is None else child.key] = (
                    child.value if is_scalar else _refer(child.value)
                )
        for (via, is_single, test), expected in groups.items():
            text = via.format(self._names[id(path)])
            if not is_single:
                text = f"{self._constant(itemgetter(*expected))}({text})"
            if len(expected) == 1:
                text = f"({text},)"
            compared = f"{text}, {self._constant(tuple(expected.values()))}"
            self._refuse(
                f"{test}({compared})",
                f"a number, string or the like of {path.name} has changed: ",
                f"list_changed({test}, {compared}, {self._constant(tuple(expected))})",
            )

    def _add_changed(self, path: CapturedPath, before: dict[Any, Any], key: Any) -> None:
        """Adds a test that an entry that a call changes is what the function found."""
        name = self._read(path)
        if isinstance(path.value, (dict, list)):
            return  # lengths and numbers of these are compared
        missing = self._constant(MISSING)
        held = before.get(key, MISSING)
        if held is MISSING or isinstance(held, SCALARS):
            self._refuse(
                f"read_entries({name}).get({key!r}, {missing}) != {self._constant(held)}",
                f"{path.name} holds another {key}",
            )


def _list_replaced(candidates: Candidates) -> set[int]:
    """Returns what a class no longer holds since the trace, and what was found there.

    The first call of a Function puts an op in place of ``apply``.
    """
    replaced: set[int] = set()
    for path in candidates.guarded:
        held = None if path.parent is None else path.parent.value
        is_gone = isinstance(held, type) and path.key is not None and follow(path) is not path.value
        if (is_gone or id(held) in replaced) and id(path.value) not in candidates.ancestors:
            replaced.add(id(path.value))
    return replaced


def follow(path: CapturedPath) -> Any:
    """Returns what stands at a place now; the function may have changed it meanwhile."""
    if path.parent is None:
        return path.value
    try:
        held = compile_step(path.via)(path.parent.value)
        return held if path.key is None else held[path.key]
    except _ERRORS:
        return MISSING


def _refer(value: Any) -> Callable[[], Any]:
    """Returns a reference that does not keep an object alive, if its class has such references."""
    try:
        return ref(value)
    except TypeError:
        return lambda: value


def _are_others(now: Values, before: tuple[Callable[[], Any], ...]) -> bool:
    """Whether other objects stand where a program has found some."""
    return any(value is not refer() for value, refer in zip(now, before, strict=True))


def _list_changed(test: Callable[..., bool], now: Values, before: Values, keys: Values) -> str:
    """Returns the keys of what has changed, as text."""
    pairs = zip(keys, now, before, strict=True)
    changed = [key for key, value, other in pairs if test((value,), (other,))]
    return str(changed if len(changed) <= _MAX_SHOWN else [*changed[:_MAX_SHOWN], ...])


def _differ(now: Values, before: Values) -> bool:
    """Whether constants differ; one that was a number may be a Tensor now, whose ``==`` is another."""
    return not all(map(is_, now, before)) and any(
        value.__class__ is not other.__class__
        or value != other
        or repr(value) != repr(other)  # such as 0.0 and -0.0
        for value, other in zip(now, before, strict=True)
        if value is not other
    )


_NAMESPACE: dict[str, Any] = {
    "errors": _ERRORS,
    "differ": _differ,
    "are_others": _are_others,
    "list_changed": _list_changed,
    "kind_of": read_kind,
    "is_stored": is_stored,
    "read_entries": read_entries,
    "default_generator": default_generator,
    **WORDS,
}
