"""The parameters of a callable, with their annotations as objects."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from typing import Any

from oplib.errors import SchemaInferenceError
from oplib.frozen import frozen
from oplib.protocols import AnyFunction

EMPTY = inspect.Parameter.empty


class NoSignatureError(SchemaInferenceError):
    """Python does not know the parameters of a callable; this is so for some builtin functions."""


@frozen
class Signature:
    """The name in errors, the parameters and the return annotation of a function; annotations are types."""

    title: str
    parameters: tuple[inspect.Parameter, ...]
    returned: Any

    def refuse(self, text: str) -> SchemaInferenceError:
        """Returns the error about this signature, with the given text."""
        return SchemaInferenceError(f"infer_schema({self.title}): {text}")


def read_signature(fn: AnyFunction) -> Signature:
    """Reads the signature of a function, a bound method, a ``functools.partial`` or a callable object.

    Raises:
        NoSignatureError: it has no signature.
        SchemaInferenceError: an annotation is a string that names no type.
    """
    function = _find_function(fn)
    title = str(getattr(fn, "__name__", None) or getattr(function, "__name__", None) or repr(fn))
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise NoSignatureError(
            f"infer_schema({title}): it has no signature. {error}. Give the op a schema."
        ) from None
    names = getattr(function, "__globals__", {})

    def resolve(hint: Any, subject: str) -> Any:
        return hint if hint is EMPTY else _resolve(hint, names, f"infer_schema({title}): {subject}")

    parameters = [
        parameter.replace(annotation=resolve(parameter.annotation, f"Parameter {name}"))
        for name, parameter in signature.parameters.items()
    ]
    return Signature(title, tuple(parameters), resolve(signature.return_annotation, "Return"))


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
