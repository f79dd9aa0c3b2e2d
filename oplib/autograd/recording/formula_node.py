"""The node of compiled calls. Its backward is one XLA call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import compress, repeat
from operator import attrgetter, is_not
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import (
    ArrayFunction,
    BackwardPlan,
    DerivedPlan,
    Forwarding,
    Mask,
)
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import map_given, mask_given
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.node import NOBODY, Edge
from oplib.autograd.saved_tensors.saved_tensor import check_version, link, second_pass_error
from oplib.autograd.saved_tensors.slots import SavedSlots, SlottedNode, make_saved_properties, pack_residuals
from oplib.autograd.tangents import find_tangents, push_tangents, save_tangents
from oplib.config import config
from oplib.modes import ModeState, call_in_grad_mode, modes
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor, box, read_array
from oplib.tensor.inference import mark_inference

from .kept_gradients import run_without_residuals
from .lazy_edges import LazyEdges, link_inputs
from .origins import enter_node, number_node

__all__ = ["NOBODY", "FormulaNode", "make_node_class", "record", "save_residuals"]

_new: Any = object.__new__
_get_version = attrgetter("version")
_ALL_GIVEN = (True,)
_OPERANDS = frozenset({"self", "other", "exponent"})  # of built-in ops, which take numbers there too


class FormulaNode(SlottedNode):
    """A backward step whose formula is a pure array function, which a plan holds.

    Attributes:
        inputs: for each input its edge, None, or the leaf. They are used if ``edges`` are not set.
        plan: the plan of the backward.
        saved: the residuals, in the plan's order, and then the storages that they were read from. They become
            slots after the first look at one of them, or with active hooks, and None after freeing.
        versions: the versions of these storages; None if all were 0, as most are.
        tangents: in forward mode, the tangents of inputs and outputs at the time of the call, by index.
        kept: the inputs and outputs from which intermediates are computed again when the backward is
            recorded, with their storages and versions; None if the plan has no intermediates.
        hides_constants: hooks of every node of the class see no slots for outputs that have no gradient.
    """

    input_metadata = property(attrgetter("plan.outputs"))  # pyright: ignore[reportAssignmentType]  not stored
    inputs: tuple[Tensor | Edge | None, ...] = ()
    edges = LazyEdges()  # an attribute of the instance hides it
    results_are_checked = True
    follows_jax = True
    hides_constants = False

    @property
    def _input_metadata(self) -> Sequence[Any]:
        """Leaves out the last outputs that have no gradient, such as places, as torch does for its ops."""
        shown = self.input_metadata
        if self.hides_constants:
            flags = self.plan.differentiable
            while len(shown) > 1 and not flags[len(shown) - 1]:
                shown = shown[:-1]
        return shown

    def op_name(self) -> str:  # noqa: D102  described in TapeNode
        return self.plan.op_name

    def apply(self, grads: Sequence[Any], run: BackwardRun) -> Sequence[Any]:
        """Runs the formula. Under ``create_graph`` it is recorded as an op on the saved values."""
        saved: Any = self.saved
        if saved.__class__ is not tuple:
            saved = self._read_slots(run)
        plan = self.plan
        count = len(plan.sources)
        for storage, version in zip(saved[count:], self.versions or repeat(0)):  # noqa: B905  costs time
            if storage.version != version:
                check_version(self.name(), storage, version)
        if len(grads) == 1 and grads[0] is not None:
            present = _ALL_GIVEN
        else:
            present = tuple(map(is_not, grads, repeat(None)))
            grads = list(compress(grads, present))
            if not grads:
                return (None,) * plan.input_count
        if run.representation.tensor_mode:
            return self._apply_recorded(grads, present)
        function = (present is _ALL_GIVEN and plan.sole) or plan.backward(present)
        if function.__class__ is Forwarding:
            return function.run(*grads)
        if not count and present is _ALL_GIVEN and plan.__class__ is DerivedPlan and config.compile_kernels:
            return run_without_residuals(function, grads[0])
        run_formula = function.run if config.compile_kernels else function.function
        return run_formula(*saved[:count], *grads)

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: D102  described in TapeNode
        saved: Any = self.saved
        if saved.__class__ is not tuple:
            return self._read_slot_operands(operands)
        plan = self.plan
        if saved:
            count = len(plan.sources)
            for storage, version in zip(saved[count:], self.versions or repeat(0), strict=False):
                if storage.version != version:
                    check_version(self.name(), storage, version)
            operands += saved[:count]
        return plan.token

    def _read_slot_operands(self, operands: list[Any]) -> Any:
        """Reads residuals that are slots. Hooks that unpack a slot run when the node runs, and not before."""
        saved = self.saved
        if not isinstance(saved, SavedSlots):
            raise second_pass_error(self.name())
        if any(slot.is_packed for slot in saved.residuals):
            return None
        operands += saved.read(self.name())
        return self.plan.token

    def find_function(self, present: Mask) -> ArrayFunction | None:  # noqa: D102  described in TapeNode
        function = self.plan.backward(present)
        return function if function.compiled else None

    def _read_slots(self, run: BackwardRun) -> Values:
        """Returns residuals that are not a tuple.

        A recorded pass reads them later, so they are not read here.
        """
        if self.saved is None or isinstance(self.saved, tuple):
            raise second_pass_error(self.name())
        if run.representation.tensor_mode:
            return ()
        return call_in_grad_mode(run.create_graph, self.saved.read, self.name())

    @property
    def storages(self) -> tuple[Storage, ...]:
        """The storages of the residuals."""
        if isinstance(self.saved, SavedSlots):
            return tuple([slot.storage for slot in self.saved.residuals])
        return () if self.saved is None else self.saved[len(self.plan.sources) :]

    def set_storages(self, storages: Sequence[Storage], versions: tuple[int, ...]) -> None:
        """Sets the storages of the residuals, and their versions."""
        assert self.saved is not None
        if isinstance(self.saved, SavedSlots):
            for slot, storage, version in zip(self.saved.residuals, storages, versions, strict=True):
                slot.move(storage, version)
            return
        self.saved = (*self.saved[: len(self.plan.sources)], *storages)
        self.versions = versions

    def _apply_recorded(self, grads: Sequence[Any], present: tuple[bool, ...]) -> Sequence[Any]:
        plan, state = self.plan, modes.state
        saved: Any = self.saved
        function = (present is _ALL_GIVEN and plan.sole) or plan.backward(present)
        if function.__class__ is Forwarding:  # as in torch, a gradient that is passed on keeps its history
            return map_given(_pass_on, function.run(*grads))  # a write to one is no write to others
        is_plain = saved.__class__ is tuple and self.kept is None and self.tangents is None
        if not is_plain or state.watchers or state.hook_pairs or not state.grad_enabled:
            return call_recorded(function, [*self.linked_residuals(), *grads])
        links = self.find_links(plan.sources)
        count = len(links)
        arrays, storages = [*saved[:count]], [*saved[count:]]
        for grad in grads:
            node = grad._grad_fn
            links.append(gradient_edge(grad) if node is None else (node, grad._output_nr))
            storages.append(grad._storage)
            arrays.append(grad._storage.array)
        if any(links):
            return self._record_formula(function, links, arrays, storages, state)
        return [None if output is None else box(output) for output in function(*arrays)]

    def _record_formula(
        self,
        function: ArrayFunction,
        links: list[Edge | None],
        arrays: list[Any],
        storages: list[Storage],
        state: ModeState,
    ) -> list[Tensor | None]:
        """Calls the formula of the node, and records the call, as :func:`record` does with Tensors.

        A pass with ``create_graph`` calls it for each node, and most of its arguments are saved values.

        Args:
            function: the formula.
            links: the edge of each argument, or None.
            arrays: the arguments.
            storages: the storage of each argument.
            state: the modes of this thread, which has no watchers and no hooks.
        """
        plan, *outputs = function.recorder(tuple(map(is_not, links, repeat(None))))(*arrays)
        node = _new(_node_class(function.name))
        node.plan, node.edges = plan, tuple(links)
        number_node(node, state)
        if config.record_lines and state.locations:
            node._location = self._location  # note_location would find it: no user code runs in between
        save_residuals(node, plan, arrays, storages)
        boxed: list[Tensor | None] = []
        for slot, output in enumerate(outputs):
            if output is None:
                boxed.append(None)
                continue
            tensor = box(output)
            if plan.differentiable[slot]:
                tensor._requires_grad = True
                tensor._grad_fn, tensor._output_nr = node, slot
            boxed.append(tensor)
        return boxed

    def linked_residuals(self) -> list[Tensor]:
        """Returns the residuals as tensors with history.

        Intermediates get the history of a call that computes them from the values they depend on. They are
        constants if there is no such call.
        """
        plan, saved = self.plan, self.saved
        if saved is None:
            raise second_pass_error(self.name())
        if isinstance(saved, SavedSlots):
            values, reads = saved.read(self.name()), saved.reads
            kept = [(read.read_residual(self.name()), read.storage) for read in reads]
        else:
            values = saved
            kept = self._check_kept()
        first_extra = plan.input_count + len(plan.outputs)
        pairs = zip(plan.sources, values, strict=False)
        known = dict(pair for pair in pairs if pair[0] >= first_extra)
        extras: Sequence[Tensor] = ()
        if known:
            extras = self._link_extras(kept, [known[index] for index in sorted(known)])
        return [
            extras[source - first_extra] if source >= first_extra else self.link_saved(source, value, storage)
            for source, value, storage in zip(plan.sources, values, self.storages, strict=False)
        ]

    def _check_kept(self) -> list[tuple[Any, Storage]]:
        """Returns the values from which intermediates are computed, with their storages."""
        if self.kept is None:
            return []
        values, storages, versions = self.kept
        for storage, version in zip(storages, versions, strict=True):
            check_version(self.name(), storage, version)
        return list(zip(values, storages, strict=True))

    def _link_extras(self, kept: Sequence[tuple[Any, Storage]], values: Sequence[Any]) -> Sequence[Any]:
        """Returns the intermediates as results of a call on the values they depend on, which is not run."""
        if self.plan.extras is None:
            return list(map(box, values))
        read = zip(self.plan.extra_reads, kept, strict=True)
        linked = [self.link_saved(source, *value) for source, value in read]
        return call_recorded(self.plan.extras, linked, values)

    def link_saved(self, source: int, value: Any, storage: Storage) -> Tensor:
        """Returns a tensor with history for a saved input or output."""
        tensor = box(value)
        if storage is not NOBODY:
            tensor._storage = storage
        if self.tangents is not None:
            tensor._tangent_slot = self.tangents[source]
        count = self.plan.input_count
        if source >= count:
            if self.plan.differentiable[source - count]:
                link(tensor, (self, source - count))
        elif (edge := self.edges[source]) is not None:
            link(tensor, edge)
        return tensor

    def _keeps_only_numbers(self, saved: Any) -> bool:
        """Returns whether all residuals are options such as ``alpha``: then nothing need be freed.

        A number in the place of a tensor is saved, as torch makes a tensor of it.
        """
        plan, count = self.plan, len(self.plan.sources)
        return (
            saved[count:].count(NOBODY) == count
            and bool(plan.names)
            and all(
                source < plan.input_count and plan.names[source] not in _OPERANDS for source in plan.sources
            )
        )

    def release(self) -> None:
        """Frees the residuals. A node without residuals of tensors can run again."""
        saved: Any = self.saved
        if not saved:
            return
        if saved.__class__ is not tuple:
            saved.free()
        elif saved[-1] is NOBODY and self._keeps_only_numbers(saved):
            return
        self.saved = None
        if self.kept is not None:  # an attribute that only the class has would be made
            self.kept = None
        if self.tangents is not None:
            self.tangents = None


def _pass_on(grad: Tensor) -> Tensor:
    """Returns a Tensor of its own at the same edge; of a leaf too, into which torch refuses a write."""
    tensor = box(grad._storage.array)
    tensor._tangent_slot = grad._tangent_slot
    edge = gradient_edge(grad)
    if edge:
        link(tensor, edge)
    return tensor


def record(
    node_class: type[FormulaNode],
    result: Sequence[Any],
    tensors: Sequence[Tensor | None],
    arrays: Sequence[Any],
) -> list[Any]:
    """Records a call on the tape, and makes Tensors of its outputs.

    Args:
        node_class: the class of the node, which has its name.
        result: the flat result of the recorder of the call: plan, outputs, extras.
        tensors: the tensor of each input array, or None for a constant.
        arrays: the input arrays.

    Returns:
        One Tensor per output; None for an output that is None.
    """
    plan: BackwardPlan = result[0]
    state = modes.state
    first_extra = 1 + len(plan.outputs)
    values = (*arrays, *result[1:])
    boxed = [None if output is None else box(output) for output in result[1:first_extra]]
    node = make_node(node_class, plan, boxed, state, tensors)
    if state.hook_pairs:
        if plan.sources:
            node.saved = pack_residuals(plan, values, (*tensors, *boxed))
    else:
        storages = [NOBODY if tensor is None else tensor._storage for tensor in (*tensors, *boxed)]
        storages += [NOBODY] * len(result)  # at least one for each extra
        save_residuals(node, plan, values, storages)
        if plan.extras is not None:
            read = tuple([storages[index] for index in plan.extra_reads])
            kept = tuple([values[index] for index in plan.extra_reads])
            node.kept = (kept, read, tuple([storage.version for storage in read]))
    if state.creation_hooks:
        tell_creation(node)
    return boxed


def make_node(
    node_class: type[FormulaNode],
    plan: BackwardPlan,
    outputs: Sequence[Any],
    state: ModeState,
    tensors: Sequence[Any],
) -> FormulaNode:
    """Makes the node of a call, and sets the history of the outputs that have gradients.

    Args:
        node_class: the class of the node.
        plan: the plan of the backward.
        outputs: the outputs as Tensors.
        state: the modes of this thread.
        tensors: the tensor of each input array. Only those with a wanted gradient are read.
    """
    node = _new(node_class)
    node.plan = plan
    link_inputs(node, tensors, plan.wanted)
    enter_node(node, state)
    for slot, output in enumerate(outputs):
        if plan.differentiable[slot]:
            output._requires_grad = True
            output._grad_fn = node
            if slot:
                output._output_nr = slot
    return node


def save_residuals(
    node: FormulaNode, plan: BackwardPlan, values: Sequence[Any], storages: Sequence[Storage]
) -> None:
    """Saves the values that the formula reads."""
    if plan.sources:
        owners = plan.pick(storages)
        node.saved = (*plan.pick(values), *owners)
        versions = list(map(_get_version, owners))
        if any(versions):
            node.versions = tuple(versions)


def call_recorded(
    function: ArrayFunction, tensors: Sequence[Tensor], known: Sequence[Any] | None = None
) -> Sequence[Any]:
    """Calls an array function on tensors as an op.

    The call is recorded if grad mode is on and an input requires grad. It carries tangents in forward mode.

    Args:
        function: the function.
        tensors: its arguments.
        known: the arrays that it would return, if they are known: then it is not run.
    """
    outputs = call_without_tangents(function, tensors, known)
    if modes.state.watchers and (tangents := find_tangents(tensors)) is not None:
        push = partial(call_without_tangents, function.jvp(mask_given(tangents)))
        push_tangents(push, tensors, tangents, outputs)
        keep_tangents(tensors, outputs)
    return outputs


def keep_tangents(inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None]) -> None:
    """Makes the node of a call save tangents with the values, for forward mode over its backward."""
    for output in outputs:
        node: Any = None if output is None else output._grad_fn
        if isinstance(node, FormulaNode):
            node.tangents = save_tangents([*inputs, *outputs])
            return


def call_without_tangents(
    function: ArrayFunction, tensors: Sequence[Tensor], known: Sequence[Any] | None = None
) -> Sequence[Any]:
    """Calls an array function on tensors. The call is recorded if grad mode and an input require it.

    The arguments are those of :func:`call_recorded`.
    """
    arrays = list(map(read_array, tensors))
    wanted = tuple([tensor._requires_grad for tensor in tensors])
    if not modes.grad_enabled or not any(wanted):
        outputs = function(*arrays) if known is None else known
        boxed = [None if output is None else box(output) for output in outputs]
        if modes.inference:
            for tensor in boxed:
                if tensor is not None:
                    mark_inference(tensor)
        return boxed
    recorder = function.recorder(wanted)
    if known is None:
        recorded = recorder(*arrays)
    elif not function.compiled or is_uncompiled():
        recorded = DerivedPlan(function, wanted, tuple(arrays), tuple(known)), *known
    else:
        recorded = jax.eval_shape(recorder, *arrays)[0], *known
    return record(_node_class(function.name), recorded, tensors, arrays)


@cache
def _node_class(name: str) -> type[FormulaNode]:
    return make_node_class(f"{name}Backward")


def make_node_class(
    name: str, *, has_one_slot: bool = False, hides_constants: bool = False, saved_names: tuple[str, ...] = ()
) -> type[FormulaNode]:
    """Makes the node class of one op. Graphs, errors and ``repr`` show its name.

    Args:
        name: the name of the class.
        has_one_slot: every node of the class receives one gradient.
        hides_constants: hooks see no slots for outputs that have no gradient.
        saved_names: the names of the arguments and results that are shown as ``_saved_<name>``.
    """
    facts = {"has_one_slot": has_one_slot, "hides_constants": hides_constants}
    return type(name, (FormulaNode,), {**facts, **make_saved_properties(saved_names)})
