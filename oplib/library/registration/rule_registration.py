"""Registration of derivatives, batching, sharding and autocast rules for an op that is defined."""

from __future__ import annotations

import dis
import itertools
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from oplib.errors import RegistrationError, RegistrationValueError
from oplib.library.autocast.settings import find_device_type
from oplib.library.batching_and_sharding.sharding_rule import check_sharding_rule
from oplib.library.op_objects.overload import Op, OpOverload
from oplib.library.op_records.contribution import AUTOCAST_SLOTS, FOREVER, Owner, Slot
from oplib.library.op_records.record import Derivative, Function, JvpRule
from oplib.library.op_records.sites import find_definition, find_site
from oplib.tensor.dtypes.rules import find_dtype
from oplib.tracebacks import entry_point

from .library import Library, resolve_target
from .registry import registry
from .rules import (
    check_derivative,
    make_blank_arguments,
    make_derivative,
    refuse_keyword_only_tensors,
    require_callable,
    require_signature,
)

Rule = TypeVar("Rule", bound=Callable[..., Any])


class AutogradOptions(TypedDict, total=False):
    """The options of ``register_autograd`` beside a formula, for type checkers."""

    setup_context: Function | None
    forward: Function | None
    nonlinear: bool
    surrogate: bool
    linear: bool
    constant: str | None
    missing: str | None
    lib: Library | None


@overload
def register_autograd(
    op: Op, backward: None = None, /, **options: Unpack[AutogradOptions]
) -> Callable[[Rule], Rule]: ...


@overload
def register_autograd(op: Op, backward: Literal["derive"], /, *, lib: Library | None = None) -> None: ...


@overload
def register_autograd(op: Op, backward: Derivative, /, *, lib: Library | None = None) -> Any: ...


@overload
def register_autograd(op: Op, backward: Rule, /, **options: Unpack[AutogradOptions]) -> Rule: ...


