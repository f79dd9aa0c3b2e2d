"""Lookup of ops by attribute: ``ops.namespace.name.overload``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import Signature
from typing import Any

from oplib.errors import ArgumentError, DeviceError, DtypeError, UnknownOperatorError
from oplib.library.arguments.binding import Binder
from oplib.library.op_records.qualname import Qualname, name_nearest
from oplib.protocols import Values

from .deferral import settle, settle_all
from .overload import NamedObjects, OpOverload, Redirecting, explain_unknown
from .signature import SIGNATURE_OF_ANY, LateDocstring, LateSignature, make_signature


class OpOverloadPacket(Redirecting):
    """All overloads of one op; a call goes to the first overload that fits the arguments.

    The overloads are attributes (``packet.default``, ``packet.out``). A process has one packet per name; it
    is pickled and copied by name.
    """

    __signature__ = LateSignature(lambda packet: packet._find_signature())

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self._overloads: tuple[OpOverload, ...] = ()
        self.__call__ = self._call_first_that_fits
        self.__name__ = name

    def _find_signature(self) -> Signature:
        """Returns the signature of the only overload; with several overloads the arguments decide."""
        if len(self._overloads) != 1:
            return SIGNATURE_OF_ANY
        return make_signature(self._overloads[0].record.schema)

    def _call_first_that_fits(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the first overload whose schema fits the arguments."""
        reasons: list[str] = []
        for overload in self._overloads:
            record = overload.record
            try:
                Binder(record.schema, operand=record.operand).bind(args, kwargs)
            except (ArgumentError, DtypeError, DeviceError) as error:
                reasons.append(f"{record.schema}: {error}")
            else:
                return overload(*args, **kwargs)
        told = "\n".join(reasons)
        raise ArgumentError(
            f"{self}: the arguments failed to match any schema of its overloads. Tried in "
            f"order:\n{told}\nChange the arguments, or call one overload by its name."
        )

    def overloads(self) -> list[str]:
        """Returns the names of the overloads, the unnamed one as ``default``."""
        return [overload._overloadname for overload in self._overloads]

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):  # Python asks for dunder names; they are no overloads
            raise AttributeError(name)
        raise UnknownOperatorError(
            f"{self}: it has no overload name {name!r}. Its overloads are "
            f"{', '.join(self.overloads()) or 'none'}. {name_nearest(name, self.overloads())}"
        )

    def __iter__(self) -> Iterator[str]:
        return (overload._overloadname for overload in self._overloads)

    def _repr_html_(self) -> str:
        return "<hr>".join(overload._repr_html_() for overload in self._overloads)

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        schemas = "; ".join([str(overload._schema) for overload in self._overloads])
        return f"<OpOverloadPacket(op='{self}', overloads={self.overloads()}, schema='{schemas}')>"

    def __reduce__(self) -> Values:
        return find_packet, (self._qualified_op_name,)


def _write_help(packet: OpOverloadPacket) -> str:
    """Returns the help of the overloads, one after another."""
    return "\n\n".join(str(overload.__doc__) for overload in packet._overloads)


OpOverloadPacket.__doc__ = LateDocstring(OpOverloadPacket.__doc__, _write_help)  # pyright: ignore[reportAttributeAccessIssue]


class OpNamespace:
    """The ops of one namespace, as attributes. Every namespace exists, even an empty one."""

    # The registry enters packets into the instance's dictionary, so that a lookup costs nothing. So the
    # dictionary holds nothing else under a name that an op could have.
    def __init__(self, namespace: str) -> None:
        self.__namespace = namespace

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        qualname = f"{self.__namespace}::{name}"
        if settle(qualname) and name in vars(self):
            return vars(self)[name]
        raise UnknownOperatorError(explain_unknown(qualname, subject=f"ops.{self.__namespace}"))

    def __dir__(self) -> list[str]:
        return sorted(self)

    def __iter__(self) -> Iterator[str]:
        settle_all(self.__namespace)
        return (name for name, value in list(vars(self).items()) if isinstance(value, OpOverloadPacket))

    def __reduce__(self) -> Values:
        return getattr, (ops, self.__namespace)

    def __repr__(self) -> str:
        return f"<ops.{self.__namespace}: {len(list(self))} ops>"


class OpsNamespaces:
    """All namespaces, as attributes: ``ops.demo.softclip(x)``.

    Example:
        >>> from oplib.library import custom_op
        >>> import jax
        >>> @custom_op("docs::twice")
        ... def twice(x: jax.Array) -> jax.Array:
        ...     return 2 * x
        >>> ops.docs.twice
        <OpOverloadPacket(op='docs.twice', overloads=['default'], schema='docs::twice(Tensor x) -> Tensor')>
        >>> ops.docs.twice.default.name()
        'docs::twice'
    """

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        # Two threads may arrive here at once; both must get the same object.
        return vars(self).setdefault(name, OpNamespace(name))

    def __iter__(self) -> Iterator[str]:
        settle_all()
        return (name for name, namespace in list(vars(self).items()) if any(True for _ in namespace))

    def __dir__(self) -> list[str]:
        return sorted(self)

    def __repr__(self) -> str:
        return f"<ops: {', '.join(sorted(self)) or 'none'}>"

    def __reduce__(self) -> str:
        return "ops"


ops = OpsNamespaces()

_packets: NamedObjects[OpOverloadPacket] = NamedObjects()


def _intern_packet(qualname: Qualname) -> OpOverloadPacket:
    return _packets.intern(qualname.packet, lambda: OpOverloadPacket(qualname.namespace, qualname.name))


def publish(overload: OpOverload) -> None:
    """Adds an overload to those found under its op's name, as the last one."""
    qualname = overload._qualname
    packet = _intern_packet(qualname)
    others = [other for other in packet._overloads if other.alive and other is not overload]
    _replace_overloads(packet, [*others, overload])
    vars(getattr(ops, qualname.namespace))[qualname.name] = packet


def withdraw(overload: OpOverload) -> None:
    """Removes an overload from its op's name; with its last overload the op leaves its namespace."""
    qualname = overload._qualname
    packet = _intern_packet(qualname)
    others = [other for other in packet._overloads if other is not overload]
    if others:
        _replace_overloads(packet, others)
    else:  # the last overload stays, and raises if called
        vars(getattr(ops, qualname.namespace)).pop(qualname.name, None)
        _packets.retire(qualname.packet)


def _replace_overloads(packet: OpOverloadPacket, overloads: Sequence[OpOverload]) -> None:
    for name in packet:
        vars(packet).pop(name, None)
    packet._overloads = tuple(overloads)
    packet.__call__ = overloads[0] if len(overloads) == 1 else packet._call_first_that_fits
    vars(packet).update({overload._overloadname: overload for overload in overloads})


def find_packet(name: str) -> OpOverloadPacket:
    """Returns the packet of a qualified name; unpickling calls this function.

    Raises:
        UnknownOperatorError: nothing is registered under the name.
    """
    namespace, _, op = name.partition("::")
    return getattr(getattr(ops, namespace), op)
