"""Attaching kernels and rules to an op that is defined, by its name or by its object."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from oplib.errors import RegistrationError, RegistrationTypeError, RegistrationValueError, UnknownOperatorError

from .contribution import Contribution, Slot, find_newest
from .definition import find_owner
from .derivatives import make_derivative
from .enrolment import enter_kernel
from .library import Library
from .overload import OpOverload, find_overload
from .platforms import DeviceTypes, find_slots
from .record import Function, Tag
from .registry import registry
from .rules import check_derivative, check_fake, refuse_keyword_only_tensors, require_callable, require_device_argument
from .sites import find_site


@runtime_checkable
class HasOverload(Protocol):
    """Stands for one overload, as what ``custom_op`` gives does."""

    _opoverload: OpOverload


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
            f"{subject}({op}): got unexpected type for op: {type(op).__name__}. Expected a name, an overload such "
            f"as ops.ns.f.default, or what custom_op returned."
        )
    return find_overload(op, subject=subject)


def register_kernel(
    op: Op, device_types: DeviceTypes, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Registers a kernel for one or more device types.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        device_types: ``cpu``, ``gpu`` (``cuda``), ``tpu``, or several; None for all devices. A kernel for the
            device of a call goes before one for all.
        func: the kernel; None to use the call as a decorator.
        lib: with which the registration ends; it never ends without.

    Returns:
        The kernel, or a decorator that gives it.

    Raises:
        RegistrationTypeError: ``func`` cannot be called.
        RegistrationValueError: ``op`` is something else; or it takes no tensor, and no ``Device device``
            that could tell the device.
        UnknownOperatorError: nothing is registered under this name.
        RegistrationError: an unknown device type; a kernel of another kind than the op's; a library of
            another namespace.

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
    overload = resolve_op(op, subject="register_kernel")
    slots = find_slots(device_types, subject=f"register_kernel({overload.name()})")
    owner = find_owner(overload._qualname, lib, subject="register_kernel")
    if device_types is not None:
        require_device_argument(overload._schema)

    def register(fn: Function) -> Function:
        require_callable(fn, f"register_kernel({overload.name()}): the kernel")
        for slot in slots:
            enter_kernel(overload._qualname, slot, fn, owner, warn=False)
        return fn

    return register if func is None else register(func)


def register_fake(
    op: Op, func: Any = None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = True
) -> Any:
    """Registers the fake kernel: the shapes and dtypes of the results, from those of the arguments.

    It is needed for host kernels, and where the kernel cannot be traced; otherwise tracing the kernel does it.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        func: takes the arguments of the op, with a ``jax.ShapeDtypeStruct`` for each tensor, and returns one
            for each result; None to use the call as a decorator.
        lib: with which the registration ends; it never ends without.
        allow_override: with False, a fake kernel that is there already is an error.

    Returns:
        The function, or a decorator that gives it.

    Raises:
        RegistrationTypeError: ``func`` cannot be called.
        RegistrationValueError: ``op`` is something else.
        RegistrationError: nothing is registered under this name; the op is composite; one is there and may
            not be overridden; the function takes other arguments or gives another number of results.

    Warns:
        UserWarning: the op's tag gives it a fake kernel already.
    """
    overload = resolve_existing_op(op, subject="register_fake")
    owner = find_owner(overload._qualname, lib, subject="register_fake")

    def register(fn: Function) -> Function:
        require_callable(fn, f"register_fake({overload.name()}): the fake kernel")
        check_fake(overload.record, fn)
        first = find_newest(registry.read(overload._qualname), "fake")
        if first is not None and not allow_override:
            raise RegistrationError(
                f"register_fake: the operator {overload.name()} already has a fake impl registered at {first.site}. "
                f"Leave allow_override out to replace it."
            )
        _warn_of_needless_fake(overload)
        registry.add(overload._qualname, Contribution("fake", fn, owner, find_site()))
        return fn

    return register if func is None else register(func)


def _warn_of_needless_fake(overload: OpOverload) -> None:
    for tag in (Tag.inplace, Tag.out):
        if tag in overload.record.tags:
            warnings.warn(
                f"{overload.name()}: The fake registration is unnecessary. An op tagged with Tag.{tag.name} already "
                f"gets a generated fake kernel. The registered one is used instead.",
                stacklevel=find_site().stacklevel,
            )


def impl_abstract(op: Op, func: Any = None, *, lib: Library | None = None) -> Any:
    """The old name of :func:`register_fake`.

    Warns:
        FutureWarning: always.
    """
    warnings.warn(
        "impl_abstract was renamed to register_fake. Use that instead.",
        category=FutureWarning,
        stacklevel=find_site().stacklevel,
    )
    return register_fake(op, func, lib=lib)


def register_autograd(
    op: Op,
    backward: Any = None,
    /,
    *,
    setup_context: Function | None = None,
    nonlinear: bool = False,
    constant: str | None = None,
    missing: str | None = None,
    lib: Library | None = None,
) -> Any:
    """Registers how an op differentiates backwards; the last registration counts, for recorded graphs too.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        backward: ``backward(ctx, *grads)``, which gets one gradient per result and returns one per argument
            (None where there is none); or ``"derive"``, for JAX's own derivative of the kernel; None to use
            the call as a decorator.
        setup_context: ``setup_context(ctx, inputs, output)``, with ``keyword_only_inputs`` before ``output``
            where the schema has any: keeps on ``ctx`` what the formula needs.
        nonlinear: the formula is not linear in its gradients, so no forward derivative can come from it.
        constant: instead of a formula, why the gradient is zero everywhere: ``constant="because ..."``.
        missing: instead of a formula, why there is none; raised when one is asked for.
        lib: with which the registration ends; it never ends without.

    Returns:
        The formula, or a decorator that gives it; None for ``"derive"``, ``constant`` and ``missing``.

    Raises:
        RegistrationTypeError: ``backward`` or ``setup_context`` cannot be called.
        RegistrationValueError: several of these at once; or ``op`` is something else.
        UnknownOperatorError: nothing is registered under this name.
        RegistrationError: the op writes an argument, so that it is not a function of its inputs.
        UnsupportedRegistrationError: a tensor that can only be given by keyword.

    Source:
        ``torch.library.register_autograd``; the rest is oplib's.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::cube")
        ... def cube(x: jax.Array) -> jax.Array:
        ...     return x**3
        >>> def save(ctx, inputs, output):
        ...     ctx.save_for_backward(inputs[0])
        >>> @cube.register_autograd(setup_context=save)
        ... def cube_backward(ctx, g):
        ...     (x,) = ctx.saved_tensors
        ...     return 3 * x**2 * g
    """
    overload = resolve_op(op, subject="register_autograd")
    owner = find_owner(overload._qualname, lib, subject="register_autograd")

    def register(formula: Any) -> Any:
        derivative = make_derivative(
            overload.name(), formula, setup_context, nonlinear=nonlinear, constant=constant, missing=missing
        )
        check_derivative(overload.record, derivative, subject="register_autograd")
        registry.add(overload._qualname, Contribution("derivative", derivative, owner, find_site()))
        return derivative.backward

    is_complete = backward is not None or constant is not None or missing is not None
    return register(backward) if is_complete else register


def register_jvp(op: Op, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Registers how an op differentiates forwards; without, this is derived from a linear backward.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        func: ``rule(primals, tangents) -> (outputs, output tangents)`` as for ``jax.custom_jvp``, with all
            arguments in primals and None as tangent of what has none; None to use the call as a decorator.
        lib: with which the registration ends; it never ends without.

    Returns:
        The rule, or a decorator that gives it.

    Raises:
        RegistrationTypeError: ``func`` cannot be called.
        RegistrationValueError: ``op`` is something else.
        UnknownOperatorError: nothing is registered under this name.
        RegistrationError: the op writes an argument.
    """

    def check(overload: OpOverload) -> None:
        if overload._schema.is_mutable:
            raise RegistrationError(
                f"{overload.name()}: Cannot register a jvp rule for a non-functional operator. Got "
                f"{overload._schema}, which writes an argument. Make an op that returns the new value instead."
            )

    return _register_rule("register_jvp", "jvp", op, func, lib, check)


