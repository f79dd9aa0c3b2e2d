"""``CustomOpDef``, the result of ``custom_op``: the op in place of the decorated function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import jax
import numpy as np

from oplib.errors import RegistrationError
from oplib.library.op_objects.description import OpDescription
from oplib.library.op_objects.overload import OpOverload, Redirecting, find_overload
from oplib.library.op_objects.signature import LateDocstring
from oplib.library.op_records.platforms import find_slot
from oplib.library.op_records.record import Tag
from oplib.library.schema import FunctionSchema
from oplib.protocols import Values
from oplib.tensor import Tensor

from . import kernel_registration, rule_registration
from .registry import registry

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger(__name__)


class CustomOpDef(Redirecting, Generic[P, R]):
    """An op made by ``custom_op``; call it like the function from which it was made.

    For type checkers it has the signature of this function, or takes a Tensor first and returns a Tensor.

    It is pickled and copied by its name. If ``custom_op`` defines the name anew, the object calls the new op.

    Attributes:
        __name__: the name of the decorated function; module and ``__wrapped__`` are copied too.
            ``__doc__`` is the function's docstring, with signature, schema and rules.
    """

    if TYPE_CHECKING:  # at run time __call__ is a slot, which needs no frame
        __name__: str

        @overload
        def __call__(self, tensor: Tensor | Sequence[Tensor], /, *args: Any, **kwargs: Any) -> Tensor: ...

        @overload  # a kernel on the host, or on Tensors
        def __call__(
            self: CustomOpDef[Concatenate[np.ndarray[Any, Any], ...], Any]
            | CustomOpDef[Concatenate[Tensor, ...], Any],
            array: jax.Array,
            /,
            *args: Any,
            **kwargs: Any,
        ) -> jax.Array: ...

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Calls the op."""

    def __init__(self, op: OpOverload, fn: Callable[P, R]) -> None:
        self._opoverload = op
        self.__call__ = op
        self.__name__ = getattr(fn, "__name__", op.name())
        self.__qualname__ = getattr(fn, "__qualname__", self.__name__)
        self.__module__ = getattr(fn, "__module__", __name__)
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
        """Calls the op and returns arrays, even if no argument decides the kind of input."""
        return self._opoverload.arrays(*args, **kwargs)

    def functional(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a mutable op on arrays and returns the new values of written arguments, then its results."""
        return self._opoverload.functional(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._opoverload._schema})>"

    def describe(self, *args: Any, **kwargs: Any) -> OpDescription:
        """Returns the table of the op's rules, see :meth:`OpOverload.describe`."""
        return self._opoverload.describe(*args, **kwargs)

    def _repr_html_(self) -> str:
        return self._opoverload._repr_html_()

    def __reduce__(self) -> Values:
        if self._opoverload.is_local:
            return self._opoverload.__reduce__()
        return find_custom_op, (self._qualname,)

    # The functions of oplib.library, which get this object as the op.
    register_kernel = kernel_registration.register_kernel
    register_fake = kernel_registration.register_fake
    register_autograd = rule_registration.register_autograd
    register_jvp = rule_registration.register_jvp
    register_vmap = rule_registration.register_vmap
    register_sharding = rule_registration.register_sharding
    register_autocast = rule_registration.register_autocast

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
        slot = find_slot(device_type or "default", subject=f"set_kernel_enabled({qualname})")
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


CustomOpDef.__doc__ = LateDocstring(CustomOpDef.__doc__, lambda op: op._opoverload.__doc__)  # pyright: ignore[reportAttributeAccessIssue]

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
    op = find_overload(name, subject="find_custom_op")
    custom_op = _defined.get(op.name())
    if custom_op is None or not op.record.is_custom:
        raise RegistrationError(
            f"find_custom_op: {name} was not made by custom_op. It was registered at "
            f"{op.record.where}. Use ops.{op}."
        )
    return custom_op
