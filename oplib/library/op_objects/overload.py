"""One overload of an op: the callable object, which stays the same for its name for ever, and its lookup."""

from __future__ import annotations

import inspect
import textwrap
import threading
from collections.abc import Callable
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from oplib.errors import RegistrationError, RegistrationValueError, UnknownOperatorError
from oplib.library.arguments.recording import unbox
from oplib.library.op_records.qualname import LocalQualname, Qualname, name_nearest, parse_qualname
from oplib.library.op_records.record import Function, Record, Tag
from oplib.library.op_records.sites import find_doc
from oplib.library.schema import FunctionSchema
from oplib.protocols import Values
from oplib.pytree import tree_map
from oplib.tensor.devices.forked import after_fork, is_orphan, refuse_call
from oplib.tracebacks import entry_point

from .deferral import settle, settle_all
from .description import OpDescription, describe_record, find_forward_refusal
from .jax_names import explain_attribute
from .signature import LateDocstring, LateSignature, make_signature

Named = TypeVar("Named")


class NamedObjects(Generic[Named]):
    """The one object of each name: while the name is defined, and later as long as a reference to it exists.

    Attributes:
        defined: the objects of the names that are defined.
        retired: those of other names to which a reference exists.
    """

    def __init__(self) -> None:
        self.defined: dict[str, Named] = {}
        self.retired: WeakValueDictionary[str, Named] = WeakValueDictionary()
        self._lock = threading.RLock()

    def intern(self, name: str, make: Callable[[], Named]) -> Named:
        """Returns the object of a name, and makes it at the first use."""
        known = self.defined.get(name)
        if known is None:
            with self._lock:
                retired = self.retired.pop(name, None)
                known = self.defined.setdefault(name, make() if retired is None else retired)
        return known

    def retire(self, name: str) -> None:
        """Forgets the object of a name, as soon as no reference to it is left."""
        with self._lock:
            if name in self.defined:
                self.retired[name] = self.defined.pop(name)