def register_vmap(op: Op, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Registers a batching rule; without, kernel and rules are mapped.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        func: ``rule(info, in_dims, *args, **kwargs) -> (output, out_dims)``; ``info.batch_size`` and
            ``info.randomness``; in_dims has the place of the batch per argument, None where it is not
            batched. None to use the call as a decorator.
        lib: with which the registration ends; it never ends without.

    Returns:
        The rule, or a decorator that gives it.

    Raises:
        RegistrationTypeError: ``func`` cannot be called.
        RegistrationValueError: ``op`` is something else.
        UnknownOperatorError: nothing is registered under this name.
        UnsupportedRegistrationError: a tensor that can only be given by keyword.
    """

    def check(overload: OpOverload) -> None:
        refuse_keyword_only_tensors(overload._schema, subject="register_vmap")

    return _register_rule("register_vmap", "vmap", op, func, lib, check)


def register_sharding(op: Op, rule: Any = None, /, *, lib: Library | None = None) -> Any:
    """Registers how an op behaves on arrays that are spread over several devices.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        rule: the rule; None to use the call as a decorator.
        lib: with which the registration ends; it never ends without.

    Returns:
        The rule, or a decorator that gives it.

    Raises:
        RegistrationValueError: ``op`` is something else.
        UnknownOperatorError: nothing is registered under this name.
    """
    return _register_rule("register_sharding", "sharding", op, rule, lib, None)


def _register_rule(  # noqa: PLR0917  what all of the above have in common
    subject: str,
    slot: Slot,
    op: Op,
    func: Any,
    lib: Library | None,
    check: Callable[[OpOverload], None] | None,
) -> Any:
    overload = resolve_op(op, subject=subject)
    owner = find_owner(overload._qualname, lib, subject=subject)
    if check is not None:
        check(overload)

    def register(rule: Any) -> Any:
        if slot != "sharding":
            require_callable(rule, f"{subject}({overload.name()}): the rule")
        registry.add(overload._qualname, Contribution(slot, rule, owner, find_site()))
        return rule

    return register if func is None else register(func)


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
