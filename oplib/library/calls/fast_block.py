"""The fast path of one overload: :func:`serve` is the template, :class:`FastBlock` fills it in."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.core import Tracer

from oplib.autograd.recording.formula_node import NOBODY, make_node, save_residuals
from oplib.autograd.recording.rebase import note_write
from oplib.config import config
from oplib.errors import OplibError
from oplib.generated_code import inlined
from oplib.library.arguments.scalars import find_operand
from oplib.library.carrier.specialization import MAX_BITS
from oplib.library.schema import Argument, FunctionSchema
from oplib.modes import ModeState, modes
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.inference import InferenceTensor, box_inference

from .derived_view import gives_views
from .dispatch import Dispatcher
from .fast_key import LISTS, Parts, make_key
from .unrolling import Code

Classes = tuple[type, ...] | None
Inputs = Sequence[tuple[Any, Classes]]
TENSORS = frozenset({Tensor, InferenceTensor})


class Presence(NamedTuple):
    """The calls of an overload in which the same optional tensors are given and lists have the same lengths.

    An argument stands for its value here: in generated code it is the name of a variable.

    Attributes:
        given: the optional tensors that are given.
        missing: the optional tensors that are None.
        absent: for each optional tensor, whether it is None.
        lists: the lists of tensors, each with its length.
        fixed: the static arguments, each with the function that returns its parts of the key.
        inputs: the arguments, and items of lists, that are arrays for the compiled call, in its order; each
            with None, or if it is a number, with the classes that it may have.
    """

    given: Sequence[Any]
    missing: Sequence[Any]
    absent: Sequence[bool]
    lists: Sequence[tuple[Any, int]]
    fixed: Sequence[tuple[Any, Parts]]
    inputs: Inputs


class FastBlock:
    """What the template needs to know of one overload.

    Args:
        dispatcher: of the overload.
        names: the variables that hold the arguments, if they have other names than in the schema.
        writes: the result is written into the first argument.

    Attributes:
        dispatcher: that of the overload.
        names: of the variables that hold the arguments.
        has_lists: the overload takes lists of tensors.
        count: of results.
        is_recorded: calls may be recorded.
        is_view: the results are views; the complete path makes those of Tensors.
        writes: the result is written into the first argument, which is returned.
        find: finds a specialization by its key.
        array_types: the classes of arrays that are taken as they are.
        node_class: of the nodes that calls record.
        patterns: the ways in which calls of the overload have been recorded. There is code for each.
        record_new: records a call in a way that is not among the patterns; set by :mod:`.fast_path`.
        renew: writes the code again if calls had lists of other lengths; set by :mod:`.fast_path`.
    """

    record_new: Any
    renew: Any

    def __init__(
        self, dispatcher: Dispatcher, names: Sequence[str] | None = None, *, writes: bool = False
    ) -> None:
        record = dispatcher.record
        self.writes = writes
        self.dispatcher = dispatcher
        self.names = name_arguments(record.schema) if names is None else list(map(Code, names))
        self.count = len(record.schema.returns)
        self.is_recorded = record.derivative.constant is None
        self.is_view = gives_views(record)
        self.find = dispatcher.fast_keys.get
        self.array_types = dispatcher.array_types
        self.node_class = dispatcher.node_class
        self.patterns = dispatcher.patterns
        self.has_lists = bool(dispatcher.fast_key.lists)

    @property
    def parts(self) -> list[Presence]:
        """One for each way in which optional tensors are given or not, and for the lengths of lists."""
        absences = itertools.product((False, True), repeat=len(self.dispatcher.fast_key.optional))
        parts = itertools.starmap(self._make_part, itertools.product(absences, self.dispatcher.lengths))
        return [part for part in parts if part.inputs]

    @property
    def can_write(self) -> bool:
        """Whether the first argument is always a tensor, and one result comes of the call."""
        return self.count == 1 and str(self.dispatcher.schema.arguments[0].type) == "Tensor"

    @property
    def size(self) -> int:
        """A number that grows with what there is code for."""
        return len(self.patterns) + len(self.dispatcher.lengths)

    def _make_part(self, absent: Sequence[bool], lengths: Sequence[int]) -> Presence:
        key, values = self.dispatcher.fast_key, self.names
        optional = [values[place] for place in key.optional]
        missing = [value for value, is_absent in zip(optional, absent, strict=True) if is_absent]
        given = [value for value in optional if value not in missing]
        lists = [(values[place], length) for place, length in zip(key.lists, lengths, strict=True)]
        fixed = [(values[place], list_parts) for place, list_parts in key.fixed]
        inputs = self._list_inputs(missing, dict(lists))
        return Presence(given, missing, absent, lists, fixed, inputs)

    def _list_inputs(self, missing: Sequence[Code], lengths: dict[Code, int]) -> Inputs:
        operand = self.dispatcher.record.operand
        inputs: list[tuple[Code, Classes]] = []
        for value, argument in zip(self.names, self.dispatcher.schema.arguments, strict=True):
            if value in lengths:
                inputs += [(Code(f"{value}[{place}]"), None) for place in range(lengths[value])]
            elif argument.has_tensor and value not in missing:
                inputs.append((value, None))
            elif argument.name in operand:
                inputs.append((value, _list_classes(argument)))
        return inputs


def name_arguments(schema: FunctionSchema) -> list[Code]:
    """Returns the variables that hold the arguments of an overload."""
    return [
        Code(argument.name if _is_plain_name(argument.name) else f"__argument{place}")
        for place, argument in enumerate(schema.arguments)
    ]


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _list_classes(argument: Argument) -> tuple[type, ...]:
    return {"float": (float,), "int": (int,)}.get(str(argument.type), (float, int))


# The template ---------------------------------------------------------------------------------------------


def serve(block: FastBlock, *, in_inference: bool) -> Any:
    """Serves the common calls of an overload. Generated code continues after it with all others.

    Args:
        block: what is known of the overload.
        in_inference: the code is for inference mode, where nothing is recorded and results have a class of
            their own.
    """
    for part in block.parts:
        if (
            all(one is not None for one in part.given)
            and all(one is None for one in part.missing)
            and all(has_length(*one) for one in part.lists)
        ):
            specialization = find_specialization(block, part)
            if specialization is not None and config.uses_fast_path:
                inputs = [
                    (one if classes is None else find_operand(one, classes), classes)
                    for one, classes in part.inputs
                ]
                if block.writes:
                    if all(is_tensor_input(*one, in_inference=False) for one in inputs):
                        return write_on_tensors(specialization, inputs, modes.state)
                elif not block.is_view and all(
                    is_tensor_input(*one, in_inference=in_inference) for one in inputs
                ):
                    if in_inference:
                        return call_in_inference(block, specialization, inputs)
                    state = modes.state
                    if not state.watchers:
                        return call_on_tensors(block, specialization, inputs, state)
                elif all(is_array_input(*one, block.array_types) for one in inputs):
                    arrays = [one for one, _ in inputs]
                    return pack_results(compute_on_arrays(block, specialization, arrays))
    if block.has_lists:
        block.renew()
    return None


@inlined
def has_length(value: Any, length: int) -> bool:
    """Whether a value is a list or tuple of a length."""
    return value.__class__ in LISTS and len(value) == length


@inlined
def find_specialization(block: FastBlock, part: Presence) -> Any:
    """Returns the specialization of a call; None if there is none yet."""
    try:
        specialization = block.find(make_key(part.fixed, part.absent, [length for _, length in part.lists]))
    except (TypeError, ValueError, OplibError):  # an argument that cannot stand in a key
        specialization = None
    return specialization


@inlined
def is_tensor_input(value: Any, classes: Classes, *, in_inference: bool) -> bool:
    """Whether an input is a Tensor; a number needs an array."""
    return (
        value is not None
        if classes is not None
        else value.__class__ in TENSORS
        if in_inference
        else value.__class__ is Tensor
    )


@inlined
def is_array_input(value: Any, classes: Classes, array_types: set[type]) -> bool:
    """Whether an input is an array; a number needs one too."""
    return value is not None if classes is not None else value.__class__ in array_types


@inlined
def write_on_tensors(specialization: Any, inputs: Inputs, state: ModeState) -> Any:
    """Writes the result of a call into the first input, if nothing else is to be checked or kept.

    So it is if that is no view, the call is not recorded, and the result has its shape and dtype. The
    complete path serves all other calls.
    """
    written = inputs[0][0]
    storage = written._storage
    if (
        storage.__class__ is Storage
        and written._root is None
        and written._read_only is None
        and not state.watchers
        and not (state.grad_enabled and any(one._requires_grad for one, classes in inputs if classes is None))
    ):
        arrays = list_arrays(inputs)
        result = specialization.run_one(*arrays)
        if can_replace(result, arrays[0]) and storage.array is arrays[0]:
            # no other thread runs between the test and here, see Storage.exchange
            storage.array = result
            storage.version += 1
            if written._views is not None:
                note_write(written)
            return written
    return None


@inlined
def can_replace(result: Any, array: Any) -> bool:
    """Whether a result has the shape and dtype of an array, and belongs to no trace."""
    return not isinstance(result, Tracer) and (
        result.aval is array.aval or (result.shape == array.shape and result.dtype == array.dtype)
    )


@inlined
def call_on_tensors(block: FastBlock, specialization: Any, inputs: Inputs, state: ModeState) -> Any:
    """Calls an overload on Tensors, and records the call if a gradient is wanted."""
    if block.is_recorded:
        wanted = [classes is None and one._requires_grad for one, classes in inputs]
        if any(wanted) and state.grad_enabled:
            return record_on_tensors(block, choose_recorder(specialization, wanted), inputs, state)
    return pack_results([box(output) for output in compute_on_tensors(block, specialization, inputs)])


@inlined
def call_in_inference(block: FastBlock, specialization: Any, inputs: Inputs) -> Any:
    """Calls an overload on Tensors in inference mode."""
    return pack_results(
        [box_inference(output) for output in compute_on_tensors(block, specialization, inputs)]
    )


@inlined
def compute_on_tensors(block: FastBlock, specialization: Any, inputs: Inputs) -> list[Any]:
    """Returns the arrays that a call on Tensors results in."""
    return compute_on_arrays(block, specialization, list_arrays(inputs))


@inlined
def list_arrays(inputs: Inputs) -> list[Any]:
    """Returns the arrays of a call on Tensors."""
    return [one._storage.operand if classes is None else one for one, classes in inputs]


@inlined
def compute_on_arrays(block: FastBlock, specialization: Any, arrays: Sequence[Any]) -> list[Any]:
    """Returns the arrays that a call on arrays results in."""
    return (
        [specialization.run_one(*arrays)]
        if block.count == 1
        else pick_items(specialization.run(*arrays)[1], range(block.count))
    )


@inlined
def pick_items(values: Any, places: Sequence[int]) -> list[Any]:
    """Returns the items of a sequence at some places."""
    return [values[place] for place in places]


@inlined
def pack_results(results: Sequence[Any]) -> Any:
    """Returns one result alone, and several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


