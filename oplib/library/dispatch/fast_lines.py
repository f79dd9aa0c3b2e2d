"""The lines of generated code that serve the common calls of one overload.

Arguments keep their names in generated code. All other names begin with two underscores. The name of a
variable that belongs to an argument contains the argument: ``__other_array``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from jax.core import Tracer

from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.nodes.locations import note_location
from oplib.autograd.recording.formula_node import NOBODY
from oplib.autograd.recording.rebase import note_write
from oplib.autograd.recording.record_pattern import Pattern
from oplib.autograd.saved_tensors.slots import pack_residuals
from oplib.config import config
from oplib.errors import OplibError
from oplib.generated_code import fill_template, refer, render_tuple
from oplib.library.arguments.scalars import ARRAYS, to_operand, x64
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.layout import place_like
from oplib.tensor.inference import InferenceStorage, InferenceTensor
from oplib.tensor.storage.escape import note_trace
from oplib.tensor.storage.fresh import LARGE
from oplib.tensor.storage.overlay import overlays
from oplib.tensor.views import ViewStorage
from oplib.tracebacks import CarriedError

from .derived_view import gives_views
from .fast_block import CallKind, FastBlock, Input
from .fast_key import KEY_OBJECTS, LISTS
from .own_buffer import exchange_for_result
from .view_write import record_in_view

SHARED_OBJECTS: dict[str, Any] = {
    **KEY_OBJECTS,
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
    *(CarriedError, InferenceStorage, InferenceTensor, Storage, Tensor, Tracer, ViewStorage),
    *(float, isinstance, map, prod, type),  # an argument may have such a name
    *(
        exchange_for_result,
        note_location,
        note_trace,
        note_write,
        pack_residuals,
        place_like,
        record_in_view,
        to_operand,
    ),
):
    SHARED_OBJECTS[f"__{_object.__name__}"] = _object
# the thread is in a trace, where user code has not switched recording off, and nothing else is to be seen
_IS_TRACED_ONLY = "(__state.watchers == 1 and __state.in_trace and __state.constant_in is None)"

_FIND = "__specialization = {find}({key})"
_FIND_STATIC = """
try:
    __specialization = {find}({key})
except __KEY_ERRORS:
    __specialization = None
"""
_KIND = """
{find}
if __specialization is not None and __config.uses_fast_path:
    {items}
    {operands}
    {calls}
"""
_WHEN = """
if {tests}:
    {lines}
"""
# What the compiled call gets for a number; None if the complete path has to look at it.
_OPERAND = """
{operand} = None
if {is_number}:
    if __overlays.current is None:
        {operand} = __SCALARS[__x64.value][{name}.__class__].get({name})
    if {operand} is None:
        {operand} = __to_operand({name})
"""
_ON_ARRAYS = """
if {are_arrays}:
    {array_call}
"""
_ON_BOTH = """
if {are_tensors}:
    {tensor_call}
elif {are_arrays}:
    {array_call}
"""
_ON_TENSORS = """
__state = __modes.state
if not __state.watchers or {is_traced_only}:
    {recorded}
    {call}
"""
_BOX = """
{storage} = __new(__{kind}Storage)
{storage}.array = {output}
{storage}.version = 0
{tensor} = __new(__{kind}Tensor)
{tensor}._storage = {storage}
"""
_BOX_TRACED = """
if __state.watchers and not __isinstance({storage}.array, __Tracer):
    {tensor}._trace = __note_trace(__state)
"""  # an op may return a constant in a trace
_RECORDED = """
{flags}
if __state.grad_enabled and {needed}:
    __recorder = __specialization.recorders[{wanted}]
    {reads}
    __result = __recorder({operands})
    __plan = __result[0]
    __pattern = __plan.pattern
    {nodes}
    return __record_new({block}, __result, {tensors}, {arrays})
"""
# What ``formula_node.record`` and ``link_inputs`` do for calls that are recorded in the same way. The
# storages of outputs have version 0.
_NODE = """
if __pattern is {pattern}:
    {boxes}
    __node = __new({node_class})
    __node.plan = __plan
    {grad_fns}
    if {has_leaf}:
        __node.inputs = {inputs}
    else:
        __node.edges = {edges}
    __node.sequence_nr = __state.sequence_nr
    __state.sequence_nr += 1
    if __config.record_lines and __state.locations:
        __note_location(__node, __state.run)
    {histories}
    {residuals}
    return {results}
