"""The checks of what is registered: options, kernels, fake kernels, and the arguments of a derivative."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from oplib.errors import (
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    UnsupportedRegistrationError,
)
from oplib.hooks import refuse_later
from oplib.library.infer_schema import infer_kind
from oplib.library.op_records.contribution import (
    Contributions,
    Kernel,
    find_kind,
    find_newest,
)
from oplib.library.op_records.platforms import find_device_index
from oplib.library.op_records.qualname import Qualname
from oplib.library.op_records.record import Definition, Derivative, Function, Record, Tag
from oplib.library.op_records.tags import check_tags
from oplib.library.schema import BaseType, FunctionSchema, has_kwarg_only_tensors

_NUMBERS = ("float", "int", "Scalar")
_KIND_ANNOTATIONS = {"array": "jax.Array", "host": "numpy.ndarray", "tensor": "Tensor, or nothing"}


def check_definition(definition: Definition) -> None:
    """Raises if tags or options do not fit the schema.

    Raises:
        ExclusiveTagsError: two tags exclude each other.
        RegistrationValueError: a broken rule of a tag; an operand that is no number argument; a donated
            argument that is not written, or belongs to kernels that are not compiled; a kind that cannot be
            compiled.
    """
    schema = definition.schema
    check_tags(schema, definition.tags)
    types = {argument.name: argument.type for argument in schema.arguments}
    for name in sorted(definition.operand):
        type_ = types.get(name)
        if not isinstance(type_, BaseType) or type_.name not in _NUMBERS:
            _refuse_option(schema, "operand", name, "a float, int or Scalar argument", got=type_)
    if definition.kind == "tensor" and (schema.is_variadic or any(each.is_tree for each in schema.arguments)):
        raise RegistrationValueError(
            f"{schema.qualified_name}: trees and variadic arguments are for kernels on arrays. Got {schema} "
            "with a kernel on Tensors. Annotate its tensors jax.Array, or take a list of Tensors."
        )
    written = {argument.name for argument in schema.arguments if argument.is_written}
    for name in sorted(definition.donates - written):
        _refuse_option(schema, "donates", name, "a written argument", got=types.get(name))
    if definition.donates and definition.kind not in ("array", None):
        raise RegistrationValueError(
            f"{schema.qualified_name}: 'donates' is for kernels annotated jax.Array. Got a {definition.kind} "
            "kernel, which writes in place by itself. Leave donates out."
        )
    if Tag.ordered in definition.tags and definition.kind not in ("host", None):
        raise RegistrationValueError(_explain_ordered(schema.qualified_name, definition.kind))
    if definition.compiled and definition.kind != "array":
        raise RegistrationValueError(
            f"{schema.qualified_name}: compile=True is for kernels annotated jax.Array. Got a "
            f"{definition.kind} kernel, which is plain Python. Annotate its tensors jax.Array, or leave "
            "compile out."
        )


def _explain_ordered(name: str, kind: str) -> str:
    return (
        f"{name}: Tag.ordered is for kernels annotated numpy.ndarray. Got one annotated "
        f"{_KIND_ANNOTATIONS[kind]}, which JAX traces. Annotate it numpy.ndarray, or call "
        "jax.experimental.io_callback with ordered=True in it, without the tag."
    )


def _refuse_option(schema: FunctionSchema, option: str, name: str, due: str, *, got: object) -> None:
    told = f"there it is {got}" if got is not None else "the schema has no such argument"
    raise RegistrationValueError(
        f"{schema.qualified_name}: '{option}' names {name!r}, which must be {due}. Got {schema}; {told}. "
        f"Correct the name, or leave it out."
    )


def require_callable(fn: object, subject: str) -> None:
    """Raises RegistrationTypeError if an object that is to be called is not callable, or returns later."""
    refuse_later(fn, subject, RegistrationTypeError)
    if not callable(fn):
        other = ', or "derive"' if subject.endswith("the formula") else ""
        raise RegistrationTypeError(
            f"{subject} is required to be a callable. Got {type(fn).__name__}. Pass a function{other}."
        )


def check_kind(qualname: Qualname, kernel: Kernel, pieces: Contributions) -> None:
    """Raises RegistrationError if a kernel has another kind than the op's other kernels, or than its tags."""
    definition = find_newest(pieces, "definition")
    if definition is not None and Tag.ordered in definition.value.tags and kernel.kind != "host":
        raise RegistrationError(_explain_ordered(str(qualname), kernel.kind or "tensor"))
    kind = find_kind(pieces)
    if kernel.kind is None or kind in (None, "composite", kernel.kind):
        return
    raise RegistrationError(
        f"{qualname}: all kernels of an op have the kind of its first kernel. The op's kernels are "
        f"annotated {_KIND_ANNOTATIONS[str(kind)]}, this one {_KIND_ANNOTATIONS[kernel.kind]}. "
        "Annotate it like the others, or not at all."
    )


