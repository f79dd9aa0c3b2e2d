"""Attaching derivatives, batching and sharding rules to an op that is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.errors import RegistrationError
from oplib.library.axes.sharding_rule import Rule, check_sharding_rule
from oplib.library.objects.overload import OpOverload
from oplib.library.objects.resolution import Op, resolve_op
from oplib.library.records.contribution import Contribution, Slot
from oplib.library.records.record import Function
from oplib.library.records.sites import find_site

from .backward import make_derivative
from .definition import find_owner
from .library import Library
from .registry import registry
from .rules import (
    check_derivative,
    refuse_keyword_only_tensors,
    require_callable,
    require_signature,
)


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

    Gradient:
        JAX transposes the rule where the op has no backward.

    Source:
        ``jax.custom_jvp``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::halved")
        ... def halved(x: jax.Array) -> jax.Array:
        ...     return x / 2
        >>> @halved.register_jvp
        ... def push(primals, tangents):
        ...     return primals[0] / 2, tangents[0] / 2
        >>> jax.jvp(halved, (jnp.float32(6),), (jnp.float32(4),))
        (Array(3., dtype=float32), Array(2., dtype=float32))
    """

    def check(overload: OpOverload, rule: object) -> None:
        require_rule(rule, overload, "jvp", "(primals, tangents)", None, None)
        if overload._schema.is_mutable:
            raise RegistrationError(
                f"{overload.name()}: Cannot register a jvp rule for a non-functional operator. Got "
                f"{overload._schema}, which writes an argument. Make an op that returns the new value "
                "instead."
            )

    return _register_rule("register_jvp", "jvp", op, func, lib=lib, check=check)


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

    Gradient:
        Of a mapped call: that of the op, mapped.

    Source:
        ``torch.library.register_vmap``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::ends")
        ... def ends(row: jax.Array) -> jax.Array:
        ...     return row[jnp.array([0, -1])]
        >>> @ends.register_vmap
        ... def map_ends(info, in_dims, rows):
        ...     return jnp.moveaxis(rows, in_dims[0], 0)[:, jnp.array([0, -1])], 0
        >>> jax.vmap(ends)(jnp.arange(6).reshape(2, 3)).tolist()
        [[0, 2], [3, 5]]
    """

    def check(overload: OpOverload, rule: object) -> None:
        schema = overload._schema
        refuse_keyword_only_tensors(schema, subject="register_vmap")
        keywords = {argument.name: None for argument in schema.arguments[schema.num_positional :]}
        due = "(info, in_dims) and the arguments of the op"
        require_rule(rule, overload, "vmap", due, None, None, *[None] * schema.num_positional, **keywords)

    return _register_rule("register_vmap", "vmap", op, func, lib=lib, check=check)


def register_sharding(op: Op, rule: Rule | None = None, /, *, lib: Library | None = None) -> Any:
    """Registers how an op behaves on arrays that are spread over several devices.

    With a rule, a kernel runs on the part of the arrays that each device has, under ``jit``, on explicit
    meshes, and on the host. Without one, XLA partitions a kernel that it can look into, and gathers the
    arrays of one that it cannot. Inside ``shard_map`` a kernel gets parts in any case.

    Args:
        op: the op, as its qualified name, its overload, or what ``custom_op`` gave.
        rule: in Shardy's notation, one entry per tensor argument (a list has one for all its members) and one
            per result, with a name for each axis, and ``...`` for any number of leading ones:
            ``"i j, j -> i j"``. Axes of one name are cut alike. An axis that stands on one side only is kept
            whole; so is one that ``need_replication={j}`` after the rule names. ``reduction={j}`` there says
            that an axis of the arguments may be cut, and the results of the parts added up. Or a function
            that gets one ``PartitionSpec`` per tensor argument, in which every axis is cut in its own way,
            and returns the specs that the kernel can work on, and those of its results; or such a text. None
            to use the call as a decorator.
        lib: with which the registration ends; it never ends without.

    Returns:
        The rule, or a decorator that gives it.

    Raises:
        RegistrationTypeError: the rule is neither text nor function.
        RegistrationValueError: ``op`` is something else; the rule has other arguments or results than the op;
            the op draws random numbers, of which parts would draw the same. Where
            it does not fit the ranks of a call's arrays, that call raises this.
        UnknownOperatorError: nothing is registered under this name.

    Gradient:
        Formulas are JAX functions, which XLA partitions by itself.

    Source:
        Shardy, the partitioner of XLA, and ``jax.experimental.custom_partitioning``.

    Example:
        >>> import jax, numpy
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::blur")
        ... def blur(rows: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
        ...     return numpy.stack([numpy.convolve(row, weights, "same") for row in rows])
        >>> blur.register_fake(lambda rows, weights: rows) and None
        >>> _ = blur.register_sharding("row column, tap -> row column need_replication={column}")
    """

    def check(overload: OpOverload, rule: object) -> None:
        check_sharding_rule(overload._schema, rule)

    return _register_rule("register_sharding", "sharding", op, rule, lib=lib, check=check)


def require_rule(
    rule: Any, overload: OpOverload, kind: str, due: str, /, *args: None, **kwargs: None
) -> None:
    """Raises where a rule cannot be called, or not with these arguments.

    Raises:
        RegistrationTypeError: it cannot.
    """
    require_callable(rule, f"register_{kind}({overload.name()}): the rule")
    require_signature(rule, f"{overload.name()}: the {kind} rule", due, *args, **kwargs)


def _register_rule(
    subject: str,
    slot: Slot,
    op: Op,
    func: Any,
    *,
    lib: Library | None,
    check: Callable[[OpOverload, object], None],
) -> Any:
    overload = resolve_op(op, subject=subject)
    owner = find_owner(overload._qualname, lib, subject=subject)

    def register(rule: Any) -> Any:
        check(overload, rule)
        registry.add(overload._qualname, Contribution(slot, rule, owner, find_site()))
        return rule

    return register if func is None else register(func)
