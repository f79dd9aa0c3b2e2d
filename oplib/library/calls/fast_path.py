"""The fast path: Python functions generated for the common calls.

They serve calls of compiled kernels whose arguments have the exact classes expected, in one world, and whose
specialization exists. All other calls go to :class:`.dispatch.Dispatcher`, which also fills the caches that
this code reads. The code comes from the template in :mod:`.fast_block`. It is written again when a call is
recorded in a new way, because it contains which inputs want gradients and which values are saved.

Python binds positional and keyword-only arguments, :mod:`.late_binding` binds all others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from oplib.autograd.recording.formula_node import record
from oplib.generated_code import compile_function, define_function, indent, write_function
from oplib.library.schema import Argument
from oplib.tracebacks import refine_error

from .derived_view import gives_views
from .dispatch import Dispatcher
from .fast_block import FastBlock, name_arguments, serve
from .late_binding import MISSING, LateBinding
from .unrolling import Code, Names, expand_template

Function = Callable[..., Any]
Parameter = tuple[Code, Argument]


class FastPath:
    """A generated function: first statements, then blocks that serve calls, then statements for all others.

    The blocks are written at the second call, so a function that is called once does not cost the time. They
    are written again when a call is recorded in a new way.

    Args:
        head: the name and the parameters of the function.
        given: the arguments of a call that passes them on.
        names: what the statements refer to.
        list_blocks: returns the blocks, each with the test of the calls that it serves; one without a test is
            the last.
        start: the first statements.
        end: the statements for a call that no block has served.
        place: the name of the code in tracebacks.
        in_inference: the function is for inference mode.

    Attributes:
        function: the generated function. It stays the same object when its code is written again.
    """

    def __init__(
        self,
        head: str,
        given: str,
        names: Names,
        list_blocks: Callable[[], Iterable[tuple[str, FastBlock]]],
        *,
        start: Sequence[str] = (),
        end: Sequence[str],
        place: str,
        in_inference: bool = False,
    ) -> None:
        self._head = head
        self._names = names
        self._list_blocks = list_blocks
        self._start = start
        self._end = end
        self._in_inference = in_inference
        self._is_called = self._is_written = False
        self._blocks: list[tuple[str, FastBlock]] | None = None
        self._expanded: dict[FastBlock, tuple[int, list[str]]] = {}
        self._writing = threading.RLock()
        lines = [f"if __is_prepared(): return __call({given})", *start, *end]
        used = names.objects
        used["__is_prepared"] = self._is_prepared
        self.function = define_function(write_function(head, lines), head.partition("(")[0], place, used)
        used["__call"] = self.function

    def _is_prepared(self) -> bool:
        """Writes the blocks, and returns whether they are written, so that a call has to begin again."""
        with self._writing:
            if self._is_called and not self._is_written:
                blocks = list(self._list_blocks())
                for _, block in blocks:
                    block.record_new = partial(self._record_new, block)
                    block.renew = partial(self._renew, block)
                self._blocks = blocks
                self._rewrite(blocks)
                self._is_written = True  # last: an interrupt may come at any line
            self._is_called = True
            return self._is_written

    def _rewrite(self, blocks: Sequence[tuple[str, FastBlock]]) -> None:
        """Replaces the code of the function. Calls that run now finish with the code that they began."""
        served: list[str] = []
        for test, block in blocks:
            lines = self._expand(block)
            if test:
                served += [f"{'elif' if served else 'if'} {test}:", *indent(lines)]
            else:
                served += ["else:", *indent(lines)] if served else lines
        source = write_function(self._head, [*self._start, *served, *self._end])
        function: Any = self.function
        function.__code__ = compile_function(source, function.__code__.co_filename)

    def _expand(self, block: FastBlock) -> list[str]:
        """Returns the lines of a block, which change when a pattern or the length of a list is added."""
        count, lines = self._expanded.get(block, (-1, []))
        if count < block.size:
            count = block.size
            lines = expand_template(serve, self._names, block=block, in_inference=self._in_inference)
            self._expanded[block] = count, lines
        return lines

    def _renew(self, block: FastBlock) -> None:
        """Writes the code again if there are patterns or lengths of lists that it does not serve."""
        if self._blocks is not None and self._expanded[block][0] < block.size:
            with self._writing:
                self._rewrite(self._blocks)

    def _record_new(self, block: FastBlock, result: Any, tensors: Any, arrays: Any) -> Any:
        """Records a call as the complete path does, and writes code for the next one of its pattern."""
        dispatcher = block.dispatcher
        dispatcher.add_pattern(result[0])
        self._renew(block)
        boxed = record(dispatcher.node_class, *_take_views(result, tensors, arrays))
        return boxed[0] if block.count == 1 else tuple(boxed)


def _take_views(result: Any, tensors: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Puts the arrays of views that a recorder has returned in place of its operands."""
    viewed = result[0].viewed
    values = list(arrays)
    first = len(result) - len(viewed)
    for place, array in zip(viewed, result[first:], strict=True):
        values[place] = tensors[place]._storage.keep(values[place], array)
    return result[:first], tensors, values


def _make_complete_call(dispatcher: Dispatcher) -> Function:
    """Returns the call of an overload without a fast path: an entry point without a frame of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return dispatcher.call(args, kwargs)
        except Exception as error:
            if better := refine_error(error, dispatcher.name):
                raise better from error
            raise

    return call


def make_fast_call(dispatcher: Dispatcher) -> Function:
    """Returns the function that a call of the overload runs."""
    if not dispatcher.is_fast:
        return _make_complete_call(dispatcher)
    binding = LateBinding(dispatcher.schema.arguments, dispatcher.call)
    make = partial(_make_function, dispatcher, binding)
    binding.call = make(binding.decline)
    if not gives_views(dispatcher.record):  # in inference mode too, a view of an ordinary tensor is ordinary
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
    names = Names({})
    pairs = list(zip(name_arguments(dispatcher.schema), dispatcher.schema.arguments, strict=True))
    positional = [(name, one) for name, one in pairs if not one.kwarg_only]
    keyword_only = [(name, one) for name, one in pairs if one.kwarg_only]
    given = {
        "values": [value for value, _ in positional],
        "keyword_only": Code(f"{{{', '.join(f'{one.name!r}: {value}' for value, one in keyword_only)}}}"),
    }
    start = expand_template(
        start_call,
        names,
        by_name=binding.by_name,
        defaults=[(value, one.default_value) for value, one in positional if one.has_default_value()],
        rest=Code("__rest"),
        named=Code("__named"),
        **given,
    )
    end = expand_template(end_call, names, decline=decline, **given)
    given_by_name = [f"{value}={value}" for value, _ in keyword_only]
    return FastPath(
        f"call({_spell_parameters(names, positional, keyword_only)})",
        ", ".join([*given["values"], "*__rest", *given_by_name, "**__named"]),
        names,
        lambda: [("", FastBlock(dispatcher))],
        start=start,
        end=end,
        place=f"<call of {dispatcher.name}>",
        in_inference=in_inference,
    ).function


def _spell_parameters(
    names: Names, positional: Sequence[Parameter], keyword_only: Sequence[Parameter]
) -> str:
    missing = names.refer(MISSING, "MISSING")
    defaults = [
        names.refer(one.default_value, "default") if one.has_default_value() else missing
        for _, one in keyword_only
    ]
    declared = [
        *[f"{value}={missing}" for value, _ in positional],
        *(["/"] if positional else []),
        "*__rest",
        *[f"{value}={default}" for (value, _), default in zip(keyword_only, defaults, strict=True)],
        "**__named",
    ]
    return ", ".join(declared)


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
