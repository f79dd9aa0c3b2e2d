"""Samples of calls of an op: those that its author adds, or such as fit its schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentValueError, OpCheckError, describe
from oplib.library.op_objects.description import Status
from oplib.library.op_objects.overload import OpOverload, resolve_op
from oplib.library.schema import Argument, FunctionSchema, parse_schema, split_values
from oplib.library.schema.types import BaseType, ListType, OptionalType, SchemaType, TupleType
from oplib.pytree import tree_map
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

Shape = tuple[int, ...]


class Call(NamedTuple):
    """The arguments of one call.

    Attributes:
        args: the positional arguments.
        kwargs: the keyword arguments.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


Maker = Callable[[], Iterable[Any]]
_Maker = TypeVar("_Maker", bound=Maker)

_makers: dict[str, Maker] = {}

_UNIFORM: tuple[Shape, ...] = ((3, 4), (4,), (3, 3), (2, 3, 4), ())
"""Shapes that all tensors of a call may have; ops of more than one shape are tried after these."""


@overload
def add_samples(op: Any) -> Callable[[_Maker], _Maker]: ...


@overload
def add_samples(op: Any, make: _Maker) -> _Maker: ...


@entry_point
def add_samples(op: Any, make: Maker | None = None) -> Any:
    """Adds the samples of an op, with which :func:`ops` and ``python -m oplib check`` call it.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        make: a function without arguments that returns or yields calls: a tuple of arguments, or a
            :class:`Call`. It runs when the samples are needed. None makes the call a decorator.

    Returns:
        The function, or a decorator that returns it.

    Raises:
        UnknownOperatorError: nothing is registered under the name.

    Example:
        >>> import jax, oplib
        >>> @oplib.custom_op("samples_doc::halved")
        ... def halved(x: jax.Array) -> jax.Array:
        ...     return x / 2
        >>> @add_samples(halved)
        ... def make_samples():
        ...     yield (oplib.ones(3),)
        >>> len(samples(halved))
        1
    """
    name = resolve_op(op, subject="add_samples").name()

    def add(maker: Maker) -> Maker:
        _makers[name] = maker
        return maker

    return add if make is None else add(make)


@entry_point
def samples(
    op: Any, *, shapes: Mapping[str, Sequence[int]] | None = None, dtype: Any = jnp.float32, seed: int = 0
) -> list[Call]:
    """Returns calls of an op: the added ones, or one that fits its schema.

    A made call has positive, distinct numbers. Its tensors require grad if the op has a derivative. The
    shapes are tried in turn until the op accepts them. A default is used where there
    is one.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``; or a schema, or its
            text, of which no shapes are tried.
        shapes: the shapes of tensor arguments by name. They are used instead of the added calls.
        dtype: of floating tensors.
        seed: selects the numbers.

    Returns:
        The calls; empty if no arguments are found that the op accepts.

    Raises:
        UnknownOperatorError: nothing is registered under the name.
        ArgumentValueError: ``shapes`` names no tensor argument.

    Example:
        >>> call = samples("demo::scale(Tensor x, float by, *, int n=2) -> Tensor")[0]
        >>> call.args[0].shape, call.args[1], call.kwargs
        ((3, 4), 0.5, {'n': 2})
    """
    if isinstance(op, str) and "(" in op:
        op = parse_schema(op)
    schema = op if isinstance(op, FunctionSchema) else resolve_op(op, subject="samples").record.schema
    _require_names(schema, shapes or {})
    overload = None if op is schema else resolve_op(op, subject="samples")
    if overload is not None and shapes is None and overload.name() in _makers:
        return [_to_call(made, overload) for made in _makers[overload.name()]()]
    is_differentiable = overload is None or overload.describe()["backward"].status is not Status.missing
    for tried in _list_types(schema, shapes or {}, dtype):
        call = _make_call(schema, tried, seed, requires_grad=is_differentiable)
        if call is not None and (overload is None or _try_call(overload, call) is None):
            return [call]
    return []


def make_samples_error(
    op: OpOverload, shapes: Mapping[str, Sequence[int]] | None = None
) -> OpCheckError | None:
    """Returns the error for an op of which :func:`samples` finds no call; None if no arguments can be made.

    Its cause is the error that the op raises for the first arguments that fit its schema and the shapes.
    """
    schema = op.record.schema
    call = _make_call(schema, next(_list_types(schema, shapes or {}, jnp.float32)), 0, requires_grad=False)
    cause = None if call is None else _try_call(op, call)
    if call is None or cause is None:
        return None
    shown = ", ".join([*map(describe, call.args), *(f"{k}={describe(v)}" for k, v in call.kwargs.items())])
    refusal = OpCheckError(
        f"{op.name()}: raises for all arguments that were tried. Got {type(cause).__name__} for ({shown}): "
        f"{str(cause).rstrip('.')}. Correct the op, or give it arguments that it accepts with "
        f"oplib.testing.add_samples({op.name()!r})."
    )
    refusal.__cause__ = cause
    return refusal


