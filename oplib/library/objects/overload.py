"""One overload of an op: the object that is called, for ever the same one for its name."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oplib.errors import RegistrationError, UnknownOperatorError
from oplib.library.records.nearest import name_nearest
from oplib.library.records.qualname import Qualname, parse_qualname
from oplib.library.records.record import Function, Record, Tag
from oplib.library.schema import FunctionSchema
from oplib.tensor.devices.forked import after_fork, is_orphan, refuse_call

from .deferral import settle, settle_all
from .signature import LateSignature, make_signature

_interned: dict[str, OpOverload] = {}
_interning = threading.Lock()


class Redirecting:
    """What can be called, and calls what was assigned to its ``__call__``.

    That is a slot, in which Python finds what to call by itself: no frame of ours stands between a user and
    what runs, which would cost a tenth of a small op.
    """

    __slots__ = {"__call__": "Calls the op: on Tensors, recorded where one requires grad; or on arrays."}

    __call__: Callable[..., Any]


class OpOverload(Redirecting):
    """An op under its qualified name; call it with Tensors or with arrays.

    There is one such object for each name in a process. When its op is defined anew, the same object gets the
    new record; when its library is destroyed, it raises if called and keeps its last record, which graphs
    recorded before still read. It is compared by identity, and pickled and copied by name.

    Attributes:
        record: everything registered for it; replaced, never changed.
        alive: whether it is defined now.
        call: does the whole work of a call, and is the ``__call__`` of this object by another name. Assigned
            anew with every record, and built at the first call.
        arrays: as ``call``, but gives arrays where no argument tells the world.
        functional: the array-level function; stays when the op is destroyed.
    """

    record: Record
    alive: bool
    call: Function
    arrays: Function
    functional: Function
    __signature__ = LateSignature(lambda op: make_signature(op.record.schema))

    def __init__(self, qualname: Qualname) -> None:
        self._qualname = qualname
        self._name = str(qualname)
        self.alive = False
        self._is_built = False
        self._dispatcher: Any = None
        self.__name__ = f"{qualname.name}.{qualname.overload or 'default'}"

    if not TYPE_CHECKING:
        call = vars(Redirecting)["__call__"]

    # What it is called ------------------------------------------------------------------------------------

    def name(self) -> str:
        """Returns the qualified name: ``ns::op``, or ``ns::op.overload``."""
        return self._name

    @property
    def namespace(self) -> str:
        """The part before ``::``."""
        return self._qualname.namespace

    @property
    def _overloadname(self) -> str:
        return self._qualname.overload or "default"

    @property
    def _schema(self) -> FunctionSchema:
        return self.record.schema

    @property
    def tags(self) -> list[Tag]:
        """What the op promises beyond its schema."""
        return list(self.record.tags)

    def __str__(self) -> str:
        return f"{self._qualname.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        packet = f"{self._qualname.namespace}.{self._qualname.name}"
        return f"<OpOverload(op='{packet}', overload='{self._overloadname}')>"

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return find_overload, (self._name,)

    # What it does -----------------------------------------------------------------------------------------

    def replace(self, record: Record, build: Callable[[OpOverload], None]) -> None:
        """Gives it another record; ``build`` runs at the next call, and assigns what a call runs.

        Building late keeps the import of many ops cheap, and the attaching of several rules to one op too.
        """
        self.record = record
        self.__doc__ = _describe(record)
        self._drop_dispatcher()
        self.alive = True
        self._build = build
        self.call = self._defer("call", build)
        self.arrays = self._defer("arrays", build)
        self.functional = self._defer("functional", build)

    def prepare(self) -> Any:
        """Builds what a call runs, if no call has been, and returns the dispatcher of the current record."""
        if self._dispatcher is None:
            self._build(self)
        return self._dispatcher

    def take_dispatcher(self, dispatcher: Any) -> None:
        """Keeps what serves the calls of the current record."""
        self._dispatcher = dispatcher
        self._is_built = True

    def _drop_dispatcher(self) -> None:
        """Lets code that was generated for the last record serve nothing from now on."""
        self._is_built = False
        if self._dispatcher is not None:
            self._dispatcher.close()
            self._dispatcher = None

    def retire(self) -> None:
        """Makes calls raise, because nothing defines the op any more; the record stays."""
        self.alive = False
        self._drop_dispatcher()
        self.call = self.arrays = self._refuse

    def _defer(self, attribute: str, build: Callable[[OpOverload], None]) -> Function:
        def build_and_call(*args: Any, **kwargs: Any) -> Any:
            build(self)
            return self(*args, **kwargs) if attribute == "call" else getattr(self, attribute)(*args, **kwargs)

        return build_and_call

    def _refuse(self, /, *_args: Any, **_kwargs: Any) -> Any:
        raise RegistrationError(
            f"{self._name}: the op is not defined any more. It was registered at {self.record.where}, and "
            "its library has been destroyed since. Keep the library alive, or define the op again."
        )


def _describe(record: Record) -> str:
    """What ``help`` shows of an op: its schema, what its kernel says of itself, and where it stands."""
    said = next((getattr(kernel, "__doc__", None) for kernel in record.kernels.values()), None)
    own = [] if said is None else [inspect.cleandoc(said)]
    return "\n\n".join([str(record.schema), *own, f"Registered at {record.where}."])


def intern_overload(qualname: Qualname) -> OpOverload:
    """Returns the one overload object of a name, made when it is first asked for."""
    name = str(qualname)
    overload = _interned.get(name)
    if overload is None:
        with _interning:
            overload = _interned.setdefault(name, OpOverload(qualname))
    return overload


def list_overloads() -> list[OpOverload]:
    """Returns all overloads that are defined now, in the order of their first definition."""
    settle_all()
    return [overload for overload in list(_interned.values()) if overload.alive]


def find_overload(name: str, *, subject: str = "ops") -> OpOverload:
    """Returns the overload that is registered under a qualified name.

    Args:
        name: ``ns::op`` or ``ns::op.overload``.
        subject: the function that asks, for the error.

    Raises:
        RegistrationValueError: the name is not qualified.
        UnknownOperatorError: nothing is registered under it; the nearest name is suggested.
    """
    qualname = parse_qualname(name, subject=subject)
    settle(qualname.packet)
    overload = _interned.get(str(qualname))
    if overload is None or not overload.alive:
        raise UnknownOperatorError(explain_unknown(str(qualname), subject=subject))
    return overload


def explain_unknown(name: str, *, subject: str) -> str:
    """Returns the text of the error about a name that is not registered."""
    return (
        f"{subject}: the operator {name} does not exist. "
        f"{name_nearest(name, [op.name() for op in list_overloads()])} Correct the name, or import the "
        "module that registers it."
    )


def _refuse_calls_of_orphan() -> None:
    """Makes every op raise in a process in which JAX would hang; those defined later raise when bound."""
    if is_orphan():
        for overload in _interned.values():
            overload._drop_dispatcher()
            overload.call = overload.arrays = overload.functional = refuse_call


after_fork(_refuse_calls_of_orphan)
