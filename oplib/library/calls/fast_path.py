"""The short cut: Python code generated for the calls that need no care.

It serves compiled kernels whose arguments are all there, of the exact classes expected, in one world, and
whose specialization exists. Everything else goes to :class:`.dispatch.Dispatcher`, which also fills the
caches that this code reads. The code of a function is written anew when a call of it has been recorded in a
way that it does not know yet: what is saved, and of whose gradients, is then no question any more.

Positional and keyword-only arguments are bound by Python itself, others by :mod:`.late_binding`. Parameters
have the names of the schema, and every other name in the generated text begins with two underscores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from oplib.autograd.recording.formula_node import NOBODY, record
from oplib.autograd.recording.origins import note_origin
from oplib.autograd.recording.record_pattern import find_pattern
from oplib.config import config
from oplib.generated_code import compile_function, define_function
from oplib.library.arguments.scalars import ARRAYS, to_operand, x64
from oplib.library.schema import Argument
from oplib.modes import ModeState, modes
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.inference import InferenceStorage, InferenceTensor, mark_inference
from oplib.tracebacks import hide_frames

from .dispatch import Dispatcher
from .fast_block import FastBlock
from .late_binding import MISSING, LateBinding

MAX_PATTERNS = 8  # each adds a dozen lines


class ShortCut:
    """A generated function: lines that begin it, blocks that serve what they can, and a line for the rest.

    Args:
        head: the first lines.
        tail: the last lines, which are reached by what no block has served.
        namespace: what head and tail refer to.
        place: the name of the code in tracebacks.

    Attributes:
        function: what is called; it stays the same object when its code is written anew.
    """

    function: Callable[..., Any]

    def __init__(
        self, head: Sequence[str], tail: Sequence[str], namespace: dict[str, Any], place: str
    ) -> None:
        self._head = list(head)
        self._tail = tail
        self._namespace = {**_SHARED, **namespace}
        self._place = place
        self._blocks: list[tuple[str, FastBlock]] = []
        self._writing = threading.Lock()

    def add(self, dispatcher: Dispatcher, block: FastBlock, test: str = "") -> None:
        """Adds the block of an overload, for the calls that pass a test; without one it stands last."""
        number = block.number
        self._namespace |= {
            f"__find{number}": dispatcher.fast_keys.get,
            f"__array_types{number}": dispatcher.array_types,
            f"__node_class{number}": dispatcher.node_class,
            f"__learn{number}": partial(self._learn, dispatcher, block),
            **block.key.names_used,
        }
        self._blocks.append((test, block))

    def text(self) -> str:
        """Returns the whole function."""
        lines = list(self._head)
        word = "if"
        for test, block in self._blocks:
            own = block.lines()
            if test:
                lines += [f"    {word} {test}:", *[f"        {line}" for line in own]]
                word = "elif"
            elif word == "elif":
                lines += ["    else:", *[f"        {line}" for line in own]]
            else:
                lines += [f"    {line}" for line in own]
        return "\n".join([*lines, *self._tail])

    def define(self) -> Callable[..., Any]:
        """Makes the function."""
        name = self._head[0].removeprefix("def ").partition("(")[0]
        self.function = define_function(self.text(), name, self._place, self._namespace)
        return self.function

    def drop_line(self, line: str) -> None:
        """Takes a line out of the head, and writes the function anew."""
        self._head.remove(line)
        self.rewrite()

    def rewrite(self) -> None:
        """Gives the function the code of the text as it is now; calls that are running finish the old one."""
        function: Any = self.function
        function.__code__ = compile_function(self.text(), self._place)

    def define_quiet(self, slow: Callable[..., Any]) -> Callable[..., Any]:
        """Makes the function for inference mode, where nothing is recorded and results are of another class.

        Args:
            slow: where it goes on with what it does not serve.
        """
        namespace = {**self._namespace, **_QUIET, "__slow": slow}
        return define_function(self.text().replace(_EXACTLY, _EITHER), "__call", self._place, namespace)

    def _learn(self, dispatcher: Dispatcher, block: FastBlock, result: Any, tensors: Any, arrays: Any) -> Any:
        """Records a call in the complete way, and writes down how it is done for the next one of its kind."""
        pattern = find_pattern(result[0])
        if pattern is not None:
            with self._writing:
                count = len(block.patterns)
                if pattern not in block.patterns and count < MAX_PATTERNS:
                    self._namespace[f"__k{block.number}_{count}"] = pattern
                    block.patterns.append(pattern)
                    self.rewrite()
        return record(dispatcher.node_class, result, tensors, arrays)[0]


def _make_complete_call(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Returns the call of an overload without a fast path: an entry point without a frame of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return dispatcher.call(args, kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return call


def make_fast_call(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Returns the function that a call of the overload runs."""
    if not dispatcher.is_fast:
        return _make_complete_call(dispatcher)
    block = FastBlock(dispatcher.record)
    binding = LateBinding(dispatcher.schema.arguments, dispatcher.call)
    head, tail = _spell_any_call(block)
    defaults = {
        f"__d{place}": argument.default_value
        for place, argument in enumerate(dispatcher.schema.arguments)
        if argument.has_default_value()
    }
    bound = {"__MISSING": MISSING, "__by_name": binding.by_name, "__slow": binding.slow}
    short_cut = ShortCut(head, tail, bound | defaults, f"<call of {dispatcher.name}>")
    short_cut.add(dispatcher, block)
    binding.call = short_cut.define()
    if not block.is_view:  # views of ordinary tensors stay ordinary ones
        binding.make_quiet = partial(short_cut.define_quiet, binding.complete)
    return binding.call


