"""Calls of the short cut whose arguments are named, missing or too many: everything but plain positions.

Its generated function takes all that anybody can write, so that Python never has to refuse: a refusal has to
come from the schema, in its words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.library.schema import Argument
from oplib.modes import modes

MISSING: Any = object()
"""Stands for an argument that was not given."""

Complete = Callable[[tuple[Any, ...], dict[str, Any]], Any]


class LateBinding:
    """Brings the arguments of one overload in order.

    Args:
        arguments: of the schema.
        complete: the complete path of a call.

    Attributes:
        call: the generated function, which is made after this object.
        make_quiet: makes the one for inference mode, if there is to be one.
    """

    call: Callable[..., Any]
    make_quiet: Callable[[], Callable[..., Any]] | None = None
    _quiet: Callable[..., Any] | None = None

    def __init__(self, arguments: tuple[Argument, ...], complete: Complete) -> None:
        self._names = [argument.name for argument in arguments if not argument.kwarg_only]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._complete = complete

    def by_name(
        self,
        values: tuple[Any, ...],
        keyword_only: dict[str, Any],
        rest: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """Calls again with the named arguments at their places; what does not fit goes the complete way."""
        placed = list(values)
        for name, value in named.items():
            place = self._places.get(name)
            if place is None or placed[place] is not MISSING:
                break
            placed[place] = value
        else:
            if not rest:
                return self.call(*placed, **keyword_only)
        given = [value for value in values if value is not MISSING]
        return self._complete((*given, *rest), {**_given(keyword_only), **named})

    def slow(self, values: tuple[Any, ...], keyword_only: dict[str, Any]) -> Any:
        """Goes on where the short cut is not to be taken, or not the one for ordinary tensors."""
        state = modes.state
        if state.inference and state.watchers == 1 and self.make_quiet is not None:
            if self._quiet is None:
                self._quiet = self.make_quiet()
            return self._quiet(*values, **keyword_only)
        return self.complete(values, keyword_only)

    def complete(self, values: tuple[Any, ...], keyword_only: dict[str, Any]) -> Any:
        """Goes the complete way, with the arguments as far as they were given."""
        count = next((place for place, value in enumerate(values) if value is MISSING), len(values))
        later = dict(zip(self._names[count:], values[count:], strict=True))
        return self._complete(values[:count], {**_given(keyword_only), **_given(later)})


def _given(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not MISSING}
