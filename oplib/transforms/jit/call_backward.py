"""The backward of a compiled call: its node and program, and the programs of higher derivatives."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask, make_gather
from oplib.autograd.array_functions.filled_plan import FilledPlan
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.node import NOBODY, Gradients, TapeNode
from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.recording.lazy_edges import find_links
from oplib.autograd.recording.origins import enter_node
from oplib.autograd.saved_tensors.hooks import HookPair, active_pairs
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor, second_pass_error
from oplib.autograd.saved_tensors.slots import SavedSlots, is_python_number
from oplib.errors import AutogradError, TracingError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.random.generator import is_key
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.entries import read_entries, restore_entry
from oplib.transforms.tracing.observed_tensor import StateSnapshot
from oplib.transforms.tracing.paths import Walk
from oplib.transforms.tracing.pruning import prune
from oplib.transforms.tracing.reader import Reader

from .arguments import CallArguments
from .call_trace import Trace, TracedBackward, tracing
from .operands import ExpectedOperands

_new: Any = object.__new__
_get_storage, _get_version = attrgetter("_storage"), attrgetter("version")


class CallPlan(FilledPlan):
    """The plan of a whole call, whose backward the tape has traced. Its residuals are intermediates here."""

    __slots__ = ("_refused",)

    def __init__(self, name: str, backward: TracedBackward) -> None:
        wanted = tuple(backward.reached)
        function = ArrayFunction(backward.pull, name, is_formula=True)
        super().__init__(function, wanted, backward.specs, len(backward.residuals))
        self._refused = backward.refused

    @property
    def op_name(self) -> str:  # noqa: D102  described in BackwardPlan
        return self._function.name

    def check_slots(self, present: Mask) -> None:
        """Raises if a gradient arrives at a result that cannot be differentiated."""
        for slot, reason in self._refused.items():
            if present[slot]:
                raise copy.copy(reason)

    def _make_backward(self, present: Mask) -> ArrayFunction:
        self.check_slots(present)
        return super()._make_backward(present)


class CompiledCallBackward(FormulaNode):
    """Runs the backward of a whole call as one compiled program.

    Attributes:
        again: gives the gradients of a pass that is recorded, from cotangents as Tensors. Hooks of saved
            tensors have unpacked the residuals, if there are any.
        ends: for each output that retains its gradient the node that stores it, by the number of the output.
    """

    plan: CallPlan  # pyright: ignore[reportIncompatibleVariableOverride]  the only kind here

    ends: Mapping[int, TapeNode] = MappingProxyType({})

    def stop_retaining(self, slot: int) -> None:  # noqa: D102  described in TapeNode
        super().stop_retaining(slot)
        if slot in self.ends:
            self.ends[slot].stop_retaining(0)

    def again(self, _: Sequence[Any], __: Sequence[Any]) -> Sequence[Any]:
        """Raises for a node that ``oplib.vmap`` has built again: the call itself is not mapped."""
        raise AutogradError(
            f"{self.name()}: it was recorded inside vmap, and a derivative of higher order traces "
            f"{self.op_name()} again, without the map. Take both derivatives inside vmap."
        )

    def _apply_recorded(self, grads: Gradients, present: Mask) -> Gradients:
        self.plan.check_slots(present)
        saved: Any = self.saved
        unpacked = saved.read(self.name()) if isinstance(saved, SavedSlots) else ()
        rest = iter(grads)
        specs = zip(present, self.input_metadata, strict=True)
        full = [next(rest) if has else box(jnp.zeros(spec.shape, spec.dtype)) for has, spec in specs]
        return tuple(spread(self.again(full, unpacked), self.plan.wanted))

    def release(self) -> None:
        """Frees the residuals."""
        super().release()
        self.again = _refuse


def _refuse(_: Sequence[Any], __: Sequence[Any]) -> Sequence[Any]:
    raise second_pass_error("CompiledCallBackward")


class Recipe(NamedTuple):
    """The parts of a call, so that its function can be traced again with its backward.

    Attributes:
        arguments: the function and its arguments.
        tensors: the operands.
        containers: those in which the call puts something, and perhaps Generators.
        values: the arrays of the operands at the call, a key and a count for each Generator, the array
            arguments, and the cotangents of each backward that was recorded since.
        storages: for operands that show other memory after the call their index and what they showed.
    """

    arguments: CallArguments
    tensors: Sequence[Tensor]
    containers: Sequence[Any]
    values: Values
    storages: Sequence[tuple[int, Storage]] = ()


def list_sources(held: Sequence[int | None], operands: int, inputs: int) -> list[Any]:
    """Returns for each input of a jaxpr which of the values of a recipe it is.

    The first are storages, each with the index of its operand; None for one that the program does not read.
    """
    return [*held, *range(operands, operands + inputs - len(held))]


class StateOfCall(NamedTuple):
    """The state that a program was compiled for, so that its function can be traced again for it.

    Attributes:
        reader: finds the operands.
        operands: what is expected of them.
        autocast: the settings of autocast.
        hook_pairs: stand for the hooks around the call, as inside a program.
        entries: for each container in which a call puts something, the key, and what stood there before;
            None where that was a Tensor.
    """

    reader: Reader
    operands: ExpectedOperands
    autocast: Any
    hook_pairs: tuple[HookPair, ...]
    entries: Sequence[tuple[Any, dict[Any, Any]] | None]

    def trace(self, name: str, recipe: Recipe, orders: Sequence[Sequence[Any]]) -> tuple[Trace, list[Any]]:
        """Traces the function of a call with its backwards, and tells which values are the inputs.

        Changes of Tensors by the call itself are undone for the time of the trace.

        Raises:
            TracingError: the function leads to something else than at the call.
        """
        arguments = recipe.arguments
        function = arguments.function
        with tracing, self._undo_entries(recipe.containers):
            operands = self.reader.read(function, arguments.leaves)
            if isinstance(operands, str):
                raise _changed(name, operands)
            tensors, _ = operands
            state, before = modes.state, StateSnapshot(tensors, ())
            autocast, pairs = state.autocast, state.hook_pairs
            try:
                state.autocast, state.hook_pairs = self.autocast, self.hook_pairs
                self.operands.restore(tensors)
                for index, storage in recipe.storages:
                    tensors[index]._storage = storage
                if reason := self.operands.explain(tensors):
                    raise _changed(name, reason)
                candidates = Candidates(Walk(function, arguments.leaves))
                trace = Trace(name, arguments.call, candidates, arguments.arrays, orders)
            finally:
                state.autocast, state.hook_pairs = autocast, pairs
                before.restore()
        numbers = {id(tensor): index for index, tensor in enumerate(tensors)}
        held = [numbers.get(id(candidates.operands[number].value)) for number in candidates.holders]
        return trace, list_sources(held, len(tensors), len(trace.closed.in_avals))

    @contextlib.contextmanager
    def _undo_entries(self, containers: Sequence[Any]) -> Generator[None]:
        """Lets containers hold what they held before the call."""
        now: list[tuple[Any, Any, dict[Any, Any]]] = []
        try:
            for container, entry in zip(containers, self.entries, strict=False):
                if entry is not None:
                    key, before = entry
                    held = read_entries(container) or {}
                    now.append((container, key, held))
                    if key in held or before:
                        restore_entry(container, key, before)
            yield
        finally:
            for container, key, held in now:
                if key in held or key in (read_entries(container) or {}):
                    restore_entry(container, key, held)


def _changed(name: str, reason: str) -> TracingError:
    return TracingError(
        f"{name}: a derivative of higher order traces the compiled function again, and finds it changed. Got "
        f"this change since the call: {reason}. Differentiate with create_graph=True before the change, or "
        "call the function again."
    )


class Backward:
    """Makes the node of a call, or of a derivative of one, from its trace.

    The sources tell for each input of the jaxpr which of the values of a recipe it is.
    """

    def __init__(
        self, trace: Trace, backward: TracedBackward, sources: Sequence[Any], state: StateOfCall
    ) -> None:
        self._state = state
        self._name = trace.name
        self._flows = backward.paths
        # without gradient there is no edge, so that hooks of the leaf do not run
        edges = [index if has else -1 for index, has in enumerate(backward.has_edge)]
        self._take_edges = make_gather(edges)
        self._paths = backward.paths if len(set(backward.paths)) > 1 else None
        self._orders = [*trace.orders, backward.specs]
        count = len(trace.closed.out_avals)  # the values of a recipe come first, and the outputs last
        self._residuals = [sources[n] if has else n - count for has, n in backward.residuals]
        self._take_residuals = make_gather(self._residuals)
        self._higher: Higher | None = None
        self._plan = CallPlan(trace.name, backward)

    def start_node(self, recipe: Recipe, outputs: Sequence[Any]) -> CompiledCallBackward:
        """Makes the node of one call. Its Tensors can refer to it before it is complete.

        Hooks for saved tensors see what the node keeps, before the call writes anything.
        """
        node = _new(CompiledCallBackward)
        node.plan, node.paths = self._plan, self._paths
        state = modes.state
        enter_node(node, state)
        if state.hook_pairs and (pairs := active_pairs()):
            node.saved = self._pack(pairs, recipe, outputs)
        return node

    def _pack(self, pairs: tuple[HookPair, ...], recipe: Recipe, outputs: Sequence[Any]) -> SavedSlots:
        """Packs the residuals. A hook receives an operand itself, if this is no view."""
        slots: list[SavedTensor] = []
        taken = self._take_saved(recipe, outputs, recipe.tensors, None)
        for value, tensor in zip(*taken, strict=True):
            if tensor is None or tensor._storage.owner is not tensor._storage:
                tensor = None if is_python_number(value) or is_key(value) else box(value)
            slots.append(SavedTensor.of_value(value, NOBODY))
            if tensor is not None:
                slots[-1].pack(pairs, tensor)
        return SavedSlots(slots, ())

    def complete_node(
        self,
        node: Any,
        recipe: Recipe,
        links: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        """Completes a node. The writes of its call are done: the trace has checked those of what it saves."""
        node.inputs = self._take_edges((*links, None))
        node.again = partial(self._differentiate, recipe, links)
        if not isinstance(node.saved, SavedSlots):
            self._save(node, recipe, outputs)
        if modes.state.creation_hooks:
            tell_creation(node)

    def _save(self, node: Any, recipe: Recipe, outputs: Sequence[Any]) -> None:
        # Versions count where the operands are as the call has left them: not for a derivative of it.
        storages = list(map(_get_storage, recipe.tensors)) if len(self._orders) == 1 else []
        values, storages = self._take_saved(recipe, outputs, storages, NOBODY)
        node.saved = (*values, *storages)
        node.versions = tuple(map(_get_version, storages))

    def _take_saved(self, recipe: Recipe, outputs: Sequence[Any], held: Sequence[Any], other: Any) -> Any:
        """Returns the residuals, and for each of them what is held for its operand, or else the other."""
        values = (*recipe.values, *outputs)
        holders = (*held, *[other] * (len(values) - len(held)))
        return self._take_residuals(values), self._take_residuals(holders)

    def requires_grad(self, slot: int, node: Any) -> bool:
        """Whether a result of the call of a node depends on something that requires grad."""
        return any(node.inputs[index] is not None for index in self._flows[slot])

    def _differentiate(
        self,
        recipe: Recipe,
        links: Sequence[Any],
        grads: Sequence[Tensor],
        unpacked: Sequence[Any],
    ) -> list[Tensor]:
        """Returns the gradients as Tensors with a history."""
        values = [*recipe.values, *[grad._storage.array for grad in grads]]
        for index, value in zip(self._residuals, unpacked, strict=False):
            if index >= 0:
                values[index] = value
        recipe = recipe._replace(values=tuple(values))
        if self._higher is None:
            self._higher = Higher(*self._state.trace(self._name, recipe, self._orders), self._state)
        return self._higher.run(recipe, [*links, *find_links(grads)])


class Higher:
    """The program of a derivative of some order: the forward with so many backwards, recorded."""

    def __init__(self, trace: Trace, sources: Sequence[Any], state: StateOfCall) -> None:
        used, run = prune(trace.run, trace.closed, f"{trace.name}_derivative")
        self._take = make_gather(pick_true(sources, used))
        self._run = jax.jit(run)
        self._gradients = trace.gradients
        self._backward = None
        if trace.backward is not None:
            self._backward = Backward(trace, trace.backward, sources, state)

    def run(self, recipe: Recipe, links: Sequence[Any]) -> list[Tensor]:
        """Returns the gradients of one call, with a history where they have one."""
        outputs = self._run(*self._take(recipe.values))
        backward, node = self._backward, None
        if backward is not None:
            node = backward.start_node(recipe, outputs)
            backward.complete_node(node, recipe, links, outputs)
        gradients: list[Tensor] = []
        for output, slot in self._gradients:
            gradient = box(outputs[output])
            if slot is not None and backward is not None and backward.requires_grad(slot, node):
                gradient._requires_grad, gradient._grad_fn, gradient._output_nr = True, node, slot
            gradients.append(gradient)
        return gradients
