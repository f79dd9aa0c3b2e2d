"""The parameters of a callable, with their annotations as objects."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oplib.errors import SchemaInferenceError

EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; ``hint`` and ``default`` are :data:`EMPTY` if it has none."""

    name: str
    hint: Any
    default: Any
    kind: Any

    @property
    def kwarg_only(self) -> bool:
        """Whether the parameter can only be given by keyword."""
        return self.kind is inspect.Parameter.KEYWORD_ONLY

    @property
    def is_variadic(self) -> bool:
        """Whether the parameter takes all further positional arguments: ``*xs``."""
        return self.kind is inspect.Parameter.VAR_POSITIONAL

    @property
    def is_plain(self) -> bool:
        """Whether torch's schemas have this kind of parameter."""
        return self.kwarg_only or self.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the return annotation of a function, and its name in errors."""

    title: str
    parameters: tuple[Parameter, ...]
    returned: Any

    def refuse(self, what: str) -> SchemaInferenceError:
        """Returns the error about this signature, with the given text."""
        return SchemaInferenceError(f"infer_schema({self.title}): {what}")


def read_signature(fn: Callable[..., Any]) -> Signature:
    """Reads the signature of a function, a bound method, a ``functools.partial`` or a callable object.

    Raises:
        SchemaInferenceError: it has no signature, or an annotation is a string that names no type.
    """
    title = getattr(fn, "__name__", None) or getattr(_find_function(fn), "__name__", None) or repr(fn)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise SchemaInferenceError(
            f"infer_schema({title}): it has no signature. {error}. Give the op a schema."
        ) from None
    names = getattr(_find_function(fn), "__globals__", {})
    parameters = tuple(
        Parameter(
            name,
            _resolve(parameter.annotation, names, f"infer_schema({title}): Parameter {name}"),
            parameter.default,
            parameter.kind,
        )
        for name, parameter in signature.parameters.items()
    )
    return Signature(
        str(title), parameters, _resolve(signature.return_annotation, names, f"infer_schema({title}): Return")
    )


def has_signature(fn: Callable[..., Any]) -> bool:
    """Tells whether Python knows the parameters, which is not so for some builtin functions."""
    try:
        inspect.signature(fn)
    except (TypeError, ValueError):
        return False
    return True


def _find_function(fn: Any) -> Any:
    """Returns the plain function behind a callable; its module defines the names in the annotations."""
    while True:
        inner = inspect.unwrap(fn)
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif isinstance(inner, types.MethodType):
            inner = inner.__func__
        elif not hasattr(inner, "__globals__") and not isinstance(inner, type):
            inner = getattr(type(inner), "__call__", inner)  # noqa: B004  the method is wanted, not the answer
        if inner is fn:
            return fn
        fn = inner


def _resolve(hint: Any, names: dict[str, Any], subject: str) -> Any:
    """Returns an annotation with each string in it replaced by the type that it names."""
    if hint is EMPTY:
        return hint
    try:
        return typing.get_type_hints(
            types.SimpleNamespace(__annotations__={"hint": hint}), globalns=names, include_extras=True
        )["hint"]
    except Exception as error:  # noqa: BLE001  evaluating an annotation runs the user's code
        raise SchemaInferenceError(
            f"{subject} has an unsupported type annotation {hint}. It is not a type ({type(error).__name__}: "
            f"{error}). Annotations are read at module scope: import their types there, also outside of "
            "`if TYPE_CHECKING`."
        ) from None
