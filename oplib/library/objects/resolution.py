"""Which op is meant by what a user hands over."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from oplib.errors import RegistrationError, RegistrationValueError, UnknownOperatorError

from .overload import OpOverload, find_overload


@runtime_checkable
class HasOverload(Protocol):
    """Stands for one overload, as what ``custom_op`` gives does."""

    @property
    def _opoverload(self) -> OpOverload: ...


Op = str | OpOverload | HasOverload


def resolve_op(op: object, *, subject: str) -> OpOverload:
    """Returns the overload that is meant by a name, an overload, or what ``custom_op`` gave.

    Args:
        op: a packet is refused, since it may have several overloads.
        subject: the function that asks, for the error.

    Raises:
        RegistrationValueError: something else, or a name that is not qualified.
        UnknownOperatorError: nothing is registered under this name; the nearest is suggested.
    """
    if isinstance(op, HasOverload):
        op = op._opoverload
    if isinstance(op, OpOverload):
        op = op.name()  # finds out whether it is still alive
    if not isinstance(op, str):
        raise RegistrationValueError(
            f"{subject}({op}): got unexpected type for op: {type(op).__name__}. Expected a name, an overload "
            "such as ops.ns.f.default, or what custom_op returned."
        )
    return find_overload(op, subject=subject)


def resolve_existing_op(op: Op, *, subject: str) -> OpOverload:
    """As :func:`resolve_op`, with torch's kind of error for a name that is not registered.

    Raises:
        RegistrationValueError: neither a name nor an overload.
        RegistrationError: nothing is registered under this name.
    """
    try:
        return resolve_op(op, subject=subject)
    except UnknownOperatorError as error:
        raise RegistrationError(str(error)) from error
