"""Functions that choose among overloads, with the fast paths of the overloads written into them.

``oplib.mul`` tests the class of its second argument and calls an overload; ``Tensor.__mul__`` calls
``oplib.mul``. Each frame of Python between a user and the compiled call costs about a twentieth of that call.
So such a function gets new code at its first call, which contains the fast paths of the overloads. If they do
not serve a call, it calls the function as it is written.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from oplib.generated_code import define_function, parse
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


def define_text(text: Text, branches: Sequence[Branch]) -> Function:
    """Makes the function of a text, with the fast paths of overloads before its body.

    Args:
        text: the text, whose body can serve every call.
        branches: the overloads; there may be none.
    """
    if branches:
        function = Fusion(text, branches).function
    else:
        spelling = spell_parameters(text.parameters)
        source = "\n".join([_spell_head(text, spelling), *text.lines])
        function = define_function(source, text.name, text.place, {**text.namespace, **spelling.namespace})
        function.__doc__ = text.doc
    used = function.__globals__
    del used[text.name]  # the lines may refer to something else by this name, such as a builtin
    if text.name in text.namespace:
        used[text.name] = text.namespace[text.name]
    return function


def _spell_head(text: Text, spelling: Spelling) -> str:
    return f"def {text.name}({', '.join([*spelling.declared, *spelling.rest])}):"


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
    return Fusion(function, branches).function


def list_branches(function: Function) -> Sequence[Branch]:
    """Returns the branches of a fused function, and of any other function none."""
    return _branches.get(function, ())


class Fusion:
    """One fused function.

    Args:
        whole: the function that serves every call, or its text.
        branches: see :func:`fuse`.

    Attributes:
        function: the fused one.
    """

    def __init__(self, whole: Function | Text, branches: Sequence[Branch]) -> None:
        text = whole if isinstance(whole, Text) else _spell_call(whole)
        self._branches = branches
        self._parameters = text.parameters
        self._preparing = threading.Lock()
        spelling = spell_parameters(text.parameters)
        source = "\n".join([_spell_head(text, spelling), "    __prepare()", *text.lines])
        self._head: Any = parse(source).body[0]
        prepare, *end = self._head.body
        self._head.body = [prepare]
        names = {**text.namespace, **spelling.namespace, "__prepare": self._prepare, "__Tensor": Tensor}
        self._path = FastPath(self._head, Names(names), end=end, place=text.place)
        self.function = self._path.define()
        self.function.__doc__ = text.doc
        _branches[self.function] = branches

    def text(self) -> str:
        """Returns the source of the fused function as it is now."""
        return self._path.text()

    def _prepare(self) -> None:
        """Writes the fast paths in at the first call, which the whole function serves."""
        with self._preparing:
            if self._head.body:
                self._head.body.clear()
                for branch in self._branches:
                    self._add(branch)
                self._path.rewrite()

    def _add(self, branch: Branch) -> None:
        dispatcher = branch.overload.prepare()
        if dispatcher is None or not dispatcher.is_fast:
            return  # the whole function serves its calls
        names = [one.name for one in self._parameters]
        places = branch.places or tuple(range(len(dispatcher.schema.arguments)))
        if max(places) >= len(names):
            return  # an operator has no place for a keyword argument
        others = [one for place, one in enumerate(self._parameters) if place not in places]
        if any(one.default is one.empty and one.kind is not _KINDS.VAR_KEYWORD for one in others):
            return  # each call gives something that the overload does not take
        tests = [
            *([branch.test.format(*names)] if branch.test else []),
            *[_test_default(one) for one in others],
        ]
        test: Any = parse(" and ".join(tests)).body[0] if tests else None
        self._path.add(
            dispatcher, FastBlock(dispatcher, [names[place] for place in places]), test and test.value
        )


def _test_default(parameter: inspect.Parameter) -> str:
    """The test of whether a call leaves a parameter out."""
    name = parameter.name
    return f"not {name}" if parameter.kind is _KINDS.VAR_KEYWORD else f"{name} is __d_{name}"
