"""The dispatcher: what happens when an op is called.

This is the complete path; :mod:`.fast_path` generates code for the calls that need less of it. A call binds
its arguments to the schema, finds the kind of its inputs (Tensors, or arrays), finds the specialization for
its static arguments, and runs it: compiled, as plain Python on arrays or on the host, or as eager code on
Tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import BackwardPlan
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.recording.formula_node import FormulaNode, make_node_class, record as record_call
from oplib.autograd.recording.record_pattern import Pattern, find_pattern
from oplib.config import config
from oplib.errors import CapturedTracerError, ReadValueError
from oplib.importing import LateImports
from oplib.library.arguments.binding import Binder
from oplib.library.arguments.keys import draw_keys
from oplib.library.arguments.layout import Layout, count_arrays, make_layout
from oplib.library.arguments.recording import (
    box_results,
    check_written,
    read_arrays,
    refuse_inference,
    refuse_out_gradient,
    share_storage,
    unbox,
    write_back,
)
from oplib.library.arguments.results import put_back_returned_arguments
from oplib.library.arguments.structure import ONE_ARRAY, Structure, pack
from oplib.library.arguments.trees import TreeEntry
from oplib.library.autocast.casts import call_by_policy
from oplib.library.jax_primitives.primitive import find_carrier
from oplib.library.jax_primitives.specialization import (
    CAPACITY,
    Specialization,
    SpecializationCache,
    name_results,
)
from oplib.library.jax_primitives.staleness import StaticWatch
from oplib.library.kernels.fake_kernel import compare_with_fake
from oplib.library.kernels.kernel_choice import find_device, require_kernel
from oplib.library.kernels.running import run_kernel
from oplib.library.kernels.tensor_kernel import split_tensor_results
from oplib.library.kernels.tracing import any_traced
from oplib.library.op_objects.observers import is_observed, read_recorded, read_run, run_observed
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Tag
from oplib.library.schema import FunctionSchema
from oplib.modes import modes
from oplib.tensor import Device, Tensor
from oplib.tensor.devices.forked import check_process
from oplib.tensor.devices.layout import is_spread
from oplib.tensor.storage.escape import is_inside_trace, note_trace
from oplib.tensor.storage.failed_reads import forget_read
from oplib.tensor.storage.known import note_computation
from oplib.tensor.storage.overlay import overlays
from oplib.tracebacks import call_compiled

from .derived_view import ViewDeriver, gives_views
from .fast_key import LISTS, FastKey, is_eligible
from .forward_mode import call_in_dual_level
from .input_kind import has_tensor_input, refuse_bare_lists, refuse_writing, take_numbers

MAX_PATTERNS = 8  # each adds a dozen lines to generated code
MAX_LENGTHS = 8  # each adds a block, with a few lines for each item
_late = LateImports("oplib.library", {"autograd": "autograd"})  # few programs have kernels on Tensors
_NO_NAMES: Mapping[str, Any] = MappingProxyType({})
MAX_ITEMS = 16  # the code for longer lists reads them in loops, and has no lines for how they are recorded


class Dispatcher:
    """Serves the calls of one overload; prepared once for its record.

    Attributes:
        overload: the op.
        specializations: the specializations by layout.
        is_fast: the fast path may serve calls.
        fast_key: how the fast path makes a key from unconverted arguments.
        fast_keys: specializations by these keys. A plain dictionary that counts no uses, emptied at half the
            capacity of ``specializations``: a frequent call then counts as a use there before it would be the
            least recently used.
        array_types: classes of arrays that have been seen, which the fast path takes as they are.
        node_class: the class of the nodes that calls record.
        patterns: the ways in which calls have been recorded, as far as the fast path has code for them.
        lengths: the lengths that the lists of tensors have had in one call, as far as the fast path has code
            for them. An op without such lists has one item, which is empty.
    """

    def __init__(self, overload: OpOverload) -> None:
        record = overload.record
        self.overload = overload
        self.record = record
        self.name = overload.name()
        self.schema = record.schema
        self.binder = Binder(record.schema, operand=record.operand)
        self.carrier = find_carrier(overload)
        self.specializations = SpecializationCache()
        self.is_fast = is_eligible(record)
        self.returns_one = len(record.schema.returns) == 1
        self.returns_written = bool(pick_given(record.schema.returned_arguments))
        self.fast_keys: dict[Any, Specialization] = {}
        self.fast_key = FastKey(record)
        self.array_types: set[type] = set()
        self.patterns: list[Pattern] = []
        self.lengths: list[tuple[int, ...]] = [] if self.fast_key.lists else [()]
        self._is_closed = False
        self._followers: set[Callable[[], None]] = set()
        has_one_slot = self.is_fast and self.returns_one
        self.node_class: type[FormulaNode] = make_node_class(
            record.node_name,
            has_one_slot=has_one_slot,
            hides_constants=overload.namespace == "oplib",
            saved_names=_find_saved_names(record.schema),
        )
        self.node_class._forward_cls = _FunctionOfOp(overload)  # pyright: ignore[reportAttributeAccessIssue]  of users' Functions too
        self._views = ViewDeriver(self.name) if gives_views(record) else None
        self._watch = StaticWatch(self.name)
        self._draws = record.draws
        self._is_repeatable = overload.namespace == "oplib"
        self._has_forward = record.derivative.forward is not None
        self._needs_comparison = record.fake is not None and not record.schema.is_mutable

    @cached_property
    def _run_on_tensors(self) -> Callable[[Sequence[Any]], Any]:
        """Calls an eager or composite op on Tensors."""
        tape = _late["autograd"]
        impl = tape.make_autograd_impl(self.overload, tape.RecordInfo(self.overload))
        return partial(tape.run_on_tensors, self.overload, impl=impl)

    def close(self) -> None:
        """Drops the compiled calls, because the op has another record now, or none."""
        self._stop_fast_path()
        # Generated code holds this object, and JAX's tracebacks in compiled calls hold that code.
        self.specializations = SpecializationCache()

    def _stop_fast_path(self) -> None:
        self._is_closed = True
        self.fast_keys.clear()
        while self._followers:
            self._followers.pop()()

    def follow(self, forget: Callable[[], None]) -> None:
        """Takes a function that is called when the fast path has stopped, or now if it has."""
        self._followers.add(forget)
        if self._is_closed:
            forget()

    def add_pattern(self, plan: BackwardPlan) -> None:
        """Adds the pattern of a recorded call for the fast path."""
        if self.fast_key.lists and plan.input_count > MAX_ITEMS:
            return
        pattern = find_pattern(plan)
        if pattern is not None and pattern not in self.patterns and len(self.patterns) < MAX_PATTERNS:
            self.patterns.append(pattern)

    def _add_lengths(self, values: Sequence[Any]) -> None:
        """Adds the lengths of the lists in a call for the fast path."""
        lengths = tuple([len(values[index]) for index in self.fast_key.lists])
        if lengths not in self.lengths and len(self.lengths) < MAX_LENGTHS and sum(lengths) <= MAX_ITEMS:
            self.lengths.append(lengths)

    # Calls ---------------------------------------------------------------------------------------------

    def call(self, args: Sequence[Any], kwargs: dict[str, Any], *, arrays_wanted: bool = False) -> Any:
        """Does one call with any arguments."""
        check_process()
        state = modes.state
        if state.in_trace:  # that trace may have ended: the next call takes the fast path again
            note_trace(state)
        values = self.binder.bind(args, kwargs, op=self.name)
        settings = state.autocast
        if settings is not None and self.record.autocast:
            call = partial(self._call_bound, arrays_wanted=arrays_wanted)
            result = call_by_policy(self.record, values, settings, call)
            if result is not NotImplemented:
                return result
        return self._call_bound(values, args, kwargs, arrays_wanted=arrays_wanted)

    def _call_bound(
        self, values: list[Any], args: Sequence[Any] = (), kwargs: Any = _NO_NAMES, *, arrays_wanted: bool
    ) -> Any:
        """Does one call with bound arguments, and with them as they were given, for the fast path."""
        layout, flat = make_layout(self.schema, values, self.record.operand, op=self.name)
        self._fill_fast_path(layout, flat, args, kwargs)
        if self._draws:
            flat = draw_keys(flat)
            if self.record.takes_tensors:
                values = self._give_generators(layout, flat, values)
        if any(isinstance(value, Tensor) for value in flat):
            if modes.dual_level is not None:
                return call_in_dual_level(self, layout, flat, values)
            return self.call_on_tensors(layout, flat, values)
        if has_tensor_input(self.record, layout):
            refuse_writing(self.record, layout)
            refuse_bare_lists(self.record, layout, flat)
            structure, outputs = self._run_on_arrays(layout, flat)
            return structure.arrange(outputs)
        return self._call_without_tensors(layout, flat, values, arrays_wanted=arrays_wanted)

    def _fill_fast_path(
        self, layout: Layout, flat: list[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Fills the caches of the generated code, so that it serves the next call of this kind."""
        if not self.is_fast or self._is_closed or not config.fast_path:
            return
        state = modes.state
        watchers = state.watchers - state.in_trace
        if watchers and not (state.inference and watchers == 1):  # it serves no such call
            return
        self.array_types.update(type(value) for value in flat if isinstance(value, jax.Array))
        if not self._is_kept(layout) or any(
            isinstance(entry, TreeEntry) and entry.count for entry in layout.entries
        ):
            return  # it is not kept, or its arrays are no arguments of their own
        key_values = [
            args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value)
            for index, argument in enumerate(self.schema.arguments)
        ]
        if any(value != value for value in key_values if isinstance(value, float)):
            return  # a nan would be a new key at every call
        if any(key_values[index].__class__ not in LISTS for index in self.fast_key.lists):
            return  # what stands for a list of tensors has no length
        self._add_lengths(key_values)
        specialization = self.specialize(layout)
        if len(self.fast_keys) >= CAPACITY // 2:
            self.fast_keys.clear()
        with suppress(TypeError, ValueError):  # an array of one item is taken as a number, but has no hash
            self.fast_keys[self.fast_key.make(key_values)] = specialization

    def _give_generators(self, layout: Layout, flat: list[Any], values: list[Any]) -> list[Any]:
        """Returns the bound values, with Generators that start at the keys drawn for this call."""
        rebuilt = layout.rebuild(flat)
        return [
            rebuilt[index] if argument.is_generator else value
            for index, (argument, value) in enumerate(zip(self.schema.arguments, values, strict=True))
        ]

    def call_functional(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls the op on arrays, and returns the new values of written arguments before the results."""
        values = self.binder.bind(args, kwargs, op=self.name)
        layout, flat = make_layout(self.schema, values, self.record.operand, op=self.name)
        arrays = list(map(unbox, draw_keys(flat) if self._draws else flat))
        structure, outputs = self._run_on_arrays(layout, arrays, device=find_device(self.record, values))
        return structure.arrange(outputs)

    def _call_without_tensors(
        self, layout: Layout, flat: list[Any], values: list[Any], *, arrays_wanted: bool
    ) -> Any:
        """Does one call without tensor arguments: the results are Tensors, or arrays for ``op.arrays``."""
        if self.record.takes_tensors and not arrays_wanted:
            return self._run_on_tensors(values)
        structure, outputs = self._run_on_arrays(layout, flat, device=find_device(self.record, values))
        if arrays_wanted:
            return structure.arrange(outputs)
        return structure.arrange(list(map(Tensor.from_array, outputs)))

    def call_on_tensors(self, layout: Layout, flat: list[Any], values: list[Any]) -> Any:
        """Does one call with a Tensor among its bound arguments, without tangents."""
        flat = take_numbers(self.record, layout, flat)
        written = check_written(self.name, self.schema, values, have_new=not self.record.is_eager)
        if self.record.is_eager and not self._uses_jvp_rule(flat):
            result = self._run_on_tensors(values)
            if self._needs_comparison:
                unboxed = list(map(unbox, flat))
                structure, tensors = split_tensor_results(self.record, result)
                compare_with_fake(self.record, layout, unboxed, (structure, list(map(unbox, tensors))))
                self._needs_comparison = False
            return result
        tensors, arrays = read_arrays(flat)
        wanted = self._find_wanted(tensors)
        if wanted is not None and Tag.out in self.record.tags:
            raise refuse_out_gradient(self.name)
        if wanted is None:
            donating = bool(written) and not is_observed()  # an observer may keep the written arrays
            run = partial(self._run_on_arrays, layout, arrays, donating=donating)
            structure, outputs = run_observed(self.overload, values, run, read_run)
            recorded = None
        else:
            run = partial(self._record, layout, arrays, wanted)
            recorded = run_observed(self.overload, values, run, read_recorded)
            structure = recorded[0].structure
            outputs = recorded[1 : 1 + len(recorded[0].outputs)]
        write_back(self.name, outputs, written)
        count = structure.written_count
        histories: Sequence[tuple[Tensor, Tensor]] = ()
        if recorded is None:
            boxed = box_results(outputs[count:])
        else:
            if self.is_fast:
                self.add_pattern(recorded[0])
            boxed = record_call(self.node_class, recorded, tensors, arrays)
            refuse_inference(self.name, tensors, boxed)
            histories, boxed = list(zip(written, boxed[:count], strict=True)), boxed[count:]
        if self._views is not None and boxed:
            self._views.link(layout, tensors, boxed, partial(self._run_viewing, layout, tensors, arrays))
        if self.returns_written:
            return self._return_written(values, histories, structure.without_written().rebuild(boxed))
        return structure.without_written().arrange(boxed)

    def _run_viewing(
        self, layout: Layout, tensors: Sequence[Tensor | None], arrays: Sequence[Any], wholes: Sequence[Any]
    ) -> Sequence[Any]:
        """Runs the op with another array instead of the Tensor that its results are views of."""
        inputs = list(arrays)
        inputs[next(index for index, tensor in enumerate(tensors) if tensor is not None)] = wholes[0]
        return self._run_on_arrays(layout, inputs)[1]

    def _return_written(
        self, values: list[Any], histories: Sequence[tuple[Tensor, Tensor]], results: list[Any]
    ) -> Any:
        """Returns the results in order. Some are written arguments, or aliases of them with a history."""
        aliases = {
            id(tensor): share_storage(recorded, tensor, self.name)
            for tensor, recorded in histories
            if recorded._requires_grad
        }
        returned = put_back_returned_arguments(self.schema, results, values)
        return pack([aliases.get(id(value), value) for value in returned])

    def _uses_jvp_rule(self, flat: list[Any]) -> bool:
        """Tells whether JAX differentiates an eager kernel: by its jvp rule, in a call that is recorded."""
        has_rule = self.record.is_derived and self.record.kind == "tensor"
        return has_rule and self._find_wanted(read_arrays(flat)[0]) is not None

    def _find_wanted(self, tensors: list[Tensor | None]) -> tuple[bool, ...] | None:
        """Tells for each array whether its gradient is needed; None if the call is not recorded."""
        if not modes.grad_enabled or modes.inference or self.record.derivative.constant is not None:
            return None
        wanted = tuple([tensor is not None and tensor._requires_grad for tensor in tensors])
        return wanted if any(wanted) else None

    # Running ------------------------------------------------------------------------------------------------

    def specialize(self, layout: Layout) -> Specialization:
        """Returns the specialization of a layout, and makes it if it is new."""
        is_kept = self._is_kept(layout)
        specialization = self.specializations.get(layout) if is_kept else None
        if specialization is None:
            donated = self._donated_indices(layout)
            made = Specialization(self.overload.in_traces, layout, self.carrier, donated)
            if not is_kept:
                return made
            self._watch.note(layout)
            return self.specializations.put(layout, made)
        return specialization

    def _is_kept(self, layout: Layout) -> bool:
        """Whether later calls get the same specialization.

        Code on Tensors runs in each trace of oplib, because the Python values that it reads may be others.
        """
        runs_anew = self.record.takes_tensors and modes.state.failed_reads is not None
        return not (layout.is_transient or self.record.runs_anew or runs_anew)

    def _donated_indices(self, layout: Layout) -> list[int]:
        indices: list[int] = []
        position = 0
        for entry, argument in zip(layout.entries, self.schema.arguments, strict=True):
            count = count_arrays(entry)
            if argument.name in self.record.donates:
                indices.extend(range(position, position + count))
            position += count
        return indices

    def _is_immediate(self, arrays: Sequence[Any]) -> bool:
        """Tells whether the kernel runs now as plain Python, outside any jit."""
        record = self.record
        if record.kind == "array" and record.compiled and not is_uncompiled():
            return False
        if record.sharding is not None and record.kind != "host" and any(map(is_spread, arrays)):
            return False  # only compiled code runs a part on each device
        if record.is_ordered and is_inside_trace():
            return False  # the program that is traced has the side effect, also for constants
        return not any_traced(arrays)

    def _run_on_arrays(
        self, layout: Layout, arrays: Sequence[Any], *, donating: bool = False, device: Device | None = None
    ) -> tuple[Structure, Sequence[Any]]:
        require_kernel(self.record, arrays, device)
        if device is not None:  # the results of a factory are on this device
            with jax.default_device(device.to_jax()):
                return self._run_here(layout, arrays, donating=donating, device=device)
        structure, outputs = self._run_here(layout, arrays, donating=donating)
        self._note_computation(outputs, layout, arrays)
        return structure, outputs

    def _note_computation(self, outputs: Sequence[Any], layout: Layout, arrays: Sequence[Any]) -> None:
        """Notes how the outputs of a call are computed, while a function is traced."""
        if self._is_repeatable and overlays.current is not None:
            note_computation(outputs, lambda operands: self._run_on_arrays(layout, operands)[1], list(arrays))

    def _run_here(
        self, layout: Layout, arrays: Sequence[Any], *, donating: bool, device: Device | None = None
    ) -> tuple[Structure, Sequence[Any]]:
        if self._is_immediate(arrays):
            return self._run_now(layout, arrays, device)
        specialization = self.specialize(layout)
        try:
            if specialization.call.is_plain:
                return specialization.run_plain(*arrays)
            if self.is_fast and self.returns_one:  # as the fast path does, so that nothing is compiled twice
                return ONE_ARRAY, (call_compiled(specialization.run_one, *arrays),)
            run = specialization.run_donating if donating else specialization.run
            return call_compiled(run, *arrays)
        except CapturedTracerError:
            self._note_captured(specialization)
        except ReadValueError as error:
            forget_read(error)
            specialization.call.reads_values = True
        return specialization.run_plain(*arrays)

    def _note_captured(self, specialization: Specialization) -> None:
        """Lets a local op close over tracers of its trace; raises the current error again for any other."""
        if not self.overload.is_local:
            raise  # noqa: PLE0704  called where an error is handled
        specialization.call.captures = True
        self._stop_fast_path()

    def _record(self, layout: Layout, arrays: Sequence[Any], wanted: tuple[bool, ...]) -> Any:
        specialization = self.specialize(layout)
        keeps_run = specialization.keeps_run(arrays)
        is_whole = self.record.takes_tensors or self._has_forward or keeps_run
        if is_whole or not self._is_immediate(arrays):
            require_kernel(self.record, arrays)
            if keeps_run or specialization.call.is_plain:
                return specialization.record_plain(wanted, arrays)
            try:
                recorded = call_compiled(specialization.recorders[wanted], *arrays)
                self._note_computation(recorded[1 : 1 + len(recorded[0].outputs)], layout, arrays)
                return recorded
            except CapturedTracerError:
                self._note_captured(specialization)
                return specialization.record_plain(wanted, arrays)
        structure, outputs = self._run_now(layout, arrays)
        return specialization.plan_after(structure, wanted, arrays, tuple(outputs))

    def _run_now(
        self, layout: Layout, arrays: Sequence[Any], device: Device | None = None
    ) -> tuple[Structure, Sequence[Any]]:
        structure, outputs = run_kernel(self.record, layout, arrays, device)
        if self._needs_comparison:
            compare_with_fake(self.record, layout, arrays, (structure, outputs))
            self._needs_comparison = False
        return structure, outputs


class _FunctionOfOp:
    """``type(y.grad_fn)._forward_cls``: the op as a ``Function``, made when it is first asked for."""

    def __init__(self, overload: OpOverload) -> None:
        self._overload = weakref.ref(overload)

    def __get__(self, node: Any, cls: Any) -> Any:
        overload = self._overload()
        if overload is None:
            raise AttributeError(f"{cls.__name__}: its op was local, and is gone.")
        cls._forward_cls = made = _late["autograd"].make_function(overload)
        return made


def _find_saved_names(schema: FunctionSchema) -> tuple[str, ...]:
    """Returns the names of the arguments and results that a node may have saved."""
    arguments = [argument.name for argument in schema.arguments if argument.has_tensor]
    return (*arguments, *name_results(len(schema.returns)))
