"""The signature of an op, for ``inspect.signature``, completion in editors and ``help``."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from oplib.library.schema import Argument, FunctionSchema


class LateSignature:
    """The ``__signature__`` of an object, found when it is read; the class keeps its own signature."""

    def __init__(self, find: Callable[[Any], Signature | None]) -> None:
        self._find = find

    def __get__(self, instance: Any, owner: type) -> Signature | None:
        return None if instance is None else self._find(instance)


class LateDocstring:
    """The ``__doc__`` of an object, made when it is read; the class keeps its own docstring."""

    def __init__(self, doc: str | None, find: Callable[[Any], str]) -> None:
        self._doc = doc
        self._find = find

    def __get__(self, instance: Any, owner: type) -> str | None:
        return self._doc if instance is None else self._find(instance)


def make_signature(schema: FunctionSchema) -> Signature:
    """Returns the signature of a schema: its types are the annotations, as text.

    Example:
        >>> from oplib.library.schema import parse_schema
        >>> str(make_signature(parse_schema("demo::f(Tensor x, float by=1., *, int[] n) -> Tensor")))
        "(x: 'Tensor', by: 'float' = 1.0, *, n: 'int[]') -> 'Tensor'"
    """
    returns = ", ".join(str(returned.type) for returned in schema.returns)
    return Signature(
        list(map(_make_parameter, schema.arguments)),
        return_annotation=returns if len(schema.returns) == 1 else f"({returns})",
    )


def _make_parameter(argument: Argument) -> Parameter:
    """Returns a parameter; an underscore follows a name that is a keyword of Python, as in functions."""
    return Parameter(
        f"{argument.name}_" if keyword.iskeyword(argument.name) else argument.name,
        Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD,
        default=argument.default_value if argument.has_default_value() else Parameter.empty,
        annotation=str(argument.type),
    )


SIGNATURE_OF_ANY = Signature.from_callable(lambda *args, **kwargs: None)  # noqa: ARG005  read, never called
"""The signature of an op with several overloads, among which the arguments choose."""
