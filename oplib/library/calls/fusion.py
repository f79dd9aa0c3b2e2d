"""Functions that choose among overloads, with the fast paths of the overloads written into them.

``oplib.mul`` tests the class of its second argument and calls an overload; ``Tensor.__mul__`` calls
``oplib.mul``. Each frame of Python between a user and the compiled call costs about a twentieth of that call.
So such a function gets new code at its second call. The code contains the fast paths of the overloads. If
they do not serve a call, it calls the function as it is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from oplib.generated_code import define_function, write_function
from oplib.library.objects.overload import OpOverload
from oplib.tensor import Tensor

from .fast_block import FastBlock
from .fast_path import FastPath
from .spelling import Spelling, spell_parameters
from .unrolling import Names

Function = Callable[..., Any]
_KINDS = inspect.Parameter


_branches: WeakKeyDictionary[Function, Sequence[Branch]] = WeakKeyDictionary()  # by the fused function


class Branch(NamedTuple):
    """One overload of a fused function, and the calls that run it.

    Attributes:
        test: an expression in which ``{0}`` stands for the first parameter and so on. An empty one is true.
        overload: the op.
        places: the parameters that are its arguments, in their order; None for the first ones. The fast path
            serves calls that leave the others at their defaults.
    """

    test: str
    overload: OpOverload
    places: tuple[int, ...] | None = None


class Text(NamedTuple):
    """A function as text.

    Attributes:
        name: the name of the function.
        parameters: its parameters. A line refers to the default of ``x`` as ``__d_x``.
        lines: the body, indented by one step.
        namespace: the names that the lines refer to.
        place: the file name of the text in tracebacks.
        doc: the docstring.
    """

    name: str
    parameters: Sequence[inspect.Parameter]
    lines: Sequence[str]
    namespace: dict[str, Any]
    place: str
    doc: str | None = None

    def spell_head(self, spelling: Spelling) -> str:
        """Returns the name and the parameters."""
        return f"{self.name}({', '.join([*spelling.declared, *spelling.rest])})"

    def list_statements(self) -> list[str]:
        """Returns the lines without their first indent."""
        return [line.removeprefix("    ") for line in self.lines]


def define_text(text: Text, branches: Sequence[Branch], *, writes: bool = False) -> Function:
    """Makes the function of a text, with the fast paths of overloads before its body.

    Args:
        text: the text, whose body can serve every call.
        branches: the overloads; there may be none.
        writes: the function writes the result of an overload into its first argument.
    """
    if branches:
        function = _fuse(text, branches, writes=writes)
    else:
        spelling = spell_parameters(text.parameters)
        source = write_function(text.spell_head(spelling), text.list_statements())
        function = define_function(source, text.name, text.place, {**text.namespace, **spelling.namespace})
        function.__doc__ = text.doc
    used = function.__globals__
    del used[text.name]  # the lines may refer to something else by this name, such as a builtin
    if text.name in text.namespace:
        used[text.name] = text.namespace[text.name]
    return function


def _spell_call(function: Function) -> Text:
    """Returns the text of a function that calls another one."""
    parameters = list(inspect.signature(function).parameters.values())
    line = f"    return __whole({', '.join(spell_parameters(parameters).given)})"
    name = function.__name__
    return Text(name, parameters, [line], {"__whole": function}, f"<oplib.{name}>", function.__doc__)


def when_number(place: int) -> str:
    """Returns the test of whether a parameter is a Python number that a compiled call takes as an array."""
    return f"({{{place}}}.__class__ is float or {{{place}}}.__class__ is int)"


def when_tensor(place: int) -> str:
    """Returns the test of whether a parameter is a Tensor."""
    return f"{{{place}}}.__class__ is __Tensor"


def fuse(function: Function, *branches: Branch) -> Function:
    """Returns a function that does as another one, and contains the fast paths of overloads.

    Args:
        function: the other one, which can serve every call.
        branches: the overloads, in the order in which their tests are made.
    """
    return _fuse(_spell_call(function), branches)


def list_branches(function: Function) -> Sequence[Branch]:
    """Returns the branches of a fused function, and of any other function none."""
    return _branches.get(function, ())


def _fuse(text: Text, branches: Sequence[Branch], *, writes: bool = False) -> Function:
    spelling = spell_parameters(text.parameters)
    path = FastPath(
        text.spell_head(spelling),
        ", ".join(spelling.given),
        Names({**text.namespace, **spelling.namespace, "__Tensor": Tensor}),
        lambda: filter(None, [_make_block(text.parameters, branch, writes) for branch in branches]),
        end=text.list_statements(),
        place=text.place,
    )
    path.function.__doc__ = text.doc
    _branches[path.function] = branches
    return path.function


def _make_block(
    parameters: Sequence[inspect.Parameter], branch: Branch, writes: bool
) -> tuple[str, FastBlock] | None:
    """Returns the block of an overload and its test; None if the whole function serves its calls."""
    dispatcher = branch.overload.prepare()
    if dispatcher is None or not dispatcher.is_fast:
        return None
    names = [one.name for one in parameters]
    places = branch.places or tuple(range(len(dispatcher.schema.arguments)))
    if max(places) >= len(names):
        return None  # an operator has no place for a keyword argument
    others = [one for place, one in enumerate(parameters) if place not in places]
    if any(one.default is one.empty and one.kind is not _KINDS.VAR_KEYWORD for one in others):
        return None  # each call gives something that the overload does not take
    tests = [branch.test.format(*names)] if branch.test else []
    tests += map(_test_default, others)
    block = FastBlock(dispatcher, [names[place] for place in places], writes=writes)
    if writes and not block.can_write:
        return None
    return " and ".join(tests), block


def _test_default(parameter: inspect.Parameter) -> str:
    """The test of whether a call leaves a parameter out."""
    name = parameter.name
    return f"not {name}" if parameter.kind is _KINDS.VAR_KEYWORD else f"{name} is __d_{name}"
