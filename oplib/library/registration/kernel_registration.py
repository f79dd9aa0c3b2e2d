"""Registration of kernels and fake kernels for an op that is defined, and handles on its kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from oplib.errors import MissingRuleError, RegistrationError, RegistrationValueError
from oplib.library.op_objects.overload import Op, OpOverload, resolve_existing_op
from oplib.library.op_records.contribution import (
    KERNEL_SLOTS,
    Contribution,
    Contributions,
    KernelSlot,
    find_newest,
)
from oplib.library.op_records.platforms import DeviceTypes, find_slot, find_slots, list_slots
from oplib.library.op_records.qualname import Qualname
from oplib.library.op_records.record import Function, Tag
from oplib.library.op_records.sites import find_site
from oplib.tracebacks import entry_point

from .library import Library, enter_kernel, resolve_target
from .registry import registry
from .rules import check_fake_signature, require_callable, require_device_argument

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


@overload
def register_kernel(
    op: Op, device_types: DeviceTypes, func: None = None, /, *, lib: Library | None = None
) -> Callable[[Kernel], Kernel]: ...


@overload
def register_kernel(
    op: Op, device_types: DeviceTypes, func: Kernel, /, *, lib: Library | None = None
) -> Kernel: ...


@entry_point
def register_kernel(
    op: Op, device_types: DeviceTypes, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Registers a kernel for one or more device types.

    The kernel is chosen when a call is lowered, so a program that is exported for several platforms contains
    the kernel of each; if one is a Pallas kernel, export one program for each. Every machine traces all
    kernels, which return the same shapes. Later calls and traces use a new kernel at once; for functions
    compiled before see :func:`refresh`.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        device_types: ``cpu``, ``cuda``, ``rocm``, ``gpu`` (both of these), ``tpu``, or several; None for all
            devices. A kernel for ``cuda`` has priority over one for ``gpu``, which has priority over one for
            all.
        func: the kernel; None makes the call a decorator.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        The kernel, or a decorator that returns it.

    Raises:
        RegistrationTypeError: ``func`` is not callable.
        RegistrationValueError: ``op`` is another object; or the op has neither a tensor argument nor a
            ``Device device`` that decides the device.
        UnknownOperatorError: nothing is registered under the name.
        RegistrationError: an unknown device type; a kernel of another kind than the op's kernels; a library
            of another namespace.

    Example:
        >>> import jax
        >>> from oplib.library import custom_op, register_kernel
        >>> @custom_op("docs::quarter")
        ... def quarter(x: jax.Array) -> jax.Array:
        ...     return x / 4
        >>> @register_kernel("docs::quarter", "cuda")
        ... def quarter_on_gpu(x):
        ...     return x * 0.25
    """
    target, owner = resolve_target(op, lib, subject="register_kernel")
    slots = find_slots(device_types, subject=f"register_kernel({target.name()})")
    if device_types is not None:
        require_device_argument(target._schema)

    def register(fn: Function) -> Function:
        require_callable(fn, f"register_kernel({target.name()}): the kernel")
        for slot in slots:
            enter_kernel(target._qualname, slot, fn, owner, warn=False)
        return fn

    return entry_point(register) if func is None else register(func)


