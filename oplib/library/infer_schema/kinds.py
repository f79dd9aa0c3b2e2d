"""The kind of a kernel, by the annotations of its function."""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Callable, Iterator
from typing import Any

from .hints import Kind, find_hint_kind, resolve_alias
from .signatures import Signature, has_signature, read_signature

_SPELLINGS: dict[Kind, str] = {"array": "jax.Array", "host": "numpy.ndarray", "tensor": "Tensor"}


def infer_kind(fn: Callable[..., Any]) -> Kind | None:
    """Returns the kind of arrays that a kernel works on, by its annotations.

    Args:
        fn: any callable.

    Returns:
        ``"array"`` for ``jax.Array`` (a JAX function), ``"host"`` for ``numpy.ndarray`` (Python on numpy
        arrays), ``"tensor"`` for ``Tensor`` (eager code). None if no parameter and no return has such an
        annotation.

    Raises:
        SchemaInferenceError: two kinds in one signature, or an annotation that names no type.

    Example:
        >>> def negate(x: jax.Array) -> jax.Array:
        ...     return -x
        >>> import jax
        >>> infer_kind(negate)
        'array'
    """
    return find_signature_kind(read_signature(fn)) if has_signature(fn) else None


def find_signature_kind(signature: Signature) -> Kind | None:
    """Returns the single kind of a signature; raises SchemaInferenceError if it has two."""
    hints = [(f"Parameter {parameter.name}", parameter.hint) for parameter in signature.parameters]
    first: tuple[str, Kind] | None = None
    for subject, hint in (*hints, ("the return", signature.returned)):
        for kind in _find_kinds(hint):
            if first is None:
                first = subject, kind
            elif first[1] != kind:
                raise signature.refuse(
                    f"{first[0]} is annotated {_SPELLINGS[first[1]]}, {subject} {_SPELLINGS[kind]}. "
                    f"A kernel works on one kind of array. Annotate both alike."
                )
    return None if first is None else first[1]


def _find_kinds(hint: Any) -> Iterator[Kind]:
    kind = find_hint_kind(hint)
    if kind is not None:
        yield kind
        return
    hint = resolve_alias(hint)
    if typing.get_origin(hint) is collections.abc.Callable:  # it is static, whatever it takes
        return
    parts = typing.get_args(hint)
    if len({find_hint_kind(part) for part in parts} - {None}) > 1:  # jax.typing.ArrayLike is no annotation
        return
    for part in parts:
        yield from _find_kinds(part)