def _spell_any_call(block: FastBlock) -> tuple[list[str], list[str]]:
    """First and last lines that take whatever is given, so that it is the schema that refuses."""
    pairs = block.pairs
    positional = [name for name, argument in pairs if not argument.kwarg_only]
    keyword_only = [(place, *pair) for place, pair in enumerate(pairs) if pair[1].kwarg_only]
    parameters = [
        *[f"{name}=__MISSING" for name in positional],
        *(["/"] if positional else []),
        "*__rest",
        *[f"{name}={_spell_default(place, argument)}" for place, name, argument in keyword_only],
        "**__named",
    ]
    by_keyword = ", ".join(f"{argument.name!r}: {name}" for _, name, argument in keyword_only)
    given = f"({''.join(f'{name}, ' for name in positional)}), {{{by_keyword}}}"
    defaults = [
        f"    if {name} is __MISSING: {name} = __d{place}"
        for place, (name, argument) in enumerate(pairs)
        if argument.has_default_value() and not argument.kwarg_only
    ]
    head = [
        f"def __call({', '.join(parameters)}):",
        f"    if __named or __rest: return __by_name({given}, __rest, __named)",
        *defaults,
    ]
    return head, [f"    return __slow({given})"]


def _spell_default(place: int, argument: Argument) -> str:
    return f"__d{place}" if argument.has_default_value() else "__MISSING"


def _box_inference(array: Any) -> Tensor:
    return mark_inference(box(array))


def _make_quiet_modes() -> SimpleNamespace:
    state = ModeState()
    state.grad_enabled = False
    return SimpleNamespace(state=state)


_SHARED: dict[str, Any] = {
    "__Storage": Storage,
    "__Tensor": Tensor,
    "__box": box,
    "__config": config,
    "__modes": modes,
    "__new": object.__new__,
    "__nobody": NOBODY,
    "__note": note_origin,
    "__numbers": ARRAYS,
    "__record": record,
    "__to_operand": to_operand,
    "__x64": x64,
}
# The same text in inference mode: what it makes are inference tensors.
_EXACTLY, _EITHER = ".__class__ is __Tensor", ".__class__ in __tensor_classes"
_QUIET: dict[str, Any] = {
    "__Storage": InferenceStorage,
    "__Tensor": InferenceTensor,
    "__box": _box_inference,
    "__modes": _make_quiet_modes(),
    "__tensor_classes": frozenset((Tensor, InferenceTensor)),
}