def require_device_argument(schema: FunctionSchema) -> None:
    """Raises RegistrationValueError if neither a tensor nor ``Device device`` decides a call's device."""
    if any(argument.has_tensor for argument in schema.arguments) or find_device_index(schema) is not None:
        return
    raise RegistrationValueError(
        f"{schema.qualified_name}: functions without tensor inputs are required to have a `device: Device` "
        f"argument if their kernels are for certain devices. Got {schema}. Add the argument, or leave "
        "device_types out."
    )


def refuse_keyword_only_tensors(schema: FunctionSchema, *, subject: str) -> None:
    """Raises UnsupportedRegistrationError if the schema has a keyword-only tensor."""
    if has_kwarg_only_tensors(schema):
        raise UnsupportedRegistrationError(
            f"{schema.qualified_name}: {subject} with kwarg-only Tensor args is not supported. Got {schema}. "
            f"Make your tensors not kwarg-only."
        )


def check_derivative(record: Record, derivative: Derivative, *, subject: str) -> None:
    """Raises if an op cannot have the derivative that is registered for it.

    Raises:
        RegistrationError: the op writes an argument, or its host kernel is to be differentiated by JAX.
        UnsupportedRegistrationError: the op has a keyword-only tensor.
        RegistrationTypeError: the formula or the setup does not accept its arguments.
    """
    if derivative.backward is None and not derivative.derive:
        return
    if derivative.derive and record.kind == "host":
        raise RegistrationError(
            f"{record.name}: JAX cannot derive the derivative of a host kernel. It is annotated "
            "numpy.ndarray, and a trace sees nothing of it. Register a formula, or annotate the kernel "
            "jax.Array."
        )
    if Tag.out in record.tags:
        raise RegistrationError(
            f"{record.name}: Cannot register autograd formula for an operator tagged with Tag.out. "
            f"Out variants do not support autograd. Register it for the op without out."
        )
    refuse_mutation(record.schema)
    refuse_keyword_only_tensors(record.schema, subject=subject)
    if derivative.backward is not None:
        grads = [None] * len(record.schema.returns)
        due = f"(ctx, {', '.join(['grad'] * len(grads))})" if grads else "(ctx)"
        require_signature(derivative.backward, f"{record.name}: the backward formula", due, None, *grads)
    if derivative.setup_context is not None:
        names = ["ctx", "inputs", "output"]
        if record.schema.num_positional < len(record.schema.arguments):
            names.insert(2, "keyword_only_inputs")
        due, keywords = f"({', '.join(names)}) by name", dict.fromkeys(names)
        require_signature(derivative.setup_context, f"{record.name}: setup_context", due, **keywords)
    if derivative.forward is not None:
        _check_forward(record, derivative.forward)


def _check_forward(record: Record, forward: Function) -> None:
    if infer_kind(forward) == "host":
        raise RegistrationError(
            f"{record.name}: forward is annotated numpy.ndarray. A trace must know the shapes of what it "
            "saves before it runs. Annotate it jax.Array, and call numpy by jax.pure_callback, which takes "
            "the shapes."
        )
    args, kwargs = make_blank_arguments(record.schema)
    due = "(ctx) and the arguments of the op"
    require_signature(forward, f"{record.name}: forward", due, None, *args, **kwargs)


def make_blank_arguments(schema: FunctionSchema) -> tuple[list[None], dict[str, None]]:
    """Returns None for each argument of an op, by position and by name."""
    keyword_only = schema.arguments[schema.num_positional :]
    return [None] * schema.num_positional, {argument.name: None for argument in keyword_only}


def require_signature(fn: Function, subject: str, due: str, /, *args: None, **kwargs: None) -> None:
    """Raises if a rule does not accept its arguments; a rule with an unknown signature is accepted.

    Args:
        fn: the rule.
        subject: the name of the rule, for the error.
        due: a text that lists the arguments of the rule.
        *args: as many values as the rule gets by position.
        **kwargs: the values that the rule gets by name.

    Raises:
        RegistrationTypeError: the rule does not accept them.
    """
    signature = _read_signature(fn)
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise RegistrationTypeError(
            f"{subject} does not accept its arguments. Got {signature}, expected {due}: {error}. "
            "Give it these parameters."
        ) from None


def refuse_mutation(schema: FunctionSchema) -> None:
    """Raises RegistrationError if an op writes an argument.

    It has no derivative as a function of its inputs.
    """
    if schema.is_mutable:
        raise RegistrationError(
            f"{schema.qualified_name}: Cannot register autograd formula for non-functional operator. Got "
            f"{schema}, which writes an argument. Create a functional operator, and register a formula for "
            "that."
        )


