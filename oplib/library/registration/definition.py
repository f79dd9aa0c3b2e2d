"""``define`` and ``impl``: an op in two steps, with or without a library of the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from oplib.errors import RegistrationTypeError, RegistrationValueError
from oplib.library.op_records.platforms import find_key, find_slots
from oplib.library.op_records.qualname import check_namespace, parse_qualname
from oplib.library.op_records.record import Function
from oplib.library.op_records.sites import find_site
from oplib.library.op_records.tags import Tags
from oplib.tracebacks import entry_point

from .library import Library, enter_kernel, enter_op, find_owner

_NAMELESS_SCHEMA = re.compile(r"\(.*\) -> .*", re.DOTALL)


@entry_point
def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Tags = (),
    operand: Iterable[str] = (),
    donates: Iterable[str] = (),
) -> Any:
    """Defines an op; its kernels and rules are registered later.

    Args:
        qualname: ``namespace::name`` or ``namespace::name.overload``.
        schema: the schema without the name: ``(Tensor x) -> Tensor``.
        alias_analysis: accepted for parity; the schema always declares the aliases.
        lib: a library of the same namespace, with which the op ends; without it the op is permanent.
        tags: promises beyond the schema.
        operand: the names of number arguments that are operands of compiled kernels instead of static.
        donates: the names of written arguments whose buffer the op may reuse.

    Returns:
        None. The old form ``define(library, "name(Tensor x) -> Tensor")`` returns a decorator that registers
        a composite kernel.

    Raises:
        RegistrationValueError: the name is not qualified, or the schema does not have this form.
        RegistrationError: the op is defined already.
        SchemaError: the schema does not parse.

    Source:
        ``torch.library.define``.

    Example:
        >>> lib = Library("docs", "FRAGMENT")
        >>> define("docs::third", "(Tensor x) -> Tensor", lib=lib)
        >>> impl("docs::third", "default", lambda x: x / 3, lib=lib)
        >>> lib._destroy()
    """
    if isinstance(qualname, Library):
        return _define_old_style(qualname, schema, alias_analysis)
    parsed = parse_qualname(qualname, subject="define")
    owner = find_owner(parsed, lib, subject="define")
    if not _NAMELESS_SCHEMA.fullmatch(schema):
        raise RegistrationValueError(
            f'define({qualname}): expected schema to look like e.g. "(Tensor x) -> Tensor". Got {schema!r}. '
            "Leave the name out, and write blanks around the arrow."
        )
    check_namespace(parsed.namespace, find_site())
    local = qualname.partition("::")[2]  # as given: the parsed name has lost `default`, which must be refused
    enter_op(
        f"{local}{schema}",
        parsed.namespace,
        owner,
        subject="define",
        tags=tags,
        operand=operand,
        donates=donates,
    )
    return None


def _define_old_style(lib: Library, schema: str, alias_analysis: str) -> Callable[[Function], Function]:
    def define_and_impl(fn: Function) -> Function:
        lib.define(schema, alias_analysis)
        lib.impl(schema.partition("(")[0].strip(), fn)
        return fn

    return entry_point(define_and_impl)


@entry_point
def impl(
    qualname: str | Library, types: str | Iterable[str], func: Any = None, *, lib: Library | None = None
) -> Any:
    """Registers a kernel for an op, which may be defined later.

    Args:
        qualname: the qualified name of the op.
        types: one or several device types: ``cpu``, ``gpu`` (``cuda``), ``tpu``, or ``default`` for all.
            ``AutocastCPU`` and ``AutocastCUDA`` register what takes the place of the call under autocast.
        func: the kernel; None makes the call a decorator.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        None, or a decorator that returns None. The old form ``impl(library, name, device="")`` returns a
        decorator that returns the function.

    Raises:
        RegistrationValueError: the name is not qualified.
        RegistrationTypeError: ``func`` is not callable.
        RegistrationError: an unknown device type, or a kernel of another kind than the op's kernels.

    Source:
        ``torch.library.impl``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from oplib.library import define, ops
        >>> define("docs::tripled", "(Tensor x) -> Tensor")
        >>> @impl("docs::tripled", "default")
        ... def tripled(x: jax.Array) -> jax.Array:
        ...     return 3 * x
        >>> ops.docs.tripled(jnp.float32(2))
        Array(6., dtype=float32)
    """
    if isinstance(qualname, Library):
        return _impl_old_style(qualname, types, "" if func is None else func)
    slots = find_slots(types, subject=f"impl({qualname})", find=find_key)

    def register(fn: object) -> None:
        parsed = parse_qualname(qualname, subject="impl")
        owner = find_owner(parsed, lib, subject="impl")
        for slot in slots:
            enter_kernel(parsed, slot, fn, owner)

    return entry_point(register) if func is None else register(func)


def _impl_old_style(lib: Library, name: object, dispatch_key: object) -> Callable[[Function], Function]:
    if not isinstance(name, str) or not isinstance(dispatch_key, str):
        raise RegistrationTypeError(
            f"impl(library, name, device): both are str. Got {name!r} and {dispatch_key!r}. Decorate the "
            "kernel with it."
        )

    def register(fn: Function) -> Function:
        lib.impl(name, fn, dispatch_key)
        return fn

    return entry_point(register)