@inlined
def record_on_tensors(block: FastBlock, recorder: Any, inputs: Inputs, state: ModeState) -> Any:
    """Calls an overload on Tensors and records the call, as the complete path does."""
    storages = [one._storage if classes is None else NOBODY for one, classes in inputs]
    arrays = [
        storage.operand if classes is None else one
        for storage, (one, classes) in zip(storages, inputs, strict=True)
    ]
    result = recorder(*arrays)
    plan = result[0]
    pattern = plan.pattern
    for known in block.patterns:
        if len(known.wanted) == len(inputs) and pattern is known:
            outputs = pick_items(result, range(1, 1 + block.count))
            results = [box(output) for output in outputs]
            tensors = [one for one, _ in inputs]
            node = make_node(block.node_class, plan, results, state, tensors=tensors, pattern=known)
            owners = [*storages, *[one._storage for one in results]]
            saved = [
                array if number is None else keep_view(storage, array, result[1 + block.count + number])
                for storage, array, number in zip(storages, arrays, known.views, strict=True)
            ]
            save_residuals(node, known, [*saved, *outputs], owners)
            return pack_results(results)
    return block.record_new(result, [one if classes is None else None for one, classes in inputs], arrays)


@inlined
def keep_view(storage: Any, operand: Any, array: Any) -> Any:
    """Gives the array of a view that a recorder has returned to its storage; returns the array to save."""
    return storage.keep(operand, array)


@inlined
def choose_recorder(specialization: Any, wanted: Sequence[bool]) -> Any:
    """Returns the recorder for a call: of few arrays without making a key."""
    return (
        choose_by_bits(specialization.recorders_by_bits, wanted, 0, 1)
        if len(wanted) <= MAX_BITS
        else specialization.recorders[tuple(wanted)]
    )


@inlined
def choose_by_bits(recorders: Any, wanted: Sequence[bool], bits: int, bit: int) -> Any:
    """Returns an item of a list whose index has one bit for each array."""
    return (
        recorders[bits]
        if not wanted
        else choose_by_bits(recorders, wanted[1:], bits | bit, bit << 1)
        if wanted[0]
        else choose_by_bits(recorders, wanted[1:], bits, bit << 1)
    )