"""
_HISTORY = """
{tensor}._requires_grad = True
{tensor}._grad_fn = __node
"""
_RESIDUALS = """
if __state.hook_pairs:
    __node.saved = __pack_residuals(__plan, ({arrays}, *__result[1:]), ({inputs}, {outputs}))
    return {results}
__node.saved = {saved}
"""
_VERSIONS = """
if {are_any}:
    __node.versions = {versions}
"""
# A call whose result replaces the array of the first input, or a part of the array of its base. It serves
# calls that are not recorded, whose result has the shape and dtype of the input: then nothing else is to be
# checked or kept. Of the others it serves those on views.
# No other thread runs between the two lines that write, see Storage.exchange.
_IN_PLACE = """
if {are_tensors}:
    __state = __modes.state
    __storage = {written}._storage
    __view = None
    __root = {written}
    if __storage.__class__ is __ViewStorage and {written}._root is not None:
        __view, __root, __storage = __storage, {written}._root, __storage.base
    if (
        __storage.__class__ is __Storage
        and __root._root is None
        and {written}._read_only is None
        and not __state.watchers
        and (__view is not None or not (__state.grad_enabled and {needed}))
    ):
        __array = __storage.array
        if __view is None:
            __output = __specialization.run_one({operands})
        elif __state.grad_enabled and {needed}:
            __output = __record_in_view(__specialization, {node_class}, {tensors}, {operands})
            if __output is {written}:
                return {written}
        else:
            __output = __specialization.run_in_view(__view, None, {operands})
        if (
            __output is not None
            and not __isinstance(__output, __Tracer)
            and (
                __output.aval is __array.aval
                or (__output.shape == __array.shape and __output.dtype == __array.dtype)
            )
        ):
            if __array.committed:
                __output = __place_like(__output, __array)
            if __prod(__output.aval.shape) >= __LARGE:
                __is_done = __exchange_for_result(__storage, __array, __output)
            elif __is_done := __storage.array is __array:
                __storage.array = __output
                __storage.version += 1
            if __is_done:
                if __root._restricted_views is not None:
                    __note_write(__root)
                return {written}