def _require_names(schema: FunctionSchema, shapes: Mapping[str, Any]) -> None:
    known = [argument.name for argument in schema.arguments if argument.has_tensor]
    for name in shapes:
        if name not in known:
            raise ArgumentValueError(
                f"samples({schema.qualified_name}): 'shapes' names {name!r}, which is no tensor argument. "
                f"Those are {', '.join(known) or 'none'}. Correct the name."
            )


def _to_call(made: Any, overload: OpOverload) -> Call:
    if isinstance(made, Call):
        return made
    if isinstance(made, (tuple, list)):
        return Call(tuple(made))
    raise ArgumentValueError(
        f"samples({overload.name()}): a sample is a tuple of arguments, or a Call. Got "
        f"{type(made).__name__}. Yield (x,) for one argument x."
    )


def _list_types(
    schema: FunctionSchema, named: Mapping[str, Sequence[int]], dtype: Any
) -> Iterator[list[tuple[Shape, Any]]]:
    """Yields a shape and a dtype for each tensor argument; floating ones before integers and bools."""
    shapes = list(_list_shapes(schema, named))
    count = len(shapes[0])
    mixed = [[dtype, *[jnp.int32] * (count - 1)]] if count > 1 else []
    for dtypes in ([dtype] * count, *mixed, [jnp.int32] * count, [jnp.bool_, *[dtype] * (count - 1)][:count]):
        for each in shapes:
            yield list(zip(each, dtypes, strict=True))


def _list_shapes(schema: FunctionSchema, named: Mapping[str, Sequence[int]]) -> Iterator[list[Shape]]:
    names = [argument.name for argument in schema.arguments if argument.has_tensor]
    chain = [(3, 4), (4, 5), (5, 2), (2, 3)]
    patterns: list[list[Shape]] = [[shape] * len(names) for shape in _UNIFORM]
    if len(names) > 1:
        patterns.append([(3, 4), *[(4,)] * (len(names) - 1)])
        patterns.append([chain[index % len(chain)] for index in range(len(names))])
    for pattern in patterns:
        yield [tuple(named.get(name, shape)) for name, shape in zip(names, pattern, strict=True)]


def _make_call(
    schema: FunctionSchema, types: Sequence[tuple[Shape, Any]], seed: int, *, requires_grad: bool
) -> Call | None:
    numbers = np.random.default_rng(seed)
    rest = iter(types)
    values: list[Any] = []
    for argument in schema.arguments:
        shape, dtype = next(rest) if argument.has_tensor else ((), None)
        value = _make_argument(argument, shape, dtype, numbers)
        if value is _NOTHING:
            return None
        values.append(value)
    if not requires_grad:
        values = tree_map(_detach, values)
    return Call(*split_values(schema, values))


_NOTHING: Any = object()
_PLAIN = {
    "int": 1, "float": 0.5, "bool": True, "complex": 0.5, "Scalar": 0.5, "Device": "cpu",
    "ScalarType": "float32",
}  # fmt: skip


def _make_argument(argument: Argument, shape: Shape, dtype: Any, numbers: np.random.Generator) -> Any:
    if argument.has_default_value() and not argument.has_tensor:
        return argument.default_value
    return _make_value(argument.type, shape, dtype, numbers)


def _make_value(type_: SchemaType, shape: Shape, dtype: Any, numbers: np.random.Generator) -> Any:
    """Returns a value of a type; ``_NOTHING`` if none can be made up."""
    if isinstance(type_, OptionalType):
        return _make_value(type_.element, shape, dtype, numbers)
    if isinstance(type_, ListType):
        made = [_make_value(type_.element, shape, dtype, numbers) for _ in range(type_.size or 2)]
        return _NOTHING if any(value is _NOTHING for value in made) else made
    if isinstance(type_, TupleType):
        made = [_make_value(element, shape, dtype, numbers) for element in type_.elements]
        return _NOTHING if any(value is _NOTHING for value in made) else tuple(made)
    assert isinstance(type_, BaseType)
    if type_.choices:
        return type_.choices[0]
    if type_.name == "Tensor":
        return _draw(shape, dtype, numbers)
    return _PLAIN.get(type_.name, _NOTHING)


def _draw(shape: Shape, dtype: Any, numbers: np.random.Generator) -> Tensor:
    size = math.prod(shape)
    is_float = jnp.issubdtype(dtype, jnp.inexact)
    values = numbers.permutation(np.linspace(0.3, 1.7, size)) if is_float else numbers.integers(0, 2, size)
    return Tensor.from_array(jnp.asarray(values.reshape(shape), dtype), requires_grad=bool(is_float))


def _try_call(overload: OpOverload, call: Call) -> Exception | None:
    """Returns the error that an op raises for these arguments; a host kernel runs, another one is traced."""
    args, kwargs = jax.tree.map(_to_array, (call.args, dict(call.kwargs)), is_leaf=_is_tensor)
    try:
        if overload.record.kind == "array":
            jax.eval_shape(lambda: overload.functional(*args, **kwargs))
        else:
            overload(*jax.tree.map(_detach, call.args, is_leaf=_is_tensor), **call.kwargs)
    except Exception as error:  # noqa: BLE001  any error means that the op does not accept them
        return error
    return None


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _to_array(value: Any) -> Any:
    return value.detach().array if isinstance(value, Tensor) else value


def _detach(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
