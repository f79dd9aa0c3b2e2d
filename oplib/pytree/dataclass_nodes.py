"""Plain dataclasses and classes registered with JAX, as nodes of trees."""

from __future__ import annotations

import dataclasses
import weakref
from collections import OrderedDict
from typing import Any

import jax

from .registry import register_seen

_flatten_by_jax = jax.tree_util.default_registry.flatten_one_level  # None for a leaf
leaf_classes: weakref.WeakSet[type[Any]] = weakref.WeakSet([type(None)])


def note_class(leaf: Any) -> bool:
    """Registers the class of an object if the object is a node, and returns whether it is."""
    cls = type(leaf)
    if cls in leaf_classes:
        return False
    # The field table is looked up on the class, because a dataclass type in the tree is no instance.
    if hasattr(cls, "__dataclass_fields__") and _can_be_made(cls):
        _register_dataclass(cls)
    # A Tensor is a leaf here, and a node of JAX.
    elif str(cls.__module__).partition(".")[0] != "oplib" and _flatten_by_jax(leaf) is not None:
        register_seen(cls, _flatten_once, jax.tree_util.tree_unflatten)
    else:
        leaf_classes.add(cls)
        return False
    return True


def _flatten_once(node: Any) -> tuple[list[Any], Any]:
    """Returns the children of a node of JAX, and its structure."""
    return jax.tree_util.tree_flatten(node, is_leaf=lambda child: child is not node)


def _register_dataclass(cls: type[Any]) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))
    native = _find_native(cls)
    holds_items = issubclass(native, dict)

    def flatten(instance: Any) -> tuple[list[Any], tuple[tuple[str, ...], tuple[Any, ...]]]:
        present = tuple(name for name in names if hasattr(instance, name))
        fields = {name: getattr(instance, name) for name in present}
        items = dict(native.items(instance)) if holds_items else {}
        # An item that is also a field is one child: transformers' ModelOutput holds each value in both.
        own = {key: item for key, item in items.items() if key not in fields or fields[key] is not item}
        return [*fields.values(), *own.values()], (present, tuple((key, key in own) for key in items))

    def unflatten(structure: Any, children: Any) -> Any:
        present, keys = structure
        rest = iter(children)
        fields = {name: next(rest) for name in present}
        instance: Any = native.__new__(cls)
        for name, child in fields.items():
            object.__setattr__(instance, name, child)  # bypasses the guard of frozen dataclasses
        for key, is_own in keys:
            native.__setitem__(instance, key, next(rest) if is_own else fields[key])
        return instance

    register_seen(cls, flatten, unflatten)


def _find_native(cls: type[Any]) -> Any:
    """Returns the class that makes instances and sets their items: ``object`` for most."""
    return next(base for base in (OrderedDict, dict, object) if issubclass(cls, base))


def _can_be_made(cls: type[Any]) -> bool:
    """Whether an instance can be made without calling the class: not if it is also a list, say."""
    try:
        _find_native(cls).__new__(cls)
    except TypeError:
        return False
    return True
