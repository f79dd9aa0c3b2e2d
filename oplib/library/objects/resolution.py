"""Resolution of an op that the user gives by name, by overload or by ``custom_op``'s result."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from oplib.errors import RegistrationError, RegistrationValueError, UnknownOperatorError

from .overload import OpOverload, find_overload


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
