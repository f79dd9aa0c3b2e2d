"""``Library``: a set of registrations that end together; and the entry of ops and kernels."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

from oplib.errors import (
    LibraryDestroyedError,
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    UnsupportedRegistrationError,
    describe,
)
from oplib.library.infer_schema import infer_kind
from oplib.library.op_objects.overload import Op, OpOverload, resolve_op
from oplib.library.op_records.contribution import (
    FOREVER,
    KERNEL_SLOTS,
    AutocastSlot,
    Contribution,
    Contributions,
    Kernel,
    KernelSlot,
    Owner,
    find_newest,
)
from oplib.library.op_records.platforms import find_key
from oplib.library.op_records.qualname import (
    Qualname,
    check_namespace,
    parse_qualname,
    require_same_namespace,
)
from oplib.library.op_records.record import Definition, Function
from oplib.library.op_records.sites import find_site
from oplib.library.op_records.tags import Tags, to_tags
from oplib.library.schema import parse_schema
from oplib.tracebacks import entry_point

from .absent import fallthrough_kernel
from .registry import registry
from .rules import check_definition, check_kind, require_callable

KINDS = ("DEF", "FRAGMENT", "IMPL")
ALIAS_ANALYSES = ("", "FROM_SCHEMA", "CONSERVATIVE")
_has_warned = False


class Library:
    """Defines ops in a namespace, and kernels and rules for ops; all of them end with the library.

    A library ends when its last reference is deleted, or by ``_destroy()``. Registrations of other libraries
    that it had overridden are then in force again.

    Args:
        ns: the namespace.
        kind: ``DEF`` (one per namespace) or ``FRAGMENT`` (many) to define ops; ``IMPL`` for the rest only.
        dispatch_key: the device for which :meth:`impl` registers by default.

    Raises:
        RegistrationTypeError: a name is no string.
        RegistrationValueError: another kind, or a reserved namespace.
        RegistrationError: a second ``DEF`` of a namespace.

    Source:
        ``torch.library.Library``.

    Example:
        >>> lib = Library("docs", "FRAGMENT")
        >>> lib.define("halve(Tensor x) -> Tensor")
        'halve'
        >>> lib.impl("halve", lambda x: x / 2, "default")
        >>> lib._destroy()
    """

    @entry_point
    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        for name, value in (("ns", ns), ("dispatch_key", dispatch_key)):
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
                raise RegistrationTypeError(
                    f"Library: argument {name!r} is no string. Got {describe(value)}. Give a name."
                )
        if not isinstance(kind, str) or kind not in KINDS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationValueError(
                f"Library: Unsupported kind: {describe(kind)}. Expected one of {', '.join(KINDS)}."
            )
        site = find_site()
        if kind != "IMPL":
            check_namespace(ns, site)
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._owner = Owner(ns, site)
        if kind == "DEF":
            registry.claim_namespace(self._owner)
        self._finalizer = weakref.finalize(self, registry.drop, self._owner)
        self._finalizer.atexit = False  # a process that ends needs no tidy registry

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    @entry_point
    def define(
        self,
        schema: str,
        alias_analysis: str = "",
        *,
        tags: Tags = (),
        operand: Iterable[str] = (),
        donates: Iterable[str] = (),
    ) -> str:
        """Defines an op. The annotations of its first kernel decide how its kernels run.

        Args:
            schema: the schema with the op's name: ``name(Tensor x) -> Tensor``.
            alias_analysis: accepted for parity; the schema always declares the aliases.
            tags: promises beyond the schema.
            operand: the names of number arguments that are operands of compiled kernels instead of static.
            donates: the names of written arguments whose buffer the op may reuse.

        Returns:
            The op's name without namespace and overload.

        Raises:
            LibraryDestroyedError: the library has been destroyed.
            SchemaError: the schema does not parse.
            RegistrationError: the library is of kind IMPL, the schema names another namespace, or the op is
                defined already.
            RegistrationValueError: the schema breaks the promise of a tag or option.
        """
        subject = f"Library({self.ns}).define"
        self._require_alive(subject)
        if alias_analysis not in ALIAS_ANALYSES:
            raise RegistrationError(
                f"{subject}: Invalid alias_analysis type {alias_analysis!r}. Leave it out."
            )
        if self.kind == "IMPL":
            raise RegistrationError(
                f"{subject}: Cannot define an operator inside of a library of kind IMPL. Got {schema!r}. "
                f"Use a library of kind DEF or FRAGMENT."
            )
        return enter_op(
            schema, self.ns, self._owner, subject=subject, tags=tags, operand=operand, donates=donates
        ).name

    @entry_point
    def impl(
        self,
        op_name: str | OpOverload,
        fn: Function,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Registers a kernel for an op, which may be defined later.

        Args:
            op_name: the name, with its overload and with or without the namespace; or the overload itself.
            fn: the kernel.
            dispatch_key: a device type (``cpu``, ``gpu``, ``tpu``, ``default``) or torch's name for it; empty
                for the key of the library. If that is empty too, the kernel is composite: it calls
                differentiable ops, and autograd looks into it. ``AutocastCPU`` and ``AutocastCUDA`` register
                a function that takes the place of the call under autocast, and runs with autocast off.
            with_keyset: not supported, because there are no dispatch keys.
            allow_override: False makes it an error if a kernel for this device is registered already.

        Raises:
            LibraryDestroyedError: the library has been destroyed.
            RegistrationTypeError: ``fn`` is not callable.
            RegistrationError: an unknown device; another namespace; a kernel exists and may not be
                overridden; a kernel of another kind than the op's kernels.

        Warns:
            UserWarning: a kernel replaces another one; issued once per process.
        """
        subject = f"Library({self.ns}).impl"
        self._require_alive(subject)
        require_callable(fn, f"{subject}: the input function")
        _refuse_keys(fn, with_keyset=with_keyset, subject=subject)
        qualname = self._resolve(op_name, subject)
        slot = find_key(dispatch_key or self.dispatch_key, subject=f"{subject}({qualname})")
        enter_kernel(qualname, slot, fn, self._owner, allow_override=allow_override)

    def fallback(self, fn: Function, *_args: Any, **_kwargs: Any) -> None:
        """Raises: there are no dispatch keys that a fallback could serve.

        Args:
            fn: the fallback.

        Raises:
            UnsupportedRegistrationError: always.
        """
        raise UnsupportedRegistrationError(
            f"Library({self.ns}).fallback: a fallback for a dispatch key has no meaning here. Got {fn!r}. "
            f'Register a kernel for the op with device type "default".'
        )

    def _resolve(self, op_name: object, subject: str) -> Qualname:
        if isinstance(op_name, OpOverload):
            op_name = op_name.name()
        if not isinstance(op_name, str):
            raise RegistrationError(
                f"{subject}: it should be passed either a name or an OpOverload object as the first "
                f'argument. Got {type(op_name).__name__}. Write it as "ns::name".'
            )
        qualname = parse_qualname(op_name if "::" in op_name else f"{self.ns}::{op_name}", subject=subject)
        require_same_namespace(qualname.namespace, self.ns, subject=f"{subject}({op_name!r})")
        return qualname

    def _require_alive(self, subject: str) -> None:
        if not self._finalizer.alive:
            raise LibraryDestroyedError(
                f"{subject}: the Library object has been destroyed. It was made at {self._owner.site}. Make "
                "a new one."
            )

    def _destroy(self) -> None:
        """Removes all registrations of the library; a second call has no effect."""
        self._finalizer()


