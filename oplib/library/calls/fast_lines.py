"""The lines of generated code that serve the common calls of one overload.

Arguments keep their names in generated code. All other names begin with two underscores. The name of a
variable that belongs to an argument contains the argument: ``__other_array``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from jax.core import Tracer

from oplib.autograd.nodes.locations import note_location
from oplib.autograd.recording.formula_node import NOBODY
from oplib.autograd.recording.rebase import note_write
from oplib.autograd.recording.record_pattern import Pattern
from oplib.autograd.saved.slots import pack_residuals
from oplib.config import config
from oplib.errors import OplibError
from oplib.generated_code import CodeWriter, render_tuple
from oplib.library.arguments.scalars import ARRAYS, to_operand, x64
from oplib.library.carrier.specialization import MAX_BITS
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.layout import place_like
from oplib.tensor.inference import InferenceStorage, InferenceTensor
from oplib.tensor.storage.escape import note_trace
from oplib.tensor.storage.fresh import LARGE
from oplib.tensor.storage.overlay import overlays
from oplib.tracebacks import CarriedError

from .derived_view import gives_views
from .fast_block import FastBlock, Input
from .fast_key import LISTS, freeze_ints, freeze_softly, freeze_tree
from .own_buffer import exchange_for_result

SHARED_OBJECTS: dict[str, Any] = {
    "__KEY_ERRORS": (TypeError, ValueError, OplibError),  # of an argument that cannot stand in a key
    "__LARGE": LARGE,
    "__LISTS": LISTS,
    "__NOBODY": NOBODY,
    "__SCALARS": ARRAYS,
    "__TENSORS": frozenset({Tensor, InferenceTensor}),
    "__config": config,
    "__modes": modes,
    "__new": object.__new__,
    "__overlays": overlays,
    "__x64": x64,
}
"""The objects that the lines of any overload may refer to."""
for _object in (
    *(CarriedError, InferenceStorage, InferenceTensor, Storage, Tensor, Tracer),
    *(float, int, isinstance, len, map, prod, str, type),  # an argument may have such a name
    *(
        exchange_for_result,
        freeze_ints,
        freeze_softly,
        freeze_tree,
        note_location,
        note_trace,
        note_write,
        pack_residuals,
        place_like,
        to_operand,
    ),
):
    SHARED_OBJECTS[f"__{_object.__name__}"] = _object
# the thread is in a trace, where user code has not switched recording off, and nothing else is to be seen
_IS_TRACED_ONLY = "(__state.watchers == 1 and __state.in_trace and __state.constant_in is None)"


def write_block(code: CodeWriter, block: FastBlock) -> None:
    """Writes the lines for the calls of an overload. A call that they do not serve continues after them."""
    for kind in block.list_kinds():
        with code.when(*kind.tests):
            _write_specialization(code, block, kind.key)
            with code.block("if __specialization is not None and __config.uses_fast_path:"):
                for name, items in kind.lists.items():
                    if items:
                        code.write(f"{render_tuple(items)} = {name}")
                _CallWriter(code, block, kind.inputs).write()
    if block.dispatcher.fast_key.lists:
        code.write("__renew()")


def _write_specialization(code: CodeWriter, block: FastBlock, key: Sequence[str]) -> None:
    find = code.refer(block.find, "find")
    if not block.dispatcher.fast_key.static:
        code.write(f"__specialization = {find}({render_tuple(key)})")
        return
    with code.block("try:"):
        code.write(f"__specialization = {find}((", *[f"    {items}," for items in key], "))")
    with code.block("except __KEY_ERRORS:"):
        code.write("__specialization = None")


class _CallWriter:
    """Writes the lines for calls of one kind whose specialization is known.

    Args:
        code: takes the lines.
        block: of the overload.
        inputs: the arrays of the compiled call.
    """

    def __init__(self, code: CodeWriter, block: FastBlock, inputs: Sequence[Input]) -> None:
        self._code = code
        self._block = block
        self._dispatcher = block.dispatcher
        self._inputs = inputs
        self._tensors = [argument for argument in inputs if not argument.numbers]
        self._has_long_list = any(argument.is_list for argument in inputs)

    def write(self) -> None:
        """Writes the lines for Tensors, and for arrays."""
        code, block = self._code, self._block
        for argument in self._inputs:
            if argument.numbers:
                self._write_operand(argument)
        if block.writes:
            with code.block(f"if {self._render_class_test('__Tensor')}:"):
                self._write_in_place()
            return
        array_test = self._render_class_test(code.refer(self._dispatcher.array_types, "ARRAY_TYPES"))
        if gives_views(self._dispatcher.record):  # the complete path makes views of Tensors
            head = f"if {array_test}:"
        else:
            classes = "__TENSORS" if block.in_inference else "__Tensor"
            with code.block(f"if {self._render_class_test(classes)}:"):
                self._write_tensor_call()
            head = f"elif {array_test}:"
        with code.block(head):
            arrays = [
                argument.array if argument.numbers else _spread(argument, argument.name)
                for argument in self._inputs
            ]
            self._write_return(self._call(arrays))

    def _write_operand(self, number: Input) -> None:
        """Writes what the compiled call gets for a number; None if the complete path has to look at it."""
        code, name, operand = self._code, number.name, number.array
        code.write(f"{operand} = None")
        tests = [f"{name}.__class__ is __{kind.__name__}" for kind in number.numbers]
        with code.block(f"if {' or '.join(tests)}:"):
            with code.block("if __overlays.current is None:"):
                code.write(f"{operand} = __SCALARS[__x64.value][{name}.__class__].get({name})")
            with code.block(f"if {operand} is None:"):
                code.write(f"{operand} = __to_operand({name})")

    def _render_class_test(self, classes: str) -> str:
        """Returns the test of whether all tensors have a class, and all numbers can be passed.

        Args:
            classes: the variable of the class or of a set of classes.
        """
        is_sole = classes == "__Tensor"
        list_test, test = (
            (f"== {{{classes}}}", f"is {classes}") if is_sole else (f"<= {classes}", f"in {classes}")
        )
        return " and ".join(
            f"{argument.array} is not None"
            if argument.numbers
            else f"{{*__map(__type, {argument.name})}} {list_test}"
            if argument.is_list
            else f"{argument.name}.__class__ {test}"
            for argument in self._inputs
        )

    def _write_tensor_call(self) -> None:
        """Writes a call on Tensors, which is recorded if a gradient is needed."""
        code = self._code
        if self._block.in_inference:
            self._write_return(self._box(self._call(self._read_arrays()), "Inference"))
            return
        code.write("__state = __modes.state")
        with code.block(f"if not __state.watchers or {_IS_TRACED_ONLY}:"):
            if self._tensors and self._dispatcher.record.derivative.constant is None:
                self._write_recorded_call()
            self._write_return(self._box(self._call(self._read_arrays())))

    def _read_arrays(self) -> list[str]:
        return [
            argument.array if argument.numbers else _spread(argument, _read(argument, "_storage.array"))
            for argument in self._inputs
        ]

    def _call(self, arrays: Sequence[str]) -> list[str]:
        """Returns the outputs of the compiled call; if there are several, the call is written first."""
        if self._block.result_count == 1:
            return [f"__specialization.run_one({', '.join(arrays)})"]
        self._code.write(f"__outputs = __specialization.run({', '.join(arrays)})[1]")
        return [f"__outputs[{index}]" for index in range(self._block.result_count)]

    def _box(self, outputs: Sequence[str], prefix: str = "") -> list[str]:
        """Writes Tensors around the outputs, as ``box`` does, and returns their variables."""
        for index, output in enumerate(outputs):
            storage, tensor = f"__storage{index or ''}", f"__tensor{index or ''}"
            self._code.write(
                f"{storage} = __new(__{prefix}Storage)",
                f"{storage}.array = {output}",
                f"{storage}.version = 0",
                f"{tensor} = __new(__{prefix}Tensor)",
                f"{tensor}._storage = {storage}",
            )
            if not prefix:  # an op may return a constant in a trace
                with self._code.block(
                    f"if __state.watchers and not __isinstance({storage}.array, __Tracer):"
                ):
                    self._code.write(f"{tensor}._trace = __note_trace(__state)")
        return [f"__tensor{index or ''}" for index in range(len(outputs))]

    def _write_return(self, results: Sequence[str]) -> None:
        self._code.write(f"return {results[0] if len(results) == 1 else render_tuple(results)}")

    # Recording ----------------------------------------------------------------------------------------------

    def _write_recorded_call(self) -> None:
        """Writes a call that needs a gradient: its node, if it is recorded in a known way."""
        code = self._code
        for tensor in self._tensors:
            code.write(f"{tensor.variable('needs_grad')} = {_read(tensor, '_requires_grad')}")
        needed = _any(
            f"True in {tensor.variable('needs_grad')}" if tensor.is_list else tensor.variable("needs_grad")
            for tensor in self._tensors
        )
        with code.block(f"if __state.grad_enabled and {needed}:"):
            code.write(f"__recorder = __specialization.{self._choose_recorder()}")
            for tensor in self._tensors:
                if tensor.is_list:
                    code.write(f"{tensor.array} = {_read(tensor, '_storage.array')}")
                    continue
                code.write(
                    f"{tensor.storage} = {tensor.name}._storage", f"{tensor.array} = {tensor.storage}.array"
                )
            arrays = [_spread(argument, argument.array) for argument in self._inputs]
            code.write(f"__result = __recorder({', '.join(arrays)})")
            code.write("__plan = __result[0]", "__pattern = __plan.pattern")
            for pattern in [] if self._has_long_list else self._dispatcher.patterns:
                if len(pattern.wanted) == len(self._inputs):
                    with code.block(f"if __pattern is {code.refer(pattern, 'PATTERN')}:"):
                        self._write_node(pattern)
            tensors = [
                "None" if argument.numbers else _spread(argument, argument.name) for argument in self._inputs
            ]
            block = code.refer(self._block, "block")
            code.write(
                f"return __record_new({block}, __result, {render_tuple(tensors)}, {render_tuple(arrays)})"
            )

    def _choose_recorder(self) -> str:
        """Returns the expression of the recorder: for few arrays its index has one bit per array."""
        flags = ["" if argument.numbers else argument.variable("needs_grad") for argument in self._inputs]
        if len(flags) > MAX_BITS or self._has_long_list:
            pairs = zip(self._inputs, flags, strict=True)
            return (
                f"recorders[{render_tuple([_spread(argument, flag or 'False') for argument, flag in pairs])}]"
            )
        return f"recorders_by_bits[{_add_bits([(flag, 1 << at) for at, flag in enumerate(flags) if flag])}]"

    def _write_node(self, pattern: Pattern) -> None:
        """Writes what ``formula_node.record`` does for calls that are recorded in the same way."""
        code, node_class = self._code, self._dispatcher.node_class
        tensors = self._box([f"__result[{index}]" for index in range(1, 1 + self._block.result_count)])
        code.write(f"__node = __new({code.refer(node_class, node_class.__name__)})", "__node.plan = __plan")
        self._write_edges(pattern)
        code.write("__node.sequence_nr = __state.sequence_nr", "__state.sequence_nr += 1")
        with code.block("if __config.record_lines and __state.locations:"):
            code.write("__note_location(__node, __state.run)")
        for index, tensor in enumerate(tensors):
            if pattern.differentiable[index]:
                code.write(f"{tensor}._requires_grad = True", f"{tensor}._grad_fn = __node")
                if index:
                    code.write(f"{tensor}._output_nr = {index}")
        if pattern.sources:
            self._write_residuals(pattern, tensors)
        self._write_return(tensors)

    def _write_edges(self, pattern: Pattern) -> None:
        """Writes the edges of a node, or its inputs if one of them is a leaf, as ``link_inputs`` does."""
        code = self._code
        inputs = ["None"] * len(self._inputs)
        edges = list(inputs)
        grad_fns: list[str] = []
        for index, argument in enumerate(self._inputs):
            if pattern.wanted[index]:
                grad_fn = argument.variable("grad_fn")
                grad_fns.append(grad_fn)
                code.write(f"{grad_fn} = {argument.name}._grad_fn")
                edges[index] = f"({grad_fn}, {argument.name}._output_nr)"
                is_only = sum(pattern.wanted) == 1
                inputs[index] = (
                    argument.name if is_only else f"{argument.name} if {grad_fn} is None else {edges[index]}"
                )
        with code.block(f"if {' or '.join(f'{grad_fn} is None' for grad_fn in grad_fns)}:"):
            code.write(f"__node.inputs = {render_tuple(inputs)}")
        with code.block("else:"):
            code.write(f"__node.edges = {render_tuple(edges)}")

    def _write_residuals(self, pattern: Pattern, outputs: Sequence[str]) -> None:
        """Writes what the node saves, as ``record`` does. The storages of outputs have version 0."""
        code, count = self._code, len(self._inputs)
        inputs = ", ".join(["None" if argument.numbers else argument.name for argument in self._inputs])
        arrays = ", ".join([argument.array for argument in self._inputs])
        with code.block("if __state.hook_pairs:"):
            code.write(
                f"__node.saved = __pack_residuals(__plan, ({arrays}, *__result[1:]), "
                f"({inputs}, {', '.join(outputs)}))"
            )
            self._write_return(outputs)
        values: list[str] = []
        storages: list[str] = []
        versions: list[str] = []
        for source in pattern.sources:
            argument = self._inputs[source] if source < count else None
            values.append(argument.array if argument else f"__result[{1 + source - count}]")
            storages.append(argument.storage if argument else f"__storage{source - count or ''}")
            versions.append(f"{argument.storage}.version" if argument and not argument.numbers else "0")
        code.write(f"__node.saved = {render_tuple([*values, *storages])}")
        if written := [version for version in versions if version != "0"]:
            with code.block(f"if {' or '.join(written)}:"):
                code.write(f"__node.versions = {render_tuple(versions)}")

    # Writing ------------------------------------------------------------------------------------------------

    def _write_in_place(self) -> None:
        """Writes a call whose result replaces the array of the first input.

        It serves calls in which that is no view, the call is not recorded, and the result has its shape and
        dtype: then nothing else is to be checked or kept.
        """
        code = self._code
        written = self._inputs[0].name
        needed = _any(f"{tensor.name}._requires_grad" for tensor in self._tensors)
        code.write(
            "__state = __modes.state",
            f"__storage = {written}._storage",
            "if (",
            "    __storage.__class__ is __Storage",
            f"    and {written}._root is None",
            f"    and {written}._read_only is None",
            "    and not __state.watchers",
            f"    and not (__state.grad_enabled and {needed})",
        )
        with code.block("):"):
            (output,) = self._call(["__array", *self._read_arrays()[1:]])
            code.write(
                "__array = __storage.array",
                f"__output = {output}",
                "if (",
                "    not __isinstance(__output, __Tracer)",
                "    and (",
                "        __output.aval is __array.aval",
                "        or (__output.shape == __array.shape and __output.dtype == __array.dtype)",
                "    )",
            )
            with code.block("):"):
                with code.block("if __array.committed:"):
                    code.write("__output = __place_like(__output, __array)")
                with code.block("if __prod(__output.aval.shape) >= __LARGE:"):
                    code.write("__is_done = __exchange_for_result(__storage, __array, __output)")
                # No other thread runs between these two lines, see Storage.exchange.
                with code.block("elif __is_done := __storage.array is __array:"):
                    code.write("__storage.array = __output", "__storage.version += 1")
                with code.block("if __is_done:"):
                    with code.block(f"if {written}._restricted_views is not None:"):
                        code.write(f"__note_write({written})")
                    code.write(f"return {written}")


def _read(argument: Input, attribute: str) -> str:
    """Returns the expression of an attribute of a tensor, or of those of all tensors of a list."""
    if argument.is_list:
        return f"[__one.{attribute} for __one in {argument.name}]"
    return f"{argument.name}.{attribute}"


def _spread(argument: Input, value: str) -> str:
    """Returns an expression among the items of a tuple; that of a list gives one item for each tensor."""
    return f"*{value}" if argument.is_list else value


def _any(tests: Iterable[str]) -> str:
    """Returns the test of whether one test is true, as an operand of ``and``."""
    joined = " or ".join(tests)
    return f"({joined})" if " or " in joined else joined


def _add_bits(flags: Sequence[tuple[str, int]], bits: int = 0) -> str:
    """Returns the sum of the bits whose flags are true, as an expression; at least one flag is true."""
    if not flags:
        return str(bits)
    (flag, bit), *others = flags
    if not (bits or others):
        return str(bit)
    return f"({_add_bits(others, bits | bit)} if {flag} else {_add_bits(others, bits)})"
