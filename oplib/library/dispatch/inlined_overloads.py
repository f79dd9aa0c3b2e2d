"""Functions that choose among overloads, with the fast paths of the overloads inlined.

``oplib.mul`` tests the class of its second argument and calls an overload; ``Tensor.__mul__`` calls
``oplib.mul``. Each frame of Python between a user and the compiled call costs about a twentieth of that call.
So such a function gets new code at its second call. The code contains the fast paths of the overloads. If
they do not serve a call, it calls the function as it is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

from oplib.generated_code import define_function, render_parameters, write_function
from oplib.library.op_objects.overload import OpOverload
from oplib.protocols import AnyFunction

from .fast_block import FastBlock
from .fast_path import FastPath

_STARRED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Branch(NamedTuple):
    """One overload that is inlined, and the calls that run it.

    Attributes:
        test: an expression in which ``{0}`` stands for the first parameter and so on. An empty one is true.
        overload: the op.
        indices: the parameters that are its arguments, in their order; None for the first ones. The fast path
            serves calls that leave the others at their defaults.
    """

    test: str
    overload: OpOverload
    indices: tuple[int, ...] | None = None


def define_with_overloads(
    name: str,
    parameters: Sequence[Parameter],
    branches: Sequence[Branch],
    *,
    lines: Sequence[str],
    namespace: dict[str, Any],
    filename: str,
    writes: bool = False,
) -> AnyFunction:
    """Makes a function from its text, with the fast paths of overloads before its body.

    Args:
        name: of the function.
        parameters: its parameters. A line refers to the default of ``x`` as ``__d_x``.
        branches: the overloads, in the order in which their tests are made; there may be none.
        lines: the body, indented by one step. It can serve every call.
        namespace: the names that the lines refer to.
        filename: the file name of the text in tracebacks.
        writes: the function writes the result of an overload into its first argument.
    """
    statements = [line.removeprefix("    ") for line in lines]
    if branches:
        path = FastPath(
            name,
            parameters,
            namespace,
            lambda: filter(None, [_make_block(parameters, one, writes, path.forget) for one in branches]),
            end=statements,
            filename=filename,
        )
        function = path.function
    else:
        text = render_parameters(parameters)
        source = write_function(f"{name}{text.declared}", statements)
        function = define_function(source, name, filename, {**namespace, **text.defaults})
    used = function.__globals__
    del used[name]  # the lines may refer to something else by this name, such as a builtin
    if name in namespace:
        used[name] = namespace[name]
    return function


def inline_overloads(function: AnyFunction, *branches: Branch) -> AnyFunction:
    """Returns a function that does as another one, and contains the fast paths of overloads.

    Args:
        function: the other one, which can serve every call.
        branches: the overloads, in the order in which their tests are made.
    """
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    inlined = define_with_overloads(
        name,
        parameters,
        branches,
        lines=[f"    return __whole({render_parameters(parameters).passed})"],
        namespace={"__whole": function},
        filename=f"<oplib.{name}>",
    )
    inlined.__doc__ = function.__doc__
    return inlined


def when_number(index: int) -> str:
    """Returns the test of whether a parameter is a Python number that a compiled call takes as an array."""
    return f"({{{index}}}.__class__ is float or {{{index}}}.__class__ is int)"


def when_tensor(index: int) -> str:
    """Returns the test of whether a parameter is a Tensor."""
    return f"{{{index}}}.__class__ is __Tensor"


def _make_block(
    parameters: Sequence[Parameter], branch: Branch, writes: bool, forget: Callable[[], None]
) -> tuple[str, FastBlock] | None:
    """Returns the block of an overload and its test; None if the whole function serves its calls.

    ``forget`` is called when the overload gets another record.
    """
    dispatcher = branch.overload.prepare()
    if dispatcher is None:
        return None
    dispatcher.follow(forget)
    if not dispatcher.is_fast:
        return None
    names = [parameter.name for parameter in parameters]
    indices = branch.indices or tuple(range(len(dispatcher.schema.arguments)))
    if max(indices) >= len(names):
        return None  # an operator has no keyword argument
    others = [parameter for index, parameter in enumerate(parameters) if index not in indices]
    tests = [branch.test.format(*names)] if branch.test else []
    tests += map(_test_default, others)
    block = FastBlock(dispatcher, [names[index] for index in indices], writes=writes)
    if writes and not block.can_write:
        return None
    return " and ".join(tests), block


def _test_default(parameter: Parameter) -> str:
    """The test of whether a call leaves a parameter out."""
    name = parameter.name
    return f"not {name}" if parameter.kind in _STARRED else f"{name} is __d_{name}"