def find_owner(qualname: Qualname, lib: Library | None, *, subject: str) -> Owner:
    """Returns the owner of a registration: the library, or the permanent owner.

    Raises:
        LibraryDestroyedError: the library has been destroyed.
        RegistrationError: the library has another namespace.
    """
    if lib is None:
        return FOREVER
    lib._require_alive(subject)
    require_same_namespace(qualname.namespace, lib.ns, subject=f"{subject}({qualname})")
    return lib._owner


def resolve_target(
    op: Op, lib: Library | None, *, subject: str, resolve: Callable[..., OpOverload] = resolve_op
) -> tuple[OpOverload, Owner]:
    """Returns the op that a rule is registered for, and the owner of the rule; raises as both searches do."""
    overload = resolve(op, subject=subject)
    return overload, find_owner(overload._qualname, lib, subject=subject)


def enter_op(
    schema: str,
    namespace: str,
    owner: Owner,
    *,
    subject: str,
    tags: Tags,
    operand: Iterable[str],
    donates: Iterable[str],
) -> Qualname:
    """Defines an op, by a schema with its name, with or without the namespace; the options are of ``define``.

    Raises:
        SchemaError: the schema does not parse.
        RegistrationValueError: the schema breaks the promise of a tag or option.
        RegistrationError: the schema names another namespace, or the op is defined already.
    """
    written, separator, _ = schema.partition("(")[0].rpartition("::")
    if separator:
        require_same_namespace(written.strip(), namespace, subject=subject)
    definition = Definition(
        parse_schema(schema if separator else f"{namespace}::{schema.lstrip()}"),
        tags=to_tags(tags, subject=subject),
        operand=frozenset(operand),
        donates=frozenset(donates),
    )
    check_definition(definition)
    namespace, _, name = definition.schema.name.partition("::")
    qualname = Qualname(namespace, name, definition.schema.overload_name)
    registry.define(qualname, {"definition": definition}, owner)
    return qualname


def enter_kernel(
    qualname: Qualname,
    slot: KernelSlot | AutocastSlot,
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
    require_callable(fn, f"{qualname}: the kernel")
    is_kernel = slot in KERNEL_SLOTS
    kernel: Any = Kernel(fn, infer_kind(fn)) if is_kernel else fn  # pyright: ignore[reportArgumentType]  it is callable
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
        if is_kernel:
            check_kind(qualname, kernel, pieces)

    registry.add(qualname, slot, kernel, owner, check)


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


def _refuse_keys(fn: Function, *, with_keyset: bool, subject: str) -> None:
    if with_keyset or fn is fallthrough_kernel:
        asked = "with_keyset" if with_keyset else "fallthrough_kernel"
        raise UnsupportedRegistrationError(
            f"{subject}: {asked} needs dispatch keys, and there are none. Got {fn!r}. "
            f"Register a kernel that takes the arguments of the op, and call another one by get_kernel."
        )


@contextmanager
def _scoped_library(ns: str, kind: str, dispatch_key: str = "") -> Generator[Library]:
    """Yields a library that is destroyed at the end of the block, also after an exception."""
    library = Library(ns, kind, dispatch_key)
    try:
        yield library
    finally:
        library._destroy()
