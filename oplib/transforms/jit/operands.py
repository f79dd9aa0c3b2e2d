"""The operands of a program: what it was compiled for of each of them, tested at every call.

The tests are lines of the program's function. One loop tests all Tensors of a kind. A line for each of them
would cost three times as much: the lines of a hundred Tensors do not stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from oplib.autograd.recording.view import StaleView
from oplib.errors import describe
from oplib.generated_code import refer, render_tuple
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.layout import describe_sharding, is_alike, is_spread
from oplib.tensor.storage.fresh import get_array
from oplib.tensor.storage.overlay import list_classes
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.transforms.tracing.paths import CapturedPath

PLAIN = list_classes(Storage(None))
MAX_LINES = 8  # more of them are a loop
_NO_HOOKS: Values = (None, None)
_DEFAULTS: dict[str, Any] = {
    name: getattr(Tensor, name, None)
    for name in (
        "_storage", "_requires_grad", "_grad_fn", "_backward_hooks", "_post_accumulate_hooks", "_views",
        "_restricted_views", "_grad",
    )
}  # fmt: skip


class TensorKind(NamedTuple):
    """The properties of a Tensor, beside its storage, that a program is compiled for.

    Attributes:
        cls: its class.
        requires_grad: whether it does.
        has_grad: whether it has a gradient; None where the program does not depend on that.
        has_node: whether it has a history; None for a view whose history may not be read.
        hooks: the keys of both dictionaries of its hooks; _NO_HOOKS itself without both.
    """

    cls: type
    requires_grad: bool
    has_grad: bool | None
    has_node: bool | None
    hooks: Values


class ExpectedOperands:
    """Tests whether Tensors are what a program was compiled for.

    Args:
        paths: of the Tensors.
        before: for each of them its attributes before the trace.
        unread: the numbers of those whose gradient before the call is not read.
    """

    def __init__(
        self,
        paths: Sequence[CapturedPath],
        before: Sequence[dict[str, Any]],
        unread: frozenset[int],
    ) -> None:
        self._names = [path.name for path in paths]
        self._kinds = [
            _kind_before(path.value, attributes, is_read=number not in unread)
            for number, (path, attributes) in enumerate(zip(paths, before, strict=True))
        ]
        _hold_attributes([path.value for path in paths])
        storages = [attributes["_storage"] for attributes in before]
        owners = [storage.owner for storage in storages]
        arrays = list(map(get_array, owners))
        self._classes = list(map(list_classes, storages))
        self._are_plain = all(classes == PLAIN for classes in self._classes)
        layers = list(map(_list_layers, storages))
        self._layers = [(number, ways) for number, ways in enumerate(layers) if ways]
        self._avals = [array.aval for array in arrays]
        self._shown = list(map(describe, arrays))
        self._shardings = self._list_shardings(arrays)
        first: dict[Storage, int] = {}
        self._sharing = [
            (number, n) for n, owner in enumerate(owners) if (number := first.setdefault(owner, n)) != n
        ]
        self._owner_count = len(first)

    def _list_shardings(self, arrays: Sequence[Any]) -> list[tuple[int, Any]]:
        """The shardings that calls compare; none if all arrays are on one device, whichever that is."""
        spread = {n for n, array in enumerate(arrays) if is_spread(array)}
        return [(n, array.sharding) for n, array in enumerate(arrays) if spread]

    def are_leaves(self, numbers: Sequence[int]) -> bool:
        """Whether these operands are leaves that require grad."""
        kinds = [self._kinds[number] for number in numbers]
        return all(kind.requires_grad and kind.has_node is False for kind in kinds)

    def list_shapes(self) -> list[tuple[str, str]]:
        """Returns the name and the shape of each operand."""
        return list(zip(self._names, self._shown, strict=True))

    def list_lines(self, names: Sequence[str], objects: dict[str, Any]) -> Iterator[str]:
        """Yields the lines that test ``tensors``, and list their ``owners`` and ``arrays``.

        A fresh storage stays fresh, so that the arrays are used under the lock of buffers only.

        Args:
            names: the variables of the Tensors.
            objects: those to which the lines refer are added.
        """
        for kind in dict.fromkeys(self._kinds):
            alike = [name for name, other in zip(names, self._kinds, strict=True) if other == kind]
            head, tensor = "", alike[0]
            if len(alike) > 1:
                head, tensor = f"for tensor in {render_tuple(alike)}:\n    ", "tensor"
            yield f"{head}if {_write_test(tensor, kind, objects)}: return MISSED"
        read = "*map(get_storage, tensors)" if len(names) > MAX_LINES else "._storage, ".join([*names, ""])
        yield f"owners = [{read}]"
        tests: list[str] = []
        if self._are_plain:
            tests.append("not PLAIN.issuperset(map(type, owners))")
        else:
            yield f"if any({refer(objects, self._explain_storages, 'explain')}(owners)): return MISSED"
            yield "owners = [storage.owner for storage in owners]"
        if len(names) > 1:
            tests.append(f"len({{*owners}}) != {self._owner_count}")
        if self._sharing:
            tests.append(f"{refer(objects, self._are_parted, 'are_parted')}(tensors, owners)")
        if tests:
            yield f"if {' or '.join(tests)}: return MISSED"
        yield "arrays = list(map(get_array, owners))"
        moved = f" or any({refer(objects, self._find_moved, 'moved')}(arrays))" if self._shardings else ""
        yield f"if list(map(get_aval, arrays)) != avals{moved}: return MISSED"
        objects["avals"] = self._avals

    def _are_parted(self, tensors: Sequence[Tensor], owners: Sequence[Any]) -> bool:
        if len({*map(id, tensors)}) < len(tensors):  # only Tensors that share memory may become one
            return True
        return any(owners[number] is not owners[other] for number, other in self._sharing)

    def _find_moved(self, arrays: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yields the operands that are laid out in another way than they were, with their shardings then."""
        for number, sharding in self._shardings:
            array = arrays[number]
            if not is_alike(array.sharding, sharding, array.ndim):
                yield number, sharding

    def restore(self, tensors: Sequence[Tensor]) -> None:
        """Gives Tensors what a call may have changed of what the program was compiled for."""
        for tensor, kind in zip(tensors, self._kinds, strict=True):
            if kind.has_node is None:
                continue
            tensor._requires_grad = kind.requires_grad
            if kind.has_grad is False:
                tensor._grad = None
            if not kind.has_node:
                tensor._grad_fn = None

    def _explain_storages(self, storages: Sequence[Any]) -> Iterator[str]:
        for number, (storage, classes) in enumerate(zip(storages, self._classes, strict=True)):
            if storage.__class__ not in classes:
                yield f"{self._names[number]} is a view, or was one"
        for number, layers in self._layers:
            if _list_layers(storages[number]) != layers:
                yield f"{self._names[number]} is another view"

    def explain(self, tensors: Sequence[Tensor]) -> str:
        """Returns how the first operand that does not fit differs; empty if all fit."""
        return next(self._explain(tensors), "")

    def _explain(self, tensors: Sequence[Tensor]) -> Iterator[str]:
        for name, tensor, kind in zip(self._names, tensors, self._kinds, strict=True):
            if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  what is there now
                yield f"{name} is no Tensor any more"
                return
            if difference := _compare(tensor, kind):
                yield f"{name} {difference}"
        storages = [tensor._storage for tensor in tensors]
        yield from self._explain_storages(storages)
        owners = [storage.owner for storage in storages]
        arrays = list(map(get_array, owners))
        for name, array, shown in zip(self._names, arrays, self._shown, strict=True):
            if describe(array) != shown:
                yield f"{name} is {describe(array)}, and was {shown}"
        for number, sharding in self._find_moved(arrays):
            now = describe_sharding(arrays[number].sharding)
            yield f"{self._names[number]} is laid out as {now}, and was as {describe_sharding(sharding)}"
        for name, array, aval in zip(self._names, arrays, self._avals, strict=True):
            if array.aval != aval:
                yield f"{name} has the type {_show_type(array.aval)}, and had {_show_type(aval)}"
        if len(set(owners)) != self._owner_count or self._are_parted(tensors, owners):
            yield "Tensors share memory that did not, or the reverse"


