"""Parameters as text, for generated functions: how they are declared, and how they are passed on."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter
from typing import Any, NamedTuple


class Spelling(NamedTuple):
    """Parameters as text.

    Attributes:
        declared: the parameters in the head of a function, without ``**`` parameters.
        given: the arguments of a call that passes them on.
        rest: the ``**`` parameter for the end of the head, if there is one.
        namespace: the defaults that the head refers to.
    """

    declared: list[str]
    given: list[str]
    rest: list[str]
    namespace: dict[str, Any]


def spell_parameters(parameters: Sequence[Parameter]) -> Spelling:
    """Returns parameters as text. The default of ``x`` has the name ``__d_x``.

    Example:
        >>> import inspect
        >>> def f(x, by=2, *, keep=False): ...
        >>> found = spell_parameters(list(inspect.signature(f).parameters.values()))
        >>> found.declared, found.given
        (['x', 'by=__d_by', '*', 'keep=__d_keep'], ['x', 'by', 'keep=keep'])
    """
    found = Spelling([], [], [], {})
    for one in parameters:
        if one.kind is Parameter.VAR_KEYWORD:
            found.rest.append(f"**{one.name}")
            found.given.append(f"**{one.name}")
            continue
        if one.kind is Parameter.VAR_POSITIONAL:
            found.declared.append(f"*{one.name}")
            found.given.append(f"*{one.name}")
            continue
        if one.kind is Parameter.KEYWORD_ONLY and not any(it.startswith("*") for it in found.declared):
            found.declared.append("*")
        if one.default is not Parameter.empty:
            found.namespace[f"__d_{one.name}"] = one.default
        found.declared.append(one.name if one.default is Parameter.empty else f"{one.name}=__d_{one.name}")
        found.given.append(f"{one.name}={one.name}" if one.kind is Parameter.KEYWORD_ONLY else one.name)
    return found
