"""Values of each instance whose method is compiled, by the identity of the instance."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class PerInstance(Generic[Value]):
    """Holds one value for each instance, as long as the instance lives.

    Instances are told apart by identity: their class may define ``==``, and need not define a hash. All
    instances that cannot be referred to weakly share one value.

    Args:
        make: makes the value of an instance.
    """

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._held: dict[int, tuple[weakref.ref[Any], Value]] = {}
        self._shared: Value | None = None

    def get(self, instance: Any) -> Value:
        """Returns the value of an instance."""
        number = id(instance)
        found = self._held.get(number)
        if found is not None and found[0]() is instance:
            return found[1]
        held = self._held

        def forget(ref: weakref.ref[Any]) -> None:
            if (known := held.get(number)) is not None and known[0] is ref:
                del held[number]

        try:
            ref = weakref.ref(instance, forget)
        except TypeError:  # a class with slots
            if self._shared is None:
                self._shared = self._make()
            return self._shared
        if found is not None:  # of an instance that is gone
            held.pop(number, None)
        return held.setdefault(number, (ref, self._make()))[1]