@overload
def register_fake(
    op: Op,
    func: None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Callable[[Kernel], Kernel]: ...


@overload
def register_fake(
    op: Op, func: Kernel, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = True
) -> Kernel: ...


@entry_point
def register_fake(
    op: Op,
    func: Any = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Registers the fake kernel, which computes the results' shapes and dtypes from the arguments'.

    Host kernels and kernels that cannot be traced need one. For other kernels oplib traces the kernel.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        func: takes the arguments of the op, with a ``jax.ShapeDtypeStruct`` for each tensor, and returns one
            for each result; None makes the call a decorator.
        lib: the library with which the registration ends; without it the registration is permanent.
        allow_override: False makes it an error if a fake kernel is registered already.

    Returns:
        The function, or a decorator that returns it.

    Raises:
        RegistrationTypeError: ``func`` is not callable.
        RegistrationValueError: ``op`` is another object.
        RegistrationError: nothing is registered under the name; the op is composite; a fake kernel exists and
            may not be overridden; the function takes other arguments or returns another number of results.

    Warns:
        UserWarning: the tag of the op generates a fake kernel already.

    Source:
        ``torch.library.register_fake``.

    Example:
        >>> import jax, numpy
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::sorted_rows")
        ... def sorted_rows(x: numpy.ndarray) -> numpy.ndarray:
        ...     return numpy.sort(x)
        >>> @sorted_rows.register_fake
        ... def shape_of_sorted(x):
        ...     return jax.ShapeDtypeStruct(x.shape, x.dtype)
        >>> jax.jit(sorted_rows)(numpy.array([3, 1, 2])).tolist()
        [1, 2, 3]
    """
    target, owner = resolve_target(op, lib, subject="register_fake", resolve=resolve_existing_op)

    def refuse_override(pieces: Contributions) -> None:
        first = find_newest(pieces, "fake")
        if first is not None and not allow_override:
            raise RegistrationError(
                f"register_fake: the operator {target.name()} already has a fake impl registered at "
                f"{first.site}. Leave allow_override out to replace it."
            )

    def register(fn: Function) -> Function:
        require_callable(fn, f"register_fake({target.name()}): the fake kernel")
        check_fake_signature(target.record, fn)
        _warn_of_needless_fake(target)
        registry.add(target._qualname, "fake", fn, owner, refuse_override)
        return fn

    return entry_point(register) if func is None else register(func)


def _warn_of_needless_fake(overload: OpOverload) -> None:
    for tag in (Tag.inplace, Tag.out):
        if tag in overload.record.tags:
            warnings.warn(
                f"{overload.name()}: The fake registration is unnecessary. An op tagged with Tag.{tag.name} "
                "already gets a generated fake kernel. The registered one is used instead.",
                stacklevel=find_site().stacklevel,
            )


@entry_point
def impl_abstract(op: Op, func: Any = None, *, lib: Library | None = None) -> Any:
    """Calls :func:`register_fake` under its old name.

    Warns:
        FutureWarning: always.
    """
    warnings.warn(
        "impl_abstract was renamed to register_fake. Use that instead.",
        category=FutureWarning,
        stacklevel=find_site().stacklevel,
    )
    return register_fake(op, func, lib=lib)


class KernelHandle:
    """The kernel that was in force when the handle was made; a call of the handle calls the kernel.

    The handle stays valid when another kernel replaces this one. It ends with the library of the kernel.
    """

    def __init__(self, qualname: Qualname, piece: Contribution) -> None:
        self._qualname = qualname
        self._piece = piece

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the kernel.

        Raises:
            RegistrationError: the library of the kernel has been destroyed.
        """
        if not self.is_valid:
            raise RegistrationError(
                f"{self._qualname}: this handle on its kernel has been invalidated. The kernel was "
                f"registered at {self._piece.site}, and its library has been destroyed since. Call "
                "get_kernel again."
            )
        return self._piece.value.function(*args, **kwargs)

    @property
    def is_valid(self) -> bool:
        """Whether the library of the kernel still exists."""
        return any(piece is self._piece for piece in registry.read(self._qualname))

    def __repr__(self) -> str:
        state = f"registered at {self._piece.site}" if self.is_valid else "invalidated"
        return f"<KernelHandle({self._qualname}, {self._piece.slot}, {state})>"


@entry_point
def get_kernel(op: Op, device_type: str) -> KernelHandle:
    """Returns the kernel that would run for an op on a device.

    A new kernel for the device can call it in certain cases. The handle calls the function as it was
    registered, so it takes the arguments of the op's kernels: arrays, numpy arrays or Tensors.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        device_type: ``cpu``, ``cuda``, ``rocm``, ``gpu``, ``tpu``, or ``default``.

    Returns:
        A handle on the kernel.

    Raises:
        RegistrationValueError: an unknown device type, or ``op`` is another object.
        RegistrationError: nothing is registered under the name; a call of the handle raises it if the library
            of the kernel has been destroyed.
        MissingRuleError: the op has no kernel for this device.

    Source:
        ``torch.library.get_kernel``, with a device in place of a dispatch key.

    Example:
        >>> import jax
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::double")
        ... def double(x: jax.Array) -> jax.Array:
        ...     return x * 2
        >>> get_kernel("docs::double", "cpu")(4)
        8
    """
    try:
        slot = find_slot(device_type, subject="get_kernel")
    except RegistrationError as error:
        raise RegistrationValueError(str(error)) from None
    qualname = resolve_existing_op(op, subject="get_kernel")._qualname
    pieces = registry.read(qualname)
    for candidate in (*cast("tuple[KernelSlot, ...]", list_slots(slot)), "composite"):
        piece = find_newest(pieces, candidate)
        if piece is not None:
            return KernelHandle(qualname, piece)
    known = sorted({piece.slot for piece in pieces if piece.slot in KERNEL_SLOTS})
    raise MissingRuleError(
        f"get_kernel: {qualname} has no kernel for {device_type}. Its kernels are for "
        f"{', '.join(known) or 'no device'}. Register one by register_kernel."
    )