"""


def render_block(objects: dict[str, Any], block: FastBlock) -> str:
    """Returns the lines for the calls of an overload. A call that they do not serve continues after them.

    Args:
        objects: the objects that the lines refer to, by name; more are added.
        block: of the overload.
    """
    parts = [_render_kind(objects, block, kind) for kind in block.list_kinds()]
    return "\n".join([*parts, *(["__renew()"] if block.dispatcher.fast_key.lists else [])])


def _render_kind(objects: dict[str, Any], block: FastBlock, kind: CallKind) -> str:
    find = refer(objects, block.find, "find")
    lines = fill_template(
        _KIND,
        find=fill_template(
            _FIND_STATIC if block.dispatcher.fast_key.static else _FIND, find=find, key=render_tuple(kind.key)
        ),
        items="\n".join(f"{render_tuple(items)} = {name}" for name, items in kind.lists.items() if items),
        operands="\n".join(_render_operand(number) for number in kind.inputs if number.numbers),
        calls=_CallLines(objects, block, kind.inputs).render(),
    )
    return fill_template(_WHEN, tests=" and ".join(kind.tests), lines=lines) if kind.tests else lines


def _render_operand(number: Input) -> str:
    tests = [f"{number.name}.__class__ is __{kind.__name__}" for kind in number.numbers]
    return fill_template(_OPERAND, operand=number.array, name=number.name, is_number=" or ".join(tests))


class _CallLines:
    """The lines for calls of one kind whose specialization is known.

    Args:
        objects: the objects that the lines refer to, by name; more are added.
        block: of the overload.
        inputs: the arrays of the compiled call.
    """

    def __init__(self, objects: dict[str, Any], block: FastBlock, inputs: Sequence[Input]) -> None:
        self._objects = objects
        self._block = block
        self._dispatcher = block.dispatcher
        self._inputs = inputs
        self._tensors = [argument for argument in inputs if not argument.numbers]
        self._has_long_list = any(argument.is_list for argument in inputs)
        count = block.result_count
        self._storages = [f"__storage{index or ''}" for index in range(count)]
        self._results = [f"__tensor{index or ''}" for index in range(count)]

    def render(self) -> str:
        """Returns the lines for Tensors, and for arrays."""
        block = self._block
        if block.writes:
            return self._render_in_place()
        arrays = [one.array if one.numbers else _spread(one, one.name) for one in self._inputs]
        call, outputs = self._call(arrays)
        array_types = refer(self._objects, self._dispatcher.array_types, "ARRAY_TYPES")
        on_arrays = {
            "are_arrays": self._render_class_test(array_types),
            "array_call": f"{call}\nreturn {_join(outputs)}",
        }
        if gives_views(self._dispatcher.record):  # the complete path makes views of Tensors
            return fill_template(_ON_ARRAYS, **on_arrays)
        classes = "__TENSORS" if block.in_inference else "__Tensor"
        tensor_call = self._render_tensor_call()
        return fill_template(
            _ON_BOTH, are_tensors=self._render_class_test(classes), tensor_call=tensor_call, **on_arrays
        )

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

    def _render_tensor_call(self) -> str:
        """Returns a call on Tensors, which is recorded if a gradient is needed."""
        before, outputs = self._call(self._read_arrays())
        kind = "Inference" if self._block.in_inference else ""
        call = f"{before}\n{self._box(outputs, kind)}\nreturn {_join(self._results)}"
        if kind:
            return call
        is_recorded = self._tensors and self._dispatcher.record.derivative.constant is None
        recorded = self._render_recorded_call() if is_recorded else ""
        return fill_template(_ON_TENSORS, is_traced_only=_IS_TRACED_ONLY, recorded=recorded, call=call)

    def _read_arrays(self) -> list[str]:
        return [
            argument.array if argument.numbers else _spread(argument, _read(argument, "_storage.array"))
            for argument in self._inputs
        ]

    def _call(self, arrays: Sequence[str]) -> tuple[str, list[str]]:
        """Returns what is written before the outputs of the compiled call are read, and the outputs."""
        passed, count = ", ".join(arrays), self._block.result_count
        if count == 1:
            return "", [f"__specialization.run_one({passed})"]
        outputs = [f"__outputs[{index}]" for index in range(count)]
        return f"__outputs = __specialization.run({passed})[1]", outputs

    def _box(self, outputs: Sequence[str], kind: str = "") -> str:
        """Returns the lines that put Tensors around outputs, as ``box`` does."""
        template = _BOX if kind else _BOX + _BOX_TRACED.lstrip()
        return "\n".join(
            fill_template(template, storage=storage, tensor=tensor, output=output, kind=kind)
            for storage, tensor, output in zip(self._storages, self._results, outputs, strict=True)
        )

    # Recording ----------------------------------------------------------------------------------------------

    def _render_recorded_call(self) -> str:
        """Returns a call that needs a gradient: its node, if it is recorded in a known way."""
        flags = {tensor.variable("needs_grad"): tensor for tensor in self._tensors}
        arrays = [_spread(argument, argument.array) for argument in self._inputs]
        patterns = [] if self._has_long_list else self._dispatcher.patterns
        return fill_template(
            _RECORDED,
            flags="\n".join(f"{flag} = {_read(tensor, '_requires_grad')}" for flag, tensor in flags.items()),
            needed=_any(f"True in {flag}" if tensor.is_list else flag for flag, tensor in flags.items()),
            wanted=render_tuple(
                ["False" if one.numbers else _spread(one, one.variable("needs_grad")) for one in self._inputs]
            ),
            reads="\n".join(map(_read_storage, self._tensors)),
            operands=", ".join(arrays),
            nodes="\n".join(
                self._render_node(pattern) for pattern in patterns if len(pattern.wanted) == len(self._inputs)
            ),
            block=refer(self._objects, self._block, "block"),
            tensors=self._list_tensors(),
            arrays=render_tuple(arrays),
        )

    def _render_node(self, pattern: Pattern) -> str:
        """Returns the lines of a call that is recorded in a known way."""
        wanted = pick_true(self._inputs, pattern.wanted)
        pairs = [f"({one.variable('grad_fn')}, {one.name}._output_nr)" for one in wanted]
        inputs = [
            f"{one.name} if {one.variable('grad_fn')} is None else {pair}"
            for one, pair in zip(wanted, pairs, strict=True)
        ]
        others = ["None"] * len(self._inputs)
        histories = [
            fill_template(_HISTORY, tensor=tensor) + (f"\n{tensor}._output_nr = {index}" if index else "")
            for index, tensor in enumerate(self._results)
            if pattern.differentiable[index]
        ]
        node_class = self._dispatcher.node_class
        return fill_template(
            _NODE,
            pattern=refer(self._objects, pattern, "PATTERN"),
            boxes=self._box([f"__result[{index}]" for index in range(1, 1 + self._block.result_count)]),
            node_class=refer(self._objects, node_class, node_class.__name__),
            grad_fns="\n".join(f"{one.variable('grad_fn')} = {one.name}._grad_fn" for one in wanted),
            has_leaf=" or ".join(f"{one.variable('grad_fn')} is None" for one in wanted),
            inputs=render_tuple(
                spread([wanted[0].name] if len(wanted) == 1 else inputs, pattern.wanted, others)
            ),
            edges=render_tuple(spread(pairs, pattern.wanted, others)),
            histories="\n".join(histories),
            residuals=self._render_residuals(pattern) if pattern.sources else "",
            results=_join(self._results),
        )

    def _render_residuals(self, pattern: Pattern) -> str:
        """Returns what the node saves: values and their storages, and the versions of those that have one."""
        count = len(self._inputs)
        values = [
            *(one.array for one in self._inputs),
            *(f"__result[{1 + at}]" for at in range(self._block.result_count)),
        ]
        storages = [*(one.storage for one in self._inputs), *self._storages]
        versions = [
            f"{storages[source]}.version" if source < count and not self._inputs[source].numbers else "0"
            for source in pattern.sources
        ]
        saved = fill_template(
            _RESIDUALS,
            arrays=", ".join(values[:count]),
            inputs=", ".join(["None" if argument.numbers else argument.name for argument in self._inputs]),
            outputs=", ".join(self._results),
            results=_join(self._results),
            saved=render_tuple([kind[source] for kind in (values, storages) for source in pattern.sources]),
        )
        written = [version for version in versions if version != "0"]
        if not written:
            return saved
        noted = fill_template(_VERSIONS, are_any=" or ".join(written), versions=render_tuple(versions))
        return f"{saved}\n{noted}"

    # Writing ------------------------------------------------------------------------------------------------

    def _render_in_place(self) -> str:
        """Returns a call whose result replaces the array of the first input."""
        node_class = self._dispatcher.node_class
        return fill_template(
            _IN_PLACE,
            are_tensors=self._render_class_test("__Tensor"),
            written=self._inputs[0].name,
            needed=_any(f"{tensor.name}._requires_grad" for tensor in self._tensors),
            operands=", ".join(["__array", *self._read_arrays()[1:]]),
            node_class=refer(self._objects, node_class, node_class.__name__),
            tensors=self._list_tensors(),
        )

    def _list_tensors(self) -> str:
        """Returns the tensors of a call as a tuple, with None for numbers."""
        return render_tuple(
            ["None" if argument.numbers else _spread(argument, argument.name) for argument in self._inputs]
        )


def _read(argument: Input, attribute: str) -> str:
    """Returns the expression of an attribute of a tensor, or of those of all tensors of a list."""
    if argument.is_list:
        return f"[__one.{attribute} for __one in {argument.name}]"
    return f"{argument.name}.{attribute}"


def _read_storage(tensor: Input) -> str:
    """Returns the lines that read the storage and the array of a tensor; of a list the arrays alone."""
    if tensor.is_list:
        return f"{tensor.array} = {_read(tensor, '_storage.array')}"
    return f"{tensor.storage} = {tensor.name}._storage\n{tensor.array} = {tensor.storage}.array"


def _spread(argument: Input, value: str) -> str:
    """Returns an expression among the items of a tuple; that of a list gives one item for each tensor."""
    return f"*{value}" if argument.is_list else value


def _join(results: Sequence[str]) -> str:
    return results[0] if len(results) == 1 else render_tuple(results)


def _any(tests: Iterable[str]) -> str:
    """Returns the test of whether one test is true, as an operand of ``and``."""
    joined = " or ".join(tests)
    return f"({joined})" if " or " in joined else joined