def _show_type(aval: Any) -> str:
    """Shows what :func:`describe` does not: whether a type is weak, and its mesh."""
    weak = "weak " if aval.weak_type else ""
    return f"{weak}{aval.str_short()} on {dict(aval.sharding.mesh.shape) or 'no mesh'}"


def _write_test(tensor: str, kind: TensorKind, objects: dict[str, Any]) -> str:
    """Returns the test whether a Tensor is not of a kind."""
    hooks = [f"{tensor}.{name} is not None" for name in ("_backward_hooks", "_post_accumulate_hooks")]
    if kind.hooks is not _NO_HOOKS:
        objects["hook_keys"] = _hook_keys
        keys = f"hook_keys({tensor}._backward_hooks, {tensor}._post_accumulate_hooks)"
        hooks = [f"{keys} != {refer(objects, kind.hooks, 'hooks')}"]
    attributes = {"_grad_fn": kind.has_node, "_grad": kind.has_grad}
    tests = [
        f"{tensor}.__class__ is not {refer(objects, kind.cls, kind.cls.__name__)}",
        f"{tensor}._requires_grad is not {kind.requires_grad}",
        *[
            f"{tensor}.{name} is {'' if has else 'not '}None"
            for name, has in attributes.items()
            if has is not None
        ],
        *hooks,
    ]
    return " or ".join(tests)