@entry_point
def register_autograd(
    op: Op,
    backward: Any = None,
    /,
    *,
    setup_context: Function | None = None,
    forward: Function | None = None,
    nonlinear: bool = False,
    surrogate: bool = False,
    linear: bool = False,
    constant: str | None = None,
    missing: str | None = None,
    lib: Library | None = None,
) -> Any:
    """Registers how an op differentiates backwards. The last registration counts, for recorded graphs too.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        backward: ``backward(ctx, *grads)``, which gets one gradient per result and returns one per argument
            (None if there is none); or ``"derive"``, for JAX's own derivative of the kernel; or a complete
            ``Derivative``, with no option beside it; None makes the call a decorator.
        setup_context: ``setup_context(ctx, inputs, output)``, with ``keyword_only_inputs`` before ``output``
            if the schema has any; it saves on ``ctx`` the values that the formula needs.
        forward: ``forward(ctx, *inputs)``, which computes the results as the kernel does, and saves on
            ``ctx``, instead of ``setup_context``. It runs instead of the kernel where the call is recorded or
            differentiated, so that a by-product of the kernel is computed once. It is a JAX function, also if
            the kernel is on the host, and works on Tensors if the kernel does. Batching and sharding rules
            do not apply to it.
        nonlinear: the formula is not linear in its gradients, so no forward derivative can be derived from
            it.
        surrogate: the formula is not the derivative of the kernel, as of a straight-through estimator.
            Forward mode is derived from it all the same. ``opcheck`` and ``gradcheck`` do not compare it with
            finite differences, and say so.
        linear: the op is linear in all arguments for which the formula gives gradients, together, and the
            formula is its adjoint. Forward mode then applies the op to the tangents, and derivatives of every
            order need nothing else, also for kernels and formulas on the host. A tangent for an argument
            without a gradient raises.
        constant: the reason why the gradient is zero everywhere, instead of a formula: ``constant="because
            ..."``.
        missing: the reason why there is no gradient, instead of a formula; a request for it raises an error.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        The formula, or a decorator that returns it; None where there is no formula.

    Raises:
        RegistrationTypeError: ``backward``, ``setup_context`` or ``forward`` is not callable, or does not
            accept its arguments.
        RegistrationValueError: several of these at once; or ``op`` is another object.
        UnknownOperatorError: nothing is registered under the name.
        RegistrationError: the op writes an argument, so it is not a function of its inputs.
        UnsupportedRegistrationError: the op has a keyword-only tensor.

    Source:
        ``torch.library.register_autograd``; ``"derive"``, ``nonlinear``, ``surrogate``, ``linear``,
            ``constant`` and ``missing`` are oplib's.

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
    target, owner = resolve_target(op, lib, subject="register_autograd")

    def register(formula: Any) -> Any:
        arguments = Derivative(
            formula,
            setup_context,
            forward,
            nonlinear=nonlinear,
            surrogate=surrogate,
            linear=linear,
            constant=constant,
            missing=missing,
        )
        derivative = make_derivative(target.name(), arguments)
        check_derivative(target.record, derivative, subject="register_autograd")
        _warn_of_no_return(target, derivative.backward)
        registry.add(target._qualname, "derivative", derivative, owner)
        return derivative.backward

    is_complete = backward is not None or constant is not None or missing is not None
    return register(backward) if is_complete else entry_point(register)


def _warn_of_no_return(target: OpOverload, formula: Any) -> None:
    """Warns of a formula that returns None on every path, as one does that lacks its last line."""
    code = getattr(formula, "__code__", None)
    steps = [] if code is None or code.co_name == "<lambda>" else list(dis.get_instructions(code))
    returns = [
        giver.opname.endswith("_CONST") and giver.argval is None and not step.is_jump_target
        for before, step in itertools.pairwise(steps)
        if step.opname in ("RETURN_CONST", "RETURN_VALUE")
        for giver in ([step] if step.opname == "RETURN_CONST" else [before])
    ]
    if returns and all(returns):
        warnings.warn(
            f"register_autograd({target.name()}): the formula {find_definition(formula)} returns no "
            "value, so all gradients are None. Return one for each argument, or give missing= or constant= "
            "for an op without a gradient.",
            stacklevel=find_site().stacklevel,
        )


@overload
def register_jvp(
    op: Op,
    func: None = None,
    /,
    *,
    symbolic_zeros: bool = ...,
    nonlinear: bool = ...,
    lib: Library | None = ...,
) -> Callable[[Rule], Rule]: ...


@overload
def register_jvp(
    op: Op, func: Rule, /, *, symbolic_zeros: bool = ..., nonlinear: bool = ..., lib: Library | None = ...
) -> Rule: ...


@entry_point
def register_jvp(
    op: Op,
    func: Any = None,
    /,
    *,
    symbolic_zeros: bool = False,
    nonlinear: bool = False,
    lib: Library | None = None,
) -> Any:
    """Registers how an op differentiates forwards; by default this is derived from a linear backward.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        func: ``rule(primals, tangents) -> (outputs, output tangents)`` as for ``jax.custom_jvp``. The primals
            contain all arguments. The tangent of an array that is not differentiated is zeros, of dtype
            ``float0`` for integers; that of an argument that is no array is None. None makes the call a
            decorator.
        symbolic_zeros: a tangent that would be zeros is None instead, so that the rule can omit its term.
        nonlinear: the rule is not linear in its tangents, so no backward can be derived from it. Without
            this, JAX transposes the rule, as that of a ``jax.custom_jvp``.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        The rule, or a decorator that returns it.

    Raises:
        RegistrationTypeError: ``func`` is not callable.
        RegistrationValueError: ``op`` is another object.
        UnknownOperatorError: nothing is registered under the name.
        RegistrationError: the op writes an argument.

    Gradient:
        JAX transposes the rule if the op has no backward, unless it is declared nonlinear.

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

    def make(target: OpOverload, rule: Any) -> JvpRule:
        require_rule(rule, target, "jvp", "(primals, tangents)", None, None)
        if target._schema.is_mutable:
            raise RegistrationError(
                f"{target.name()}: Cannot register a jvp rule for a non-functional operator. Got "
                f"{target._schema}, which writes an argument. Make an op that returns the new value "
                "instead."
            )
        return JvpRule(rule, symbolic_zeros, nonlinear)

    return _register_rule("jvp", op, func, lib, make)


@overload
def register_vmap(op: Op, func: None = None, /, *, lib: Library | None = None) -> Callable[[Rule], Rule]: ...


@overload
def register_vmap(op: Op, func: Rule, /, *, lib: Library | None = None) -> Rule: ...


