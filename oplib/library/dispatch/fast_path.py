"""The fast path: Python functions generated for the common calls.

They serve calls of compiled kernels whose arguments have the exact classes expected, all Tensors or all
arrays, and whose specialization exists. All other calls go to :class:`.dispatch.Dispatcher`, which also fills
the caches that this code reads. :mod:`.fast_lines` writes the lines for one overload. They contain which
inputs want gradients and which values are saved, so they are written again when a call is recorded in a new
way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter
from types import CodeType
from typing import Any
from weakref import ref

from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.recording.formula_node import record
from oplib.generated_code import (
    compile_function,
    define_function,
    fill_template,
    indent,
    register_source,
    render_parameters,
    write_function,
)
from oplib.tensor.devices.forked import is_orphan

from .fast_block import FastBlock
from .fast_lines import SHARED_OBJECTS, render_block

_RELEASING = ("except __CarriedError as __carried:", "    __carried.release()")


class FastPath:
    """A generated function: first statements, then blocks that serve calls, then statements for all others.

    The blocks are written at the second call, so a function that is called once does not cost the time. They
    are written again when a call is recorded in a new way, and listed again after :meth:`forget`.

    Args:
        name: of the function.
        parameters: its parameters. A statement refers to the default of ``x`` as ``__d_x``.
        objects: what the statements refer to besides, by name.
        list_blocks: returns the blocks, each with the test of the calls that it serves. An empty test is
            true; only the last block may have one.
        start: the first statements.
        end: the statements for a call that no block has served.
        filename: the name of the code in tracebacks.

    Attributes:
        function: the generated function. It stays the same object when its code is written again.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[Parameter],
        objects: dict[str, Any],
        list_blocks: Callable[[], Iterable[tuple[str, FastBlock]]],
        *,
        start: Sequence[str] = (),
        end: Sequence[str],
        filename: str,
    ) -> None:
        text = render_parameters(parameters)
        self._head = f"{name}{text.declared}"
        self._list_blocks = list_blocks
        self._start = start
        self._end = end
        self._blocks: list[tuple[str, FastBlock]] = []
        self._size = 0
        self._is_called = self._is_current = False
        self._writing = threading.RLock()
        self._written: list[ref[CodeType]] = []
        self._objects = {
            **SHARED_OBJECTS,
            **text.defaults,
            **objects,
            "__is_prepared": self._is_prepared,
            "__record_new": self._record_new,
            "__renew": self._renew,
        }
        lines = [f"if __is_prepared(): return __call({text.passed})", *start, *end]
        self._first_source = write_function(self._head, lines)
        self.function = define_function(self._first_source, name, filename, self._objects)
        self._objects["__call"] = self.function
        self._first_code = self.function.__code__
        self._lasting: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Lets the next call list and write the blocks anew, because an overload has got another record.

        It takes no lock: code that writes blocks waits for the registry, which its caller may hold.
        """
        function: Any = self.function
        register_source(self._first_source, self._first_code.co_filename)
        # No other thread runs between these two lines, see Storage.exchange.
        self._is_current = False
        function.__code__ = self._first_code

    def _is_prepared(self) -> bool:
        """Writes the blocks, and returns whether they are written, so that a call has to begin again."""
        if is_orphan():
            return False  # no op runs, and a thread that does not exist may hold the lock
        with self._writing:
            if self._is_called and self.function.__code__ is self._first_code:
                self._is_current = True  # until `forget`
                self._blocks = list(self._list_blocks())
                self._write()
            self._is_called = True
            return self.function.__code__ is not self._first_code

    def _write(self) -> None:
        """Replaces the code of the function. Calls that run now finish with the code that they began."""
        size = self._measure()  # first: other threads add kinds of calls
        self._drop_objects()
        parts: list[str] = []
        for number, (test, block) in enumerate(self._blocks):
            lines = render_block(self._objects, block)
            head = f"{'elif' if number else 'if'} {test}:" if test else "else:" if number else ""
            parts.append(fill_template(f"{head}\n    {{lines}}", lines=lines or "pass") if head else lines)
        lines = [*self._start, *"\n".join(parts).splitlines(), *self._end]
        function: Any = self.function
        source = write_function(self._head, ["try:", *indent(lines), *_RELEASING])
        written = compile_function(source, function.__code__.co_filename)
        self._written.append(ref(written))
        if self._is_current:
            function.__code__ = written
        self._size = size

    def _drop_objects(self) -> None:
        """Drops the objects of former code, such as the compiled calls of a former record.

        A frame holds its code, so code that is gone runs in no thread.
        """
        self._lasting = self._lasting or frozenset(self._objects)  # before any code was written
        alive = pick_given(one() for one in self._written)
        self._written = list(map(ref, alive))
        for name in self._objects.keys() - self._lasting.union(*[code.co_names for code in alive]):
            del self._objects[name]

    def _measure(self) -> int:
        return sum(block.size for _, block in self._blocks)

    def _renew(self) -> None:
        """Writes the code again if there are kinds of calls that it does not serve."""
        if self._size < self._measure():
            with self._writing:
                self._write()

    def _record_new(
        self, block: FastBlock, result: Any, tensors: Sequence[Any], arrays: Sequence[Any]
    ) -> Any:
        """Records a call as the complete path does, and writes code for the next one that is recorded so.

        Args:
            block: of the overload.
            result: of the recorder: the plan and the outputs.
            tensors: the inputs; None for each that is no Tensor.
            arrays: their arrays.
        """
        block.dispatcher.add_pattern(result[0])
        self._renew()
        results = record(block.dispatcher.node_class, result, tensors, arrays)
        return results[0] if len(results) == 1 else tuple(results)
