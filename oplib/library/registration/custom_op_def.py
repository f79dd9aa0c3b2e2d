"""``CustomOpDef``, the result of ``custom_op``: the op in place of the decorated function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oplib.errors import RegistrationError
from oplib.library.objects.overload import OpOverload, find_overload
from oplib.library.records.contribution import find_newest
from oplib.library.records.platforms import find_slot
from oplib.library.records.record import Tag
from oplib.library.schema import FunctionSchema

from .autocast_rule import register_autocast
from .kernel_registration import register_fake, register_kernel
from .registry import registry
from .rule_registration import register_autograd, register_jvp, register_sharding, register_vmap
from .signatures import P, R, TypedOp

log = logging.getLogger(__name__)


class CustomOpDef(TypedOp[P, R]):
    """An op made by ``custom_op``; call it like the function from which it was made.

    It is pickled and copied by its name. If ``custom_op`` defines the name anew, the object calls the new op.

    Attributes:
        __name__: the name of the decorated function; docstring, module and ``__wrapped__`` are copied too.
    """

    def __init__(self, overload: OpOverload, fn: Callable[P, R]) -> None:
        self._opoverload = overload
        self.__call__ = overload
        self.__name__ = getattr(fn, "__name__", overload.name())
        self.__qualname__ = getattr(fn, "__qualname__", self.__name__)
        self.__module__ = getattr(fn, "__module__", __name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__wrapped__ = fn
        self.__annotations__ = dict(getattr(fn, "__annotations__", {}))

    @property
    def _qualname(self) -> str:
        return self._opoverload.name()

    @property
    def _schema(self) -> FunctionSchema:
        return self._opoverload.record.schema

    @property
    def tags(self) -> list[Tag]:
        """The promises of the op beyond its schema."""
        return self._opoverload.tags

    def arrays(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the op and returns arrays, even if no argument decides the world."""
        return self._opoverload.arrays(*args, **kwargs)

    def functional(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a mutable op on arrays and returns the new values of written arguments, then its results."""
        return self._opoverload.functional(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opoverload.is_local:
            return self._opoverload.__reduce__()
        return find_custom_op, (self._qualname,)

    if not TYPE_CHECKING:  # the functions of oplib.library, which get this object as the op
        register_kernel = register_kernel
        register_fake = register_fake
        register_autograd = register_autograd
        register_jvp = register_jvp
        register_vmap = register_vmap
        register_sharding = register_sharding
        register_autocast = register_autocast

    @contextmanager
    def set_kernel_enabled(self, device_type: str | None, enabled: bool = True) -> Generator[None]:
        """Disables or enables a kernel within a block, in the whole process.

        While a kernel is disabled, the decorated function runs instead. A kernel that is registered during
        the block stays disabled. The log gets a message if there is no kernel to switch.

        Args:
            device_type: the device type of the registration; None for the kernel for all devices.
            enabled: True enables the kernel, False disables it.
        """
        qualname = self._opoverload._qualname
        slot = (
            "default"
            if device_type is None
            else find_slot(device_type, subject=f"set_kernel_enabled({qualname})")
        )
        if slot not in self._opoverload.record.kernels:
            log.warning(
                "%s: no kernel was registered for device type %s, which is switched.", qualname, device_type
            )
        was_off = registry.set_disabled(qualname, slot, disabled=not enabled)
        if was_off == (not enabled):
            state = "enabled" if enabled else "disabled"
            log.warning("%s: the kernel for device type %s was already %s.", qualname, device_type, state)
        try:
            yield
        finally:
            registry.set_disabled(qualname, slot, disabled=was_off)


_defined: dict[str, CustomOpDef[..., Any]] = {}


def remember_custom_op(custom_op: CustomOpDef[..., Any]) -> None:
    """Stores the newest object of a name, which unpickling returns."""
    _defined[custom_op._qualname] = custom_op


def find_custom_op(name: str) -> CustomOpDef[..., Any]:
    """Returns the last result of ``custom_op`` for a qualified name; unpickling calls this function.

    Raises:
        UnknownOperatorError: nothing is registered under the name.
        RegistrationError: ``custom_op`` has not made the op.
    """
    overload = find_overload(name, subject="find_custom_op")
    found = _defined.get(overload.name())
    definition = find_newest(registry.read(overload._qualname), "definition")
    if found is None or definition is None or definition.value.function is None:
        raise RegistrationError(
            f"find_custom_op: {name} was not made by custom_op. It was registered at "
            f"{overload.record.where}. Use ops.{overload}."
        )
    return found
