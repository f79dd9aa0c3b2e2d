"""What a trace has changed in Python, and whether the code reads it.

A call of a program does nothing of that again. So a change is refused if the code reads what has changed. A
place that the code only writes, such as a log, is a side effect of the trace.
"""

from __future__ import annotations

import contextlib
import dis
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.config import config
from oplib.errors import TracingError
from oplib.library.batching_and_sharding.bodies import find_bodies
from oplib.modes import ModeState, modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_leaves, tree_structure
from oplib.tensor import get_default_dtype, set_default_dtype

from .candidates import Candidates
from .entries import MISSING, list_codes, read_entries, restore_entries
from .lookups import INSTALLED
from .paths import SCALARS, CapturedPath, is_of_others, name_package
from .program_table import KEYED

_WRITERS = frozenset({"add", "append", "appendleft", "clear", "extend", "extendleft", "insert", "update"})
_METHODS = ("LOAD_ATTR", "LOAD_METHOD")
_Instructions = Sequence[dis.Instruction]


class UsesOfCode:
    """The places in the code of a function at which it uses names.

    Args:
        candidates: what the function could read.
    """

    def __init__(self, candidates: Candidates) -> None:
        codes = {
            code
            for path in candidates.containers
            if isinstance(path.value, types.FunctionType) and path.is_reachable
            for code in list_codes(path.value.__code__)
        }
        hidden = ("CACHE", "EXTENDED_ARG")
        self._codes: list[_Instructions] = [
            [step for step in dis.get_instructions(code) if step.opname not in hidden] for code in codes
        ]
        self._is_dynamic = candidates.names.is_dynamic

    def read_container(self, path: CapturedPath, keys: Iterable[Any] = ()) -> bool:
        """Whether the code reads a container, under one of the keys that have changed if any are given."""
        places = list(map(_find_place, (path, *path.again)))
        return any(name is None or self.read_name(name, frozenset(keys)) for name in places)

    def read_entry(self, path: CapturedPath, key: Any) -> bool:
        """Whether the code reads what a container holds under a key."""
        holder = path.value
        if isinstance(holder, types.CellType):
            return self.read_name(path.name)
        if isinstance(holder, (dict, list, deque)):
            is_of_function = path.step.endswith(".__dict__")
            return self.read_name(key) if is_of_function else self.read_container(path, [key])
        if isinstance(holder, (types.FunctionType, types.ModuleType, type)):
            return self.read_name(key)
        if is_of_others(type(holder)) and not isinstance(holder, types.SimpleNamespace):
            return name_package(type(holder)) != "oplib" and self.read_container(path)
        return self.read_name(key)

    def read_name(self, name: str, keys: frozenset[Any] = frozenset()) -> bool:
        """Whether the code reads a global, a variable, an attribute or an item of a name."""
        return (
            self._is_dynamic
            or any(
                step.opname.startswith("DELETE_")  # a second call would find nothing to delete
                or (_is_load(step) and not _is_written(steps[index : index + 10], keys))
                for steps in self._codes
                for index, step in enumerate(steps)
                if step.argval == name
            )
        )


