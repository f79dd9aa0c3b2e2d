"""The function of ``overload.call``: generated code that binds the arguments and serves the common calls.

Python binds positional and keyword-only arguments. The function takes any others too, so Python refuses no
call, and errors have the words of the schema.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from oplib.generated_code import define_function, refer, render_tuple, write_function
from oplib.library.op_objects.overload import OpOverload
from oplib.library.schema import Argument
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tracebacks import entry_point

from .derived_view import gives_views
from .dispatcher import Dispatcher
from .fast_block import FastBlock, name_arguments
from .fast_path import FastPath

MISSING: Any = object()
"""Stands for an argument that was not given."""


def build_call(overload: OpOverload) -> AnyFunction:
    """Returns the function of ``overload.call``, and assigns those of its other calls."""
    dispatcher = Dispatcher(overload)
    overload.arrays = entry_point(lambda *args, **kwargs: dispatcher.call(args, kwargs, arrays_wanted=True))
    overload.functional = entry_point(lambda *args, **kwargs: dispatcher.call_functional(args, kwargs))
    overload.take_dispatcher(dispatcher)
    if dispatcher.is_fast:
        return OverloadCall(dispatcher).function
    source = write_function("call(*args, **kwargs)", ["return __complete(args, kwargs)"])
    return define_function(source, "call", f"<call of {dispatcher.name}>", {"__complete": dispatcher.call})


class OverloadCall:
    """The generated function of an overload, and the calls that its fast path does not serve.

    Args:
        dispatcher: of the overload.

    Attributes:
        function: the generated function.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        names = [argument.name for argument in dispatcher.schema.arguments if not argument.kwarg_only]
        self._indices = {name: index for index, name in enumerate(names)}
        self._inference_function: AnyFunction | None = None
        self.function = self._make_function(self._decline)

    def _make_function(self, decline: AnyFunction, *, in_inference: bool = False) -> AnyFunction:
        """Makes the function.

        Args:
            decline: called for a call that no block has served.
            in_inference: the function is for inference mode.
        """
        schema = self._dispatcher.schema
        pairs = list(zip(name_arguments(schema), schema.arguments, strict=True))
        positional = [pair for pair in pairs if not pair[1].kwarg_only]
        keyword_only = [pair for pair in pairs if pair[1].kwarg_only]
        named = ", ".join(f"{argument.name!r}: {variable}" for variable, argument in keyword_only)
        arguments = f"{render_tuple([variable for variable, _ in positional])}, {{{named}}}"
        objects = {"__MISSING": MISSING, "__bind_again": self._bind_again, "__decline": decline}
        start = [f"if __named or __rest: return __bind_again({arguments}, __rest, __named)"]
        for variable, argument in positional:
            default = _find_default(argument)
            if default is not MISSING:
                value = refer(objects, default, f"default_{variable}")
                start.append(f"if {variable} is __MISSING: {variable} = {value}")
        parameters = [
            *[Parameter(variable, Parameter.POSITIONAL_ONLY, default=MISSING) for variable, _ in positional],
            Parameter("__rest", Parameter.VAR_POSITIONAL),
            *[
                Parameter(variable, Parameter.KEYWORD_ONLY, default=_find_default(argument))
                for variable, argument in keyword_only
            ],
            Parameter("__named", Parameter.VAR_KEYWORD),
        ]
        return FastPath(
            "call",
            parameters,
            objects,
            lambda: [("", FastBlock(self._dispatcher, in_inference=in_inference))],
            start=start,
            end=[f"return __decline({arguments})"],
            filename=f"<call of {self._dispatcher.name}>",
        ).function

    def _bind_again(
        self,
        values: Values,
        keyword_only: dict[str, Any],
        rest: Values,
        named: dict[str, Any],
    ) -> Any:
        """Calls again with named arguments at their indices; the complete path refuses wrong names."""
        bound = list(values)
        for name, value in named.items():
            index = self._indices.get(name)
            if index is None or bound[index] is not MISSING:
                break
            bound[index] = value
        else:
            if not rest:
                return self.function(*bound, **keyword_only)
        positional = [value for value in values if value is not MISSING]
        return self._dispatcher.call((*positional, *rest), {**_drop_missing(keyword_only), **named})

    def _decline(self, values: Values, keyword_only: dict[str, Any]) -> Any:
        """Serves a call that the function does not serve. In inference mode another function may serve it."""
        state = modes.state
        # in inference mode too, a view of an ordinary tensor is ordinary
        if state.inference and state.watchers == 1 and not gives_views(self._dispatcher.record):
            if self._inference_function is None:
                self._inference_function = self._make_function(self._complete, in_inference=True)
            return self._inference_function(*values, **keyword_only)
        return self._complete(values, keyword_only)

    def _complete(self, values: Values, keyword_only: dict[str, Any]) -> Any:
        """Takes the complete path, with the arguments that were given."""
        count = next((index for index, value in enumerate(values) if value is MISSING), len(values))
        later = dict(zip(list(self._indices)[count:], values[count:], strict=True))
        named = _drop_missing({**keyword_only, **later})
        return self._dispatcher.call(values[:count], named)


def _drop_missing(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not MISSING}


def _find_default(argument: Argument) -> Any:
    return argument.default_value if argument.has_default_value() else MISSING
