"""Binding for the fast path: arguments that are named, missing or too many.

A generated function takes any arguments. So Python refuses no call, and errors have the words of the schema.
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
    """Binds the arguments of one overload that Python has not bound to their parameters.

    Args:
        arguments: the arguments of the schema.
        complete: the complete path of a call.

    Attributes:
        call: the generated function.
        make_inference_call: makes the generated function for inference mode; None if there is none.
    """

    call: Callable[..., Any]
    make_inference_call: Callable[[], Callable[..., Any]] | None = None
    _inference_call: Callable[..., Any] | None = None

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
        """Calls again with named arguments at their places; the complete path refuses wrong names."""
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

    def decline(self, values: tuple[Any, ...], keyword_only: dict[str, Any]) -> Any:
        """Serves a call that the generated function does not serve."""
        state = modes.state
        if state.inference and state.watchers == 1 and self.make_inference_call is not None:
            if self._inference_call is None:
                self._inference_call = self.make_inference_call()
            return self._inference_call(*values, **keyword_only)
        return self.complete(values, keyword_only)

    def complete(self, values: tuple[Any, ...], keyword_only: dict[str, Any]) -> Any:
        """Takes the complete path, with the arguments that were given."""
        count = next((place for place, value in enumerate(values) if value is MISSING), len(values))
        later = dict(zip(self._names[count:], values[count:], strict=True))
        return self._complete(values[:count], {**_given(keyword_only), **_given(later)})


def _given(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not MISSING}