def check_fake_signature(record: Record, fake: Function) -> None:
    """Raises if a fake kernel cannot serve the op's kernels.

    Raises:
        RegistrationError: the op is composite, or the annotation of the fake kernel has another number of
            results.
        RegistrationTypeError: the fake kernel takes other arguments than the op.
    """
    schema = record.schema
    if record.kind == "composite":
        raise RegistrationError(
            f"{record.name}: a fake kernel would never run, because the op is composite: its kernel is made "
            'of other ops, which have theirs. Register the kernel for "default" to make the op opaque.'
        )
    args, kwargs = make_blank_arguments(schema)
    require_signature(fake, f"{record.name}: the fake kernel", f"those of {schema}", *args, **kwargs)
    signature = _read_signature(fake)
    count = None if signature is None else _count_returns(signature.return_annotation)
    is_one_tree = len(schema.returns) == 1 and schema.has_result_tree
    if count is not None and count != len(schema.returns) and not is_one_tree:
        raise RegistrationError(
            f"{record.name}: the fake kernel does not return what the op returns. Got {count} by its "
            f"annotation, expected {len(schema.returns)} by the schema {schema}. Return one shape for each "
            "result."
        )


def _read_signature(fn: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(fn, eval_str=True)
    except Exception:  # noqa: BLE001  a name in an annotation may be any object
        pass
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # some builtin functions have none
        return None


def _count_returns(annotation: object) -> int | None:
    """Returns the number of results in a return annotation, None if it is unknown."""
    if annotation is inspect.Signature.empty or isinstance(annotation, str):
        return None
    if annotation is None:
        return 0
    arguments = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is tuple:
        return None if Ellipsis in arguments else len(arguments)
    return None if annotation is tuple else 1


def make_derivative(name: str, arguments: Derivative) -> Derivative:
    """Returns the derivative for the arguments of ``register_autograd``.

    Args:
        name: the name of the op, for errors.
        arguments: the arguments; its ``backward`` is a formula, ``"derive"``, a complete derivative, or None.

    Raises:
        RegistrationTypeError: the formula, ``setup_context`` or ``forward`` cannot be called.
        RegistrationValueError: more than one of formula, constant and missing; options of a formula without a
            formula; both ``setup_context`` and ``forward``; an empty reason.
    """
    subject = f"register_autograd({name})"
    backward: Any = arguments.backward
    reasons: dict[str, Any] = {"constant": arguments.constant, "missing": arguments.missing}
    kinds = [kind for kind, value in {"a formula": backward, **reasons}.items() if value is not None]
    if len(kinds) != 1:
        raise RegistrationValueError(
            f"{subject}: expected one of a formula, constant= and missing=. "
            f"Got {' and '.join(kinds) or 'none'}. Pass exactly one of them."
        )
    parts = {"setup_context": arguments.setup_context, "forward": arguments.forward}
    saves = [part is not None for part in parts.values()]
    is_formula = backward not in (None, "derive") and not isinstance(backward, Derivative)
    has_flags = arguments.nonlinear or arguments.surrogate or arguments.linear
    if not is_formula and (any(saves) or has_flags):
        raise RegistrationValueError(
            f"{subject}: setup_context, forward, nonlinear, surrogate and linear belong to a formula. Got "
            f"them with {kinds[0] if backward is None else repr(backward)}. Pass the formula too, or leave "
            "them out."
        )
    if all(saves):
        raise RegistrationValueError(
            f"{subject}: setup_context and forward exclude each other. Got both. Save in "
            "forward, which runs instead of the kernel, or in setup_context, which runs after it."
        )
    _refuse_contradictions(subject, arguments)
    for option, reason in reasons.items():
        if reason is not None and not (isinstance(reason, str) and reason.strip()):
            raise RegistrationValueError(
                f"{subject}: '{option}' is the reason, in words. Got {reason!r}. "
                f'Write {option}="because ...".'
            )
    if isinstance(backward, Derivative):
        return backward
    if not is_formula:
        return replace(arguments, backward=None, derive=backward is not None)
    for part, function in {"the formula": backward, **parts}.items():
        if function is not None:
            require_callable(function, f"{subject}: {part}")
    return arguments


def _refuse_contradictions(subject: str, arguments: Derivative) -> None:
    """Raises RegistrationValueError for an op that is declared linear with options for any other."""
    others = [name for name in ("nonlinear", "surrogate", "forward") if getattr(arguments, name)]
    if arguments.linear and others:
        raise RegistrationValueError(
            f"{subject}: linear excludes nonlinear, surrogate and forward. Got {' and '.join(others)} "
            "too. The formula of a linear op is its adjoint, which reads no by-product. Save in "
            "setup_context, or leave out linear=True."
        )
