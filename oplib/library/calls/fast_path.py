"""The fast path: Python functions generated for the common calls.

They serve calls of compiled kernels whose arguments have the exact classes expected, in one world, and whose
specialization exists. All other calls go to :class:`.dispatch.Dispatcher`, which also fills the caches that
this code reads. The code comes from the template in :mod:`.fast_block`. It is written again when a call is
recorded in a new way, because it contains which inputs want gradients and which values are saved.

Python binds positional and keyword-only arguments, :mod:`.late_binding` binds all others.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oplib.autograd.recording.formula_node import record
from oplib.autograd.recording.record_pattern import find_pattern
from oplib.generated_code import compile_function, define_function, guard
from oplib.library.schema import Argument
from oplib.tracebacks import hide_frames

from .dispatch import Dispatcher
from .fast_block import FastBlock, serve
from .late_binding import MISSING, LateBinding
from .unrolling import Names, expand_template

MAX_PATTERNS = 8  # each adds a dozen lines

Function = Callable[..., Any]
Parameter = tuple[ast.Name, Argument]


class FastPath:
    """A generated function: first statements, then blocks that serve calls, then statements for all others.

    Args:
        head: the function with its first statements.
        names: what the statements refer to.
        end: the statements for a call that no block has served.
        place: the name of the code in tracebacks.
        in_inference: the function is for inference mode.

    Attributes:
        function: the generated function. It stays the same object when its code is written again.
    """

    function: Function

    def __init__(
        self,
        head: ast.FunctionDef,
        names: Names,
        *,
        end: Sequence[ast.stmt],
        place: str,
        in_inference: bool = False,
    ) -> None:
        self._head = head
        self._names = names
        self._end = end
        self._place = place
        self._in_inference = in_inference
        self._blocks: list[tuple[ast.expr | None, FastBlock]] = []
        self._writing = threading.Lock()

    def define(self) -> Function:
        """Makes the function."""
        names = self._names.objects
        self.function = define_function(self.text(), self._head.name, self._place, names, is_guarded=True)
        return self.function

    def text(self) -> str:
        """Returns the source of the function."""
        served: list[ast.stmt] = []
        for test, block in reversed(self._blocks):
            body = expand_template(serve, self._names, block=block, in_inference=self._in_inference)
            served = body if test is None else [ast.If(test, body, served)]
        body = guard([*self._head.body, *served, *self._end])
        return ast.unparse(ast.FunctionDef(self._head.name, self._head.args, [body], [], lineno=0))

    def add(self, dispatcher: Dispatcher, block: FastBlock, test: ast.expr | None = None) -> None:
        """Adds the block of an overload, for the calls that pass a test; one without a test is the last."""
        block.record_new = partial(self._record_new, dispatcher, block)
        self._blocks.append((test, block))

    def rewrite(self) -> None:
        """Replaces the code of the function. Calls that run now finish with the code that they began."""
        function: Any = self.function
        function.__code__ = compile_function(self.text(), function.__code__.co_filename, is_guarded=True)

    def _record_new(
        self, dispatcher: Dispatcher, block: FastBlock, result: Any, tensors: Any, arrays: Any
    ) -> Any:
        """Records a call as the complete path does, and writes code for the next one of its pattern."""
        pattern = find_pattern(result[0])
        if pattern is not None:
            with self._writing:
                if pattern not in block.patterns and len(block.patterns) < MAX_PATTERNS:
                    block.patterns.append(pattern)
                    self.rewrite()
        boxed = record(dispatcher.node_class, result, tensors, arrays)
        return boxed[0] if block.count == 1 else tuple(boxed)


def _make_complete_call(dispatcher: Dispatcher) -> Function:
    """Returns the call of an overload without a fast path: an entry point without a frame of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return dispatcher.call(args, kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return call


def make_fast_call(dispatcher: Dispatcher) -> Function:
    """Returns the function that a call of the overload runs."""
    if not dispatcher.is_fast:
        return _make_complete_call(dispatcher)
    binding = LateBinding(dispatcher.schema.arguments, dispatcher.call)
    make = partial(_make_function, dispatcher, binding)
    binding.call = make(binding.decline)
    if not FastBlock(dispatcher).is_view:  # in inference mode too, a view of an ordinary tensor is ordinary
        binding.make_inference_call = partial(make, binding.complete, in_inference=True)
    return binding.call


def _make_function(
    dispatcher: Dispatcher, binding: LateBinding, decline: Function, *, in_inference: bool = False
) -> Function:
    """Makes a function that takes any arguments, because errors about them have the words of the schema.

    Args:
        dispatcher: of the overload.
        binding: binds what Python does not.
        decline: called for a call that the generated code does not serve.
        in_inference: the function is for inference mode.
    """
    block, names = FastBlock(dispatcher), Names({})
    pairs = list(zip(block.names, dispatcher.schema.arguments, strict=True))
    positional = [(ast.Name(name), one) for name, one in pairs if not one.kwarg_only]
    keyword_only = [(ast.Name(name), one) for name, one in pairs if one.kwarg_only]
    given = {
        "values": [value for value, _ in positional],
        "keyword_only": ast.Dict(
            [ast.Constant(one.name) for _, one in keyword_only], [value for value, _ in keyword_only]
        ),
    }
    start = expand_template(
        start_call,
        names,
        by_name=binding.by_name,
        defaults=[(value, one.default_value) for value, one in positional if one.has_default_value()],
        rest=ast.Name("__rest"),
        named=ast.Name("__named"),
        **given,
    )
    end = expand_template(end_call, names, decline=decline, **given)
    path = FastPath(
        ast.FunctionDef("call", _list_parameters(names, positional, keyword_only), start, []),
        names,
        end=end,
        place=f"<call of {dispatcher.name}>",
        in_inference=in_inference,
    )
    path.add(dispatcher, block)
    return path.define()


def _list_parameters(
    names: Names, positional: Sequence[Parameter], keyword_only: Sequence[Parameter]
) -> ast.arguments:
    missing = names.refer(MISSING, "MISSING")
    return ast.arguments(
        posonlyargs=[ast.arg(value.id) for value, _ in positional],
        args=[],
        defaults=[missing] * len(positional),
        vararg=ast.arg("__rest"),
        kwonlyargs=[ast.arg(value.id) for value, _ in keyword_only],
        kw_defaults=[
            names.refer(one.default_value, "default") if one.has_default_value() else missing
            for _, one in keyword_only
        ],
        kwarg=ast.arg("__named"),
    )


def start_call(
    by_name: Function, values: Sequence[Any], keyword_only: Any, defaults: Any, *, rest: Any, named: Any
) -> Any:
    """The template of the first statements: binds what Python has not, and fills in defaults.

    Args:
        by_name: binds a call that names arguments or has too many.
        values: the positional arguments.
        keyword_only: the others, by name.
        defaults: the positional arguments that have one, each with its default.
        rest: further positional arguments.
        named: further named arguments.
    """
    if named or rest:
        return by_name(values, keyword_only, rest, named)
    for value, default in defaults:
        if value is MISSING:
            value = default
    return None


def end_call(decline: Function, values: Sequence[Any], keyword_only: Any) -> Any:
    """The template of the last statement, for calls that no block has served."""
    return decline(values, keyword_only)