def _hold_attributes(tensors: Sequence[Tensor]) -> None:
    """Gives Tensors the attributes that each call reads, and whose defaults their class holds.

    CPython finds an attribute twice as fast where the instance holds it, at the same place of its dictionary
    as the instances before it. The caller holds the lock of traces, because a trace in another thread may
    change these dictionaries.
    """
    for tensor in tensors:
        if type(tensor) is Tensor:
            # The line calls nothing, so no other thread sets an attribute between the read and the write.
            tensor.__dict__ = {**_DEFAULTS, **tensor.__dict__}


def _kind_before(tensor: Tensor, before: dict[str, Any], *, is_read: bool) -> TensorKind:
    """The kind of a Tensor before a trace."""
    hooks = before.get("_backward_hooks"), before.get("_post_accumulate_hooks")
    return TensorKind(
        type(tensor),
        before.get("_requires_grad", False),
        before.get("_grad") is not None if is_read else None,
        None if isinstance(tensor, StaleView) else before.get("_grad_fn") is not None,
        _NO_HOOKS if hooks == _NO_HOOKS else _hook_keys(*hooks),
    )


def _compare(tensor: Tensor, kind: TensorKind) -> str:
    """How a Tensor differs from a kind; empty if it is of the kind."""
    if type(tensor) is not kind.cls:
        return "is of another class"
    if tensor._requires_grad is not kind.requires_grad:
        return f"requires grad: {tensor._requires_grad}, was {kind.requires_grad}"
    if kind.has_grad is not None and (tensor._grad is not None) is not kind.has_grad:
        return "has lost its grad" if kind.has_grad else "has a grad, and had none"
    if kind.has_node is not None and (tensor._grad_fn is not None) is not kind.has_node:
        return "has lost its history" if kind.has_node else "has a history, and had none"
    hooks = tensor._backward_hooks, tensor._post_accumulate_hooks
    return "" if _hook_keys(*hooks) == kind.hooks else "has other hooks"


def _hook_keys(*hooks: dict[Any, Any] | None) -> Values:
    return tuple([None if group is None else tuple(group) for group in hooks])


def _list_layers(storage: Any) -> list[Any]:
    """Returns the ways in which a storage shows another one: the chains of views, and None for ``data``."""
    layers: list[Any] = []
    while isinstance(storage, (AliasStorage, ViewStorage)):
        layers.append((storage.chain, storage.starts) if isinstance(storage, ViewStorage) else None)
        storage = storage.base
    return layers
