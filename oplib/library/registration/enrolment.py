"""Entry of ops and kernels into the registry: the checks that all kinds of registration share."""

from __future__ import annotations

import warnings

from oplib.errors import RegistrationError
from oplib.library.records.contribution import (
    Contribution,
    Contributions,
    Definition,
    KernelSlot,
    Owner,
    find_newest,
)
from oplib.library.records.qualname import Qualname
from oplib.library.records.sites import find_site

from .registry import registry
from .rules import check_definition, check_kind, make_kernel

_has_warned = False


def enter_op(definition: Definition, owner: Owner) -> Qualname:
    """Defines an op.

    Raises:
        RegistrationValueError: the schema breaks the promise of a tag or option.
        RegistrationError: the op is defined already.
    """
    check_definition(definition)
    namespace, _, name = definition.schema.name.partition("::")
    qualname = Qualname(namespace, name, definition.schema.overload_name)
    registry.define(qualname, Contribution("definition", definition, owner, find_site()))
    return qualname


def enter_kernel(
    qualname: Qualname,
    slot: KernelSlot,
    fn: object,
    owner: Owner,
    *,
    allow_override: bool = True,
    warn: bool = True,
) -> None:
    """Registers a kernel, whether or not its op is defined yet.

    Raises:
        RegistrationTypeError: ``fn`` is not callable.
        RegistrationError: a kernel exists and may not be overridden; a kernel of another kind than the op's
            kernels.
    """
    kernel = make_kernel(fn, qualname)
    first = find_newest(registry.read(qualname), slot)
    if first is not None and allow_override and warn:
        _warn_of_override(qualname, first)

    def check(pieces: Contributions) -> None:
        first = find_newest(pieces, slot)
        if first is not None and not allow_override:
            raise RegistrationError(
                f"{qualname}: there's already a kernel registered from python for device type {slot}, at "
                f"{first.site}. Leave allow_override out, or destroy the library of the first."
            )
        check_kind(qualname, kernel, pieces)

    registry.add(qualname, Contribution(slot, kernel, owner, find_site()), check)


def _warn_of_override(qualname: Qualname, first: Contribution) -> None:
    """Warns, once per process, that a kernel replaces another one."""
    global _has_warned  # noqa: PLW0603  once per process, for all libraries
    if _has_warned:
        return
    _has_warned = True
    warnings.warn(
        f"{qualname}: Overriding a previously registered kernel for the same operator and device type "
        f"{first.slot}. The first was registered at {first.site}. Pass allow_override=False to make this an "
        "error; this is told only once.",
        stacklevel=find_site().stacklevel,
    )
