"""``custom_op``: an op from one function, with its schema, kernel and rules."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack, overload

from oplib.errors import RegistrationTypeError, RegistrationValueError, UnknownOperatorError, describe
from oplib.library.infer_schema import infer_function_schema, infer_kind, takes_anything
from oplib.library.op_objects.jax_names import explain_option
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.contribution import FOREVER, Kernel, Slot
from oplib.library.op_records.platforms import DeviceTypes, find_slots
from oplib.library.op_records.qualname import LocalQualname, Qualname, check_namespace, parse_qualname
from oplib.library.op_records.record import Definition, Derivative, Function, JvpRule, Tag
from oplib.library.op_records.sites import find_site
from oplib.library.op_records.tags import Tags, to_tags
from oplib.library.schema import FunctionSchema, parse_schema
from oplib.tracebacks import entry_point

from .custom_op_def import CustomOpDef, P, R, remember_custom_op
from .registry import registry
from .rules import (
    check_definition,
    refuse_keyword_only_tensors,
    refuse_mutation,
    require_callable,
    require_device_argument,
)

MutatesArgs = str | Iterable[str]


class CustomOpOptions(TypedDict, total=False):
    """The options of ``custom_op``, which describes them.

    Its signature lists them again, because a TypedDict can hold no defaults, and ``help`` shows a signature.
    """

    mutates_args: MutatesArgs
    device_types: DeviceTypes
    schema: str | None
    tags: Tags
    compile: bool | None
    operand: Iterable[str]
    donates: Iterable[str]
    autograd: Literal["derive"] | Derivative | None


@overload
def custom_op(fn: Callable[P, R], /, **options: Unpack[CustomOpOptions]) -> CustomOpDef[P, R]: ...


@overload
def custom_op(**options: Unpack[CustomOpOptions]) -> Callable[[Callable[P, R]], CustomOpDef[P, R]]: ...


@overload
def custom_op(
    name: str, fn: None = None, /, **options: Unpack[CustomOpOptions]
) -> Callable[[Callable[P, R]], CustomOpDef[P, R]]: ...


@overload
def custom_op(name: str, fn: Callable[P, R], /, **options: Unpack[CustomOpOptions]) -> CustomOpDef[P, R]: ...


@entry_point
def custom_op(
    name: Any = "",
    fn: Any = None,
    /,
    *,
    mutates_args: MutatesArgs = (),
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Tags = None,
    compile: bool | None = None,  # noqa: A002  says best what it switches
    operand: Iterable[str] = (),
    donates: Iterable[str] = (),
    autograd: Literal["derive"] | Derivative | None = None,
    **unknown: Any,
) -> Any:
    """Makes an op from a function; a second definition of the same name replaces the op and its rules.

    The annotations of the function's tensors decide how it runs. With ``jax.Array`` it gets arrays, is traced
    once per signature and runs compiled. With ``numpy.ndarray`` it gets numpy arrays and runs as Python on
    the host. With ``oplib.Tensor``, or with a schema and no annotations, it gets Tensors and runs as Python
    on every call.

    Args:
        name: ``namespace::name`` or ``namespace::name.overload``. Without a name, the op is local: it is
            not in the registry, and is freed with its last reference.
        fn: the function, which comes first without a name; None makes the call a decorator.
        mutates_args: the names of the arguments that it writes, or ``"unknown"`` for all tensors.
        device_types: the devices on which it runs (``cpu``, ``gpu``, ``tpu``); None for all, empty for none
            yet.
        schema: replaces annotations: ``(Tensor x, float limit=1.) -> Tensor``, without the name.
        tags: promises beyond the schema: ``Tag.inplace``, ``Tag.out``, ``Tag.pointwise``, ``Tag.ordered``.
        compile: False runs a function on arrays as plain Python on every call; True declares that a function
            without annotations works on arrays.
        operand: the names of number arguments that change often; they become operands instead of static
            arguments.
        donates: the names of written arguments whose buffer the op may reuse. No other object may hold the
            buffer.
        autograd: ``"derive"`` for JAX's own derivative of the function, or a ``Derivative`` that says so.
        **unknown: refused; an option of ``jax.custom_vjp`` gets an explanation.

    Returns:
        The op, a :class:`CustomOpDef`, or a decorator that returns it.

    Raises:
        RegistrationTypeError: ``fn`` is not callable, ``tags`` has an item that is no tag, or an option does
            not exist.
        RegistrationValueError: a name that is not qualified, a reserved namespace, a schema that does not fit
            ``mutates_args``, the tags or options.
        UnknownOperatorError: ``schema`` starts with a name.
        SchemaInferenceError: the annotations give no schema.
        SchemaError: the schema does not parse.
        RegistrationError: ``define`` has defined the op already; an unknown device type.
        UnsupportedRegistrationError: a keyword-only tensor without ``Tag.out``.

    Gradient:
        Missing until :meth:`CustomOpDef.register_autograd` registers one.

    Source:
        ``torch.library.custom_op``; ``compile``, ``operand``, ``donates`` and ``autograd`` are oplib's.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::softclip")
        ... def softclip(x: jax.Array, limit: float = 1.0) -> jax.Array:
        ...     return limit * jnp.tanh(x / limit)
        >>> print(softclip._schema)
        docs::softclip(Tensor x, float limit=1.) -> Tensor
    """

    def make(fn: Function) -> CustomOpDef[..., Any]:
        require_callable(fn, f"custom_op({named}): the function")
        name, qualname = _find_name(named, fn)
        subject = f"custom_op({name})"
        promises = to_tags(tags, subject=subject)
        is_traced = compile or (schema is None and takes_anything(fn))
        kind = infer_kind(fn) or ("array" if is_traced else "tensor")  # without annotations it is eager code
        definition = Definition(
            _make_schema(name, fn, mutates_args, schema, tags=promises),
            kind,
            compile,
            operand=frozenset(operand),
            donates=frozenset(donates),
            tags=tuple(dict.fromkeys((Tag.pt2_compliant_tag, *promises))),
            function=fn,
        )
        check_definition(definition)
        if Tag.out not in definition.tags:
            refuse_keyword_only_tensors(definition.schema, subject="custom_op")
        if device_types is not None:
            require_device_argument(definition.schema)
        facts: dict[Slot, Any] = {"definition": definition}
        if autograd is not None:
            facts["derivative"] = _make_derivative(definition.schema, autograd)
        facts |= dict.fromkeys(find_slots(device_types, subject=subject), Kernel(fn, kind))
        return _enter(qualname, facts, fn)

    for option in unknown:
        raise RegistrationTypeError(explain_option("custom_op", option))
    if fn is None and callable(name):
        name, fn = "", name
    if not isinstance(name, str) or (fn is not None and isinstance(fn, str)):
        raise RegistrationTypeError(
            f"custom_op: the name comes first. Got {describe(name)}, of type {type(name).__name__}. "
            f'Write @custom_op("namespace::name"), or custom_op("namespace::name", function).'
        )
    named = name
    return entry_point(make) if fn is None else make(fn)


def _find_name(name: str, fn: Function) -> tuple[str, Qualname]:
    """Returns the name of an op; without one it is local, and called like its function."""
    if name:
        qualname = parse_qualname(name, subject="custom_op")
        check_namespace(qualname.namespace, find_site())
        return name, qualname
    name = f"local::{re.sub(r'[^A-Za-z0-9_]', '_', getattr(fn, '__name__', 'op'))}"
    return name, LocalQualname(*parse_qualname(name, subject="custom_op"))


def _make_schema(
    name: str, fn: Function, mutates_args: MutatesArgs, schema: str | None, *, tags: tuple[Tag, ...]
) -> FunctionSchema:
    if schema is None:
        named = parse_schema(f"{name}() -> ()")  # the parser knows the allowed names
        return infer_function_schema(
            fn, mutates_args=mutates_args, name=named.name, overload_name=named.overload_name, tags=tags
        )
    if not schema.lstrip().startswith("("):
        raise UnknownOperatorError(
            f"custom_op({name}): 'schema' must not contain a name. Got {schema!r}. Begin it with the "
            "parenthesis."
        )
    parsed = parse_schema(f"{name}{schema}")
    written = {argument.name for argument in parsed.arguments if argument.is_written}
    said = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    if written != said:
        raise RegistrationValueError(
            f"custom_op({name}): 'schema' and 'mutates_args' disagree. The schema suggests that the op "
            f"mutates {sorted(written) or 'nothing'}, mutates_args says {sorted(said) or 'nothing'}. Got "
            f"{schema!r}. Make them consistent."
        )
    return parsed


def _make_derivative(schema: FunctionSchema, autograd: object) -> Derivative:
    is_derived = isinstance(autograd, Derivative) and autograd.derive
    if autograd != "derive" and not is_derived:
        raise RegistrationValueError(
            f"custom_op({schema.qualified_name}): 'autograd' is \"derive\" or None. Got "
            f"{describe(autograd)}. Register a formula by register_autograd."
        )
    refuse_mutation(schema)
    return autograd if isinstance(autograd, Derivative) else Derivative(derive=True)


def make_function_op(
    kernel: Function,
    schema: FunctionSchema,
    *,
    compiled: bool,
    **rules: Derivative | JvpRule | Function | None,
) -> CustomOpDef[..., Any]:
    """Makes the local op of a ``Function``.

    Args:
        kernel: the forward, as a function of arrays.
        schema: the schema.
        compiled: False runs its code as Python in each trace.
        **rules: the rules by their slots in the record; None for one that it does not have.
    """
    definition = Definition(schema, "array", compiled=compiled, function=kernel, is_function=True)
    check_definition(definition)
    refuse_keyword_only_tensors(schema, subject="Function")
    facts: dict[Any, Any] = {"definition": definition, "default": Kernel(kernel, "array")}
    facts |= {slot: rule for slot, rule in rules.items() if rule is not None}
    return _enter(LocalQualname(*parse_qualname(schema.name, subject="Function")), facts, kernel)


def _enter(qualname: Qualname, facts: Mapping[Slot, Any], fn: Function) -> CustomOpDef[..., Any]:
    """Registers everything in one step, so that no other thread sees a part, and a failure leaves nothing."""
    if isinstance(qualname, LocalQualname):
        local = OpOverload(qualname)  # the registry returns it, and holds no other reference
        qualname.home = weakref.ref(local)
    op = CustomOpDef(registry.define(qualname, facts, FOREVER), fn)
    if not op._opoverload.is_local:
        remember_custom_op(op)
    return op