@entry_point
def register_vmap(op: Op, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Registers a batching rule; by default kernel and rules are mapped.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        func: ``rule(info, in_dims, *args, **kwargs) -> (output, out_dims)``. ``info`` has ``batch_size`` and
            ``randomness``; ``in_dims`` has the position of the batch axis per argument, None if it is not
            batched. None makes the call a decorator.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        The rule, or a decorator that returns it.

    Raises:
        RegistrationTypeError: ``func`` is not callable.
        RegistrationValueError: ``op`` is another object.
        UnknownOperatorError: nothing is registered under the name.
        UnsupportedRegistrationError: the op has a keyword-only tensor.

    Gradient:
        The gradient of a mapped call is the gradient of the op, mapped.

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

    def check(target: OpOverload, rule: Any) -> Any:
        refuse_keyword_only_tensors(target._schema, subject="register_vmap")
        args, kwargs = make_blank_arguments(target._schema)
        due = "(info, in_dims) and the arguments of the op"
        require_rule(rule, target, "vmap", due, None, None, *args, **kwargs)
        return rule

    return _register_rule("vmap", op, func, lib, check)


@entry_point
def register_sharding(op: Op, rule: str, /, *, lib: Library | None = None) -> str:
    """Registers how an op works on arrays that are spread over several devices.

    With a rule, a kernel runs on the part of the arrays that each device holds: under ``jit`` and on explicit
    meshes. Without a rule, XLA partitions a kernel that it can look into, and gathers the arrays of every
    other kernel. A kernel on the host always gets gathered arrays. Inside ``shard_map`` every kernel gets
    parts.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        rule: a text in Shardy's notation: one entry per tensor argument (a list has one for all its items)
            and one per result, with a name for each axis, and ``...`` for any number of leading axes: ``"i j,
            j -> i j"``. Axes with the same name are partitioned alike. An axis on one side only is kept
            whole; so is an axis in ``need_replication={j}`` after the rule. ``reduction={j}`` after the rule
            allows an axis of the arguments to be partitioned, and the results of the parts are summed.
        lib: the library with which the registration ends; without it the registration is permanent.

    Returns:
        The rule.

    Raises:
        RegistrationTypeError: the rule is no text.
        RegistrationValueError: ``op`` is another object; the rule does not match the arguments or results of
            the op; the op draws random numbers, which would be the same in all parts, or has Tag.ordered. A
            call whose arrays have other ranks than the rule raises it too.
        UnknownOperatorError: nothing is registered under the name.

    Gradient:
        Formulas are JAX functions, which XLA partitions without a rule.

    Source:
        Shardy, the partitioner of XLA, and ``jax.experimental.custom_partitioning``.

    Example:
        >>> import jax
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::blur")
        ... def blur(rows: jax.Array, weights: jax.Array) -> jax.Array:
        ...     return jax.vmap(lambda row: jax.numpy.convolve(row, weights, "same"))(rows)
        >>> _ = blur.register_sharding("row column, tap -> row column need_replication={column}")
    """
    target, owner = resolve_target(op, lib, subject="register_sharding")
    if target.record.is_ordered:
        raise RegistrationValueError(
            f"register_sharding({target.name()}): the op has Tag.ordered. Its kernel would run on "
            "several devices at once, which have no common order. Leave out the rule or the tag."
        )
    check_sharding_rule(target._schema, rule)
    registry.add(target._qualname, "sharding", rule, owner)
    return rule


def require_rule(
    rule: Any, overload: OpOverload, kind: str, due: str, /, *args: None, **kwargs: None
) -> None:
    """Raises RegistrationTypeError if a rule is not callable, or not with these arguments."""
    require_callable(rule, f"register_{kind}({overload.name()}): the rule")
    require_signature(rule, f"{overload.name()}: the {kind} rule", due, *args, **kwargs)


def _register_rule(
    slot: Slot, op: Op, func: Any, lib: Library | None, make: Callable[[OpOverload, Any], Any]
) -> Any:
    """Registers the value that ``make`` returns for a rule; returns the rule, or a decorator."""
    target, owner = resolve_target(op, lib, subject=f"register_{slot}")

    def register(rule: Any) -> Any:
        registry.add(target._qualname, slot, make(target, rule), owner)
        return rule

    return entry_point(register) if func is None else register(func)


@entry_point
def register_autocast(op: Op, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Registers the dtype to which :class:`oplib.autocast` casts the floating arguments of an op.

    In a region of autocast for the device type, floating tensors and arrays on it are cast, float64 ones
    excepted, and the kernel runs with autocast off. Other arguments stay. An op without a registration runs
    in the dtypes of its arguments; autocast applies to the ops that its kernel calls.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        device_type: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
        cast_inputs: the dtype.
        lib: the library with which the registration ends; without it the registration is permanent.

    Raises:
        ArgumentTypeError: ``device_type`` is no text.
        ArgumentValueError: the device type does not support autocast.
        DtypeError: ``cast_inputs`` is no dtype.
        RegistrationValueError: ``op`` is another object.
        UnknownOperatorError: nothing is registered under the name.

    Gradient:
        The casts are recorded, so gradients have the dtypes of the arguments.

    Source:
        ``torch.library.register_autocast``

    Example:
        >>> import jax, oplib
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::cosh_sum", autograd="derive")
        ... def cosh_sum(x: jax.Array) -> jax.Array:
        ...     return jax.numpy.cosh(x).sum()
        >>> cosh_sum.register_autocast("cpu", oplib.float16)
        >>> with oplib.autocast("cpu"):
        ...     cosh_sum(oplib.ones(3)).dtype
        dtype('float16')
    """
    target, owner = resolve_target(op, lib, subject="register_autocast")
    name = find_device_type(device_type, subject="register_autocast")
    add_autocast(target, name, find_dtype(cast_inputs), owner)


def add_autocast(overload: OpOverload, device_type: str, policy: Any, owner: Owner = FOREVER) -> None:
    """Adds the policy of an op for a device type: a dtype, or a word of the rows."""
    registry.add(overload._qualname, AUTOCAST_SLOTS[device_type], policy, owner)