class Redirecting:
    """A callable that calls the function assigned to its ``__call__``. A copy of it is the object itself.

    ``__call__`` is a slot, so Python finds the function by itself. No frame of oplib stands between the user
    and the function; such a frame would cost a tenth of a small op.
    """

    __slots__ = {"__call__": "Calls the op: on Tensors, recorded where one requires grad; or on arrays."}

    __call__: Callable[..., Any]

    if not TYPE_CHECKING:  # a type checker refuses a name that does not exist

        def __getattr__(self, name: str) -> Any:
            """Refuses a name that the object does not have; one of JAX's gets the equivalent of oplib."""
            raise AttributeError(explain_attribute(self, name), name=name, obj=self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class OpOverload(Redirecting):
    """An op under its qualified name; call it with Tensors or with arrays.

    A process has one such object per name. When the op is defined anew, the same object gets the new record.
    When its library is destroyed, a call raises. The object keeps its last record, which recorded graphs
    still read. It is compared by identity, and pickled and copied by name.

    Attributes:
        record: the registration of the overload; replaced, never changed.
        alive: whether the overload is defined now.
        call: the function of a whole call, the same as ``__call__``. It is assigned anew with every record,
            and built at the first call.
        arrays: as ``call``, but returns arrays if no argument decides the kind of input.
        functional: the function of arrays; it stays when the op is destroyed.
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
        self._in_traces: OpOverload | None = None
        self.__name__ = f"{qualname.name}.{qualname.overload or 'default'}"

    if not TYPE_CHECKING:
        call = vars(Redirecting)["__call__"]

    def name(self) -> str:
        """Returns the qualified name: ``ns::op``, or ``ns::op.overload``."""
        return self._name

    @property
    def in_traces(self) -> OpOverload:
        """The object that traces and plans hold: for a local op, one without its compiled code.

        JAX's caches keep what a trace holds as long as the traced function lives, which is part of that code.
        """
        if not self.is_local:
            return self
        if self._in_traces is None:
            self._in_traces = OpOverload(self._qualname)
        self._in_traces.record = self.record
        return self._in_traces

    @property
    def is_local(self) -> bool:
        """Whether the op has no name by which it can be found."""
        return isinstance(self._qualname, LocalQualname)

    @property
    def namespace(self) -> str:
        """The part of the name before ``::``."""
        return self._qualname.namespace

    @property
    def _overloadname(self) -> str:
        return self._qualname.overload or "default"

    @property
    def _schema(self) -> FunctionSchema:
        return self.record.schema

    @property
    def tags(self) -> list[Tag]:
        """The promises of the op beyond its schema."""
        return list(self.record.tags)

    def __str__(self) -> str:
        return f"{self._qualname.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        packet = f"{self._qualname.namespace}.{self._qualname.name}"
        return f"<OpOverload(op='{packet}', overload='{self._overloadname}', schema='{self._schema}')>"

    def describe(self, *args: Any, **kwargs: Any) -> OpDescription:
        """Returns the table of the op's rules: which are there, and what to register.

        Args:
            *args: arguments of a call, optional. With them the table says whether forward mode can be derived
                from the formula for these arguments. Nothing runs.
            **kwargs: its keyword arguments.

        Returns:
            The description. It prints as text, and displays as a table in notebooks.

        Example:
            >>> import oplib
            >>> print(oplib.ops.oplib.sin.default.describe()["backward"].status.name)
            derived
        """
        arrays, keywords = tree_map(unbox, (args, kwargs))
        refused = find_forward_refusal(self.functional, arrays, keywords) if args or kwargs else None
        return describe_record(self.record, refused)

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def __reduce__(self) -> Values:
        if self.is_local:
            raise PicklingError(
                f"{self._name}: a local op cannot be pickled, because it is not in the registry. Got the op "
                f'of {self.record.where}. Give it a name: custom_op("namespace::name", function).'
            )
        return find_overload, (self._name,)

    def replace(self, record: Record, build: Callable[[OpOverload], None]) -> None:
        """Sets another record; ``build`` runs at the next call, and assigns the function of a call.

        Late building keeps importing many ops cheap, and attaching several rules to one op too.
        """
        self.record = record
        self._drop_dispatcher()
        self.alive = True
        self._build = build
        self.call = self._defer("call", build)
        self.arrays = self._defer("arrays", build)
        self.functional = self._defer("functional", build)

    def prepare(self) -> Any:
        """Builds the function of a call unless a call has, and returns the current record's dispatcher.

        It returns None where nothing defines the op any more. Another thread may drop what this one built.
        """
        while (dispatcher := self._dispatcher) is None and self.alive:
            self._build(self)
        return dispatcher

    def take_dispatcher(self, dispatcher: Any) -> None:
        """Stores the dispatcher for the calls of the current record."""
        if self._dispatcher is not None:  # of a building that was interrupted
            self._dispatcher.close()
        self._dispatcher = dispatcher

    def take_call(self, call: Function) -> None:
        """Stores the function of a call. An interrupt comes before both assignments, or after them."""
        self.call = call
        self._is_built = True

    def _drop_dispatcher(self) -> None:
        """Disables the code that was generated for the last record."""
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
        @entry_point
        def build_and_call(*args: Any, **kwargs: Any) -> Any:
            build(self)
            return self(*args, **kwargs) if attribute == "call" else getattr(self, attribute)(*args, **kwargs)

        return build_and_call

    def _refuse(self, /, *_args: Any, **_kwargs: Any) -> Any:
        raise RegistrationError(
            f"{self._name}: the op is not defined any more. It was registered at {self.record.where}, and "
            "its library has been destroyed since. Keep the library alive, or define the op again."
        )


def write_help(op: OpOverload) -> str:
    """Returns the text of ``help``: the kernel's docstring, signature, schema, rules, and place."""
    record = op.record
    said = next(map(find_doc, record.kernels.values()), None)
    rules = "\n".join(describe_record(record).list_rules())
    return "\n\n".join([
        *([] if said is None else [inspect.cleandoc(said)]),
        f"Signature:\n    {record.name}{make_signature(record.schema)}",
        f"Schema:\n    {record.schema}",
        f"Rules:\n{textwrap.indent(rules, '  ')}",
        "Built in." if record.is_built_in else f"Registered at {record.where}.",
    ])  # fmt: skip


OpOverload.__doc__ = LateDocstring(OpOverload.__doc__, write_help)  # pyright: ignore[reportAttributeAccessIssue]


overloads: NamedObjects[OpOverload] = NamedObjects()


def list_overloads() -> list[OpOverload]:
    """Returns all overloads that are defined now, in the order of their first definition."""
    settle_all()
    return [overload for overload in list(overloads.defined.values()) if overload.alive]


def find_overload(name: str, *, subject: str = "ops") -> OpOverload:
    """Returns the overload that is registered under a qualified name.

    Raises:
        RegistrationValueError: the name is not qualified.
        UnknownOperatorError: nothing is registered under the name; the text suggests the nearest name.
    """
    qualname = parse_qualname(name, subject=subject)
    settle(qualname.packet)
    overload = overloads.defined.get(str(qualname))
    if overload is None or not overload.alive:
        raise UnknownOperatorError(explain_unknown(str(qualname), subject=subject))
    return overload


def explain_unknown(name: str, *, subject: str) -> str:
    """Returns the text of the error about a name that is not registered."""
    names = [op.name() for op in list_overloads()]
    own = [other for other in names if other.startswith(f"{name}.")]
    if own:
        return (
            f"{subject}: the name of an overload needs its ending. Got {name}, which has {', '.join(own)}. "
            "Choose one of these."
        )
    return (
        f"{subject}: the operator {name} does not exist. {name_nearest(name, names)} Correct the name, or "
        "import the module that registers it."
    )


def _refuse_calls_of_orphan() -> None:
    """Makes every op raise in a process in which JAX would hang; ops defined later raise when bound."""
    if is_orphan():
        for overload in [*overloads.defined.values(), *overloads.retired.values()]:
            overload._drop_dispatcher()
            overload.call = overload.arrays = overload.functional = refuse_call


after_fork(_refuse_calls_of_orphan)


@runtime_checkable
class HasOverload(Protocol):
    """An object that stands for one overload, such as the result of ``custom_op``."""

    @property
    def _opoverload(self) -> OpOverload: ...


Op = str | OpOverload | HasOverload


def resolve_op(op: object, *, subject: str) -> OpOverload:
    """Returns the overload for a name, an overload, or the result of ``custom_op``.

    Args:
        op: a name or an object; a packet is refused, because it may have several overloads.
        subject: the calling function, for the error.

    Raises:
        RegistrationValueError: another object, or a name that is not qualified.
        UnknownOperatorError: nothing is registered under this name; the text suggests the nearest name.
    """
    if isinstance(op, HasOverload):
        op = op._opoverload
    if isinstance(op, OpOverload) and op.is_local:
        return op
    if isinstance(op, OpOverload):
        op = op.name()  # finds out whether it is still alive
    if not isinstance(op, str):
        raise RegistrationValueError(
            f"{subject}({op}): got unexpected type for op: {type(op).__name__}. Expected a name, an overload "
            "such as ops.ns.f.default, or the result of custom_op."
        )
    return find_overload(op, subject=subject)


def resolve_existing_op(op: Op, *, subject: str) -> OpOverload:
    """Resolves an op as :func:`resolve_op`, with torch's kind of error for an unknown name.

    Raises:
        RegistrationValueError: neither a name nor an overload.
        RegistrationError: nothing is registered under this name.
    """
    try:
        return resolve_op(op, subject=subject)
    except UnknownOperatorError as error:
        raise RegistrationError(str(error)) from None