def _is_load(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD_") and not step.opname.startswith(("LOAD_FAST", "LOAD_CLOSURE"))


def _is_written(steps: _Instructions, keys: frozenset[Any]) -> bool:
    """Whether the instructions after a load only write to what they have loaded, or into it."""
    first, *rest = steps
    names = [step.opname for step in rest] + [""] * 9
    if names[0] in _METHODS and rest[0].argval in _WRITERS:
        return True  # h.append(x)
    if names[0] == "STORE_SUBSCR" and first.opname == "LOAD_CONST":
        return True  # the key of d["k"] = x
    if not names[0].startswith("LOAD_") or names[0] in _METHODS:
        return False
    if names[1] == "STORE_SUBSCR":
        return True  # d[k] = x
    if names[1] == "BINARY_OP" and rest[1].argrepr.endswith("="):  # n += 1, C.n += 1
        last = next((step for step in rest[2:] if step.opname != "SWAP"), first)
        return last.opname.startswith("STORE_") and last.argval == first.argval
    if names[1] == names[2] == "COPY":  # d[k] += 1
        return names[5] == "BINARY_OP" and names[6] == names[7] == "SWAP" and names[8] == "STORE_SUBSCR"
    is_item = names[1] == "BINARY_SUBSCR" or (names[1] == "BINARY_OP" and rest[1].argrepr == "[]")
    if not (is_item and names[0] == "LOAD_CONST" and keys):
        return False
    key = rest[0].argval  # -1 and slices mean other keys
    return isinstance(key, (str, int)) and (isinstance(key, str) or key >= 0) and key not in keys


def _find_place(path: CapturedPath) -> str | None:
    """Returns the name by which code finds a container; None for an item without a name."""
    parent = path.parent
    # the list of a UserList is found through it
    while parent is not None and is_of_others(type(parent.value)) and hasattr(parent.value, "__dict__"):
        if isinstance(parent.value, (types.FunctionType, types.ModuleType, type)):
            break
        path, parent = parent, parent.parent
    if parent is not None and isinstance(parent.value, types.CellType):
        return parent.name
    return path.name_in_code


def find_reordered(value: Any, before: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Whether a list has another length, a set other items, or keys of a dictionary another order."""
    if isinstance(value, set):
        return before.keys() != now.keys()
    if isinstance(value, (list, deque)):
        return len(before) != len(now)
    is_ordered = isinstance(value, dict)
    return is_ordered and [key for key in before if key in now] != [key for key in now if key in before]


class Definitions:
    """What classes and modules hold under names that are in the code, before a trace."""

    def __init__(self, candidates: Candidates) -> None:
        names = candidates.names.known
        self._held = [
            (path, {name: held for name, held in vars(path.value).items() if name in names})
            for path in candidates.containers
            if isinstance(path.value, (type, types.ModuleType))
        ]

    def list_changed(self) -> Iterator[tuple[CapturedPath, str, Any]]:
        """Yields each class or module that has changed, with the name and the former value."""
        for path, before in self._held:
            now = vars(path.value)
            changed = [(path, name, held) for name, held in before.items() if now.get(name) is not held]
            for change in changed:
                method = getattr(change[2], "__func__", None)
                if method is None or name_package(method) != "oplib":  # a Function's first call sets `apply`
                    yield change


@contextlib.contextmanager
def refuse_changes(
    name: Any, candidates: Candidates, settle: Callable[[], bool] | None = None
) -> Generator[None]:
    """Raises if the code in the block changed what the function reads; everything is put back then.

    Args:
        name: of the function, for errors.
        candidates: what the function could read.
        settle: whether the changes make no difference to the next trace.
    """
    containers = [(path, read_entries(path.value) or {}) for path in candidates.containers]
    definitions = Definitions(candidates)
    yield
    uses = UsesOfCode(candidates)
    places = [place for path, before in containers for place in _list_read_changes(uses, path, before)]
    places += [
        f"{path.name}.{key}" for path, key, _ in definitions.list_changed() if uses.read_entry(path, key)
    ]
    if places and (settle is None or not settle()):
        for path, before in containers:
            restore_entries(path.value, before)
        for path, key, held in definitions.list_changed():
            setattr(path.value, key, held)
        refuse_change(name, places[0])


def _list_read_changes(uses: UsesOfCode, path: CapturedPath, before: dict[Any, Any]) -> Iterator[str]:
    now = read_entries(path.value) or {}
    if find_reordered(path.value, before, now) and uses.read_container(path):
        yield path.name
    for key in before | now:
        held, former = now.get(key, MISSING), before.get(key, MISSING)
        is_filled = key not in before and isinstance(
            getattr(type(path.value), str(key), None), cached_property
        )
        is_same = is_filled or _is_same(held, former) or is_equal_inside(path, held, former)
        if not is_same and uses.read_entry(path, key):
            yield show_entry(path, key)


def is_equal_inside(path: CapturedPath, held: Any, former: Any) -> bool:
    """Whether a number stays equal in a variable of an installed package.

    A schedule of optax makes a float of its int.
    """
    function: Any = None if path.parent is None else path.parent.value
    is_variable = isinstance(path.value, types.CellType) and isinstance(function, types.FunctionType)
    is_inside = is_variable and INSTALLED in function.__code__.co_filename
    return is_inside and isinstance(former, SCALARS) and isinstance(held, SCALARS) and held == former


def _is_same(held: Any, former: Any) -> bool:
    """Whether code finds one object in two states, or equal numbers."""
    if held is former:
        return True
    return tree_structure(held) == tree_structure(former) and all(
        isinstance(leaf, SCALARS) and type(leaf) is type(other) and repr(leaf) == repr(other)
        for leaf, other in zip(tree_leaves(held), tree_leaves(former), strict=True)
    )


def is_same_jaxpr(left: Any, right: Any) -> bool:
    """Whether two traces gave the same equations, with the same callbacks, whose functions the text hides."""
    return str(left) == str(right) and all(map(_is_same_equation, left.eqns, right.eqns))


def _is_same_equation(left: Any, right: Any) -> bool:
    bodies = [[getattr(body, "jaxpr", body) for body in find_bodies(equation)] for equation in (left, right)]
    are_callbacks_same = "callback" not in left.params or left.params["callback"] == right.params["callback"]
    return are_callbacks_same and all(map(is_same_jaxpr, *bodies))


def is_same_constant(left: Any, right: Any) -> bool:
    """Whether two traces read the same value from outside, or made ones of equal bytes."""
    if left is right:
        return True
    if isinstance(left, Tracer) or isinstance(right, Tracer) or jax.typeof(left) != jax.typeof(right):
        return False
    if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
        left, right = map(jax.random.key_data, (left, right))
    return np.asarray(left).tobytes() == np.asarray(right).tobytes()


def refuse_change(name: Any, place: str) -> NoReturn:
    """Raises the error for a place that the function reads, and that was changed while it was traced."""
    raise TracingError(
        f"{name}: {place} was changed while the function was traced, and the function reads it. A "
        "compiled function would not change it again at the next call. Keep what changes in a Tensor "
        "that the function writes in place, or make it an argument and a result."
    )


def show_entry(path: CapturedPath, key: Any) -> str:
    """Returns how a user would write an entry of a container."""
    if isinstance(path.value, types.CellType):
        return path.name
    if isinstance(path.value, set):
        return f"an item of {path.name}"
    is_item = isinstance(path.value, (dict, list, deque))
    return f"{path.name}[{key!r}]" if is_item else f"{path.name}.{key}"


_OWN_STATE = ("failed_reads", "sequence_nr")  # of the thread, which a trace changes in any case
_OF_PROCESS = ("_autocasts", "_limits", "uses_fast_path")
_STATE = [field.name for field in fields(ModeState) if field.name not in _OWN_STATE]


def call_and_compare_state(name: str, call: AnyFunction, *args: Any) -> Any:
    """Calls a function while it is traced.

    Raises:
        TracingError: the function leaves another state of the thread, or settings, than it found.
    """
    state, dtype = modes.state, get_default_dtype()
    settings = {key: getattr(config, key) for key in config.__slots__ if key not in _OF_PROCESS}
    before = {slot: getattr(state, slot) for slot in _STATE}
    result = call(*args)
    changed = [KEYED.get(slot, slot) for slot, held in before.items() if getattr(state, slot) != held]
    changed += [f"oplib.config.{key[1:]}" for key, held in settings.items() if getattr(config, key) != held]
    if get_default_dtype() != dtype:
        changed.append("the default dtype")
    if not changed:
        return result
    for slot, held in before.items():
        setattr(state, slot, held)
    for key, held in settings.items():
        setattr(config, key, held)
    set_default_dtype(dtype)
    raise TracingError(
        f"{name}: the function leaves another state of the thread than it found. Got other values of "
        f"{', '.join(changed)}. A call of the program would not change them. Change them outside of the "
        "function, or use a with statement inside."
    )
