"""The node of everything compiled: one backward is one XLA call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.config import config
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box

from .accumulate import AccumulateGrad, gradient_edge, leaf_edge
from .array_function import ArrayFunction, Plan
from .node import Edge, TapeNode
from .saved import check_version, second_pass_error

_new: Any = object.__new__
# Extras belong to no tensor: nobody can write them, so one storage that never changes stands for theirs.
NOBODY = Storage(None)
_ALL_GIVEN = (True,)


class _Edges:
    """Makes the edges of a node when somebody first looks, and then gives way to them.

    To make the accumulator of a leaf costs as much as to record the call, and many graphs never run.
    """

    def __get__(self, node: FormulaNode, owner: type) -> tuple[Edge | None, ...]:
        node.edges = tuple([leaf_edge(one) if isinstance(one, Tensor) else one for one in node.inputs])
        return node.edges


class FormulaNode(TapeNode):
    """A backward step whose formula is a pure array function, found through a plan.

    Attributes:
        inputs: for each input its edge, None, or the leaf; where ``edges`` have not been set instead.
        plan: how the recorded call differentiates.
        saved: the residuals, in the plan's order, and then the storages that these were read from; None once
            they have been freed.
        versions: the versions these storages had; None where each was 0, as of most.
        kept: inputs and outputs from which intermediates are computed anew when the backward itself is
            recorded, with their storages and versions; None where the plan has no intermediates.
    """

    plan: Plan
    inputs: tuple[Tensor | Edge | None, ...] = ()
    edges = _Edges()  # pyright: ignore[reportAssignmentType]  the instance's own stand before it
    saved: tuple[Any, ...] | None = ()
    versions: tuple[int, ...] | None = None
    kept: tuple[tuple[Any, ...], tuple[Storage, ...], tuple[int, ...]] | None = None
    results_are_checked = True

    def apply(self, grads: Sequence[Any], run: Any) -> Sequence[Any]:
        """Runs the formula; under ``create_graph`` it is recorded as an op on the saved values."""
        saved = self.saved
        if saved is None:
            raise second_pass_error(self.name())
        plan = self.plan
        count = len(plan.sources)
        if self.versions is not None:
            for storage, version in zip(saved[count:], self.versions, strict=True):
                if storage.version != version:
                    check_version(self.name(), storage, version)
        else:
            for storage in saved[count:]:
                if storage.version:
                    check_version(self.name(), storage, 0)
        if len(grads) == 1 and grads[0] is not None:
            given = _ALL_GIVEN
        else:
            given = tuple([grad is not None for grad in grads])
            grads = [grad for grad in grads if grad is not None]
            if not grads:
                return (None,) * plan.input_count
        if run.create_graph:
            return self._apply_recorded(grads, given)
        function = plan.sole if given is _ALL_GIVEN and plan.sole is not None else plan.backward(given)
        run_formula = function.run if config.compile_kernels else function.function
        return run_formula(*saved[:count], *grads)

    @property
    def storages(self) -> tuple[Storage, ...]:
        """The storages of the residuals."""
        return () if self.saved is None else self.saved[len(self.plan.sources) :]

    def set_storages(self, storages: Sequence[Storage]) -> None:
        """Says anew to which storages the residuals belong, whose versions they have now."""
        assert self.saved is not None
        self.saved = (*self.saved[: len(self.plan.sources)], *storages)
        self.versions = tuple([storage.version for storage in storages])

    def _apply_recorded(self, grads: Sequence[Any], given: tuple[bool, ...]) -> Sequence[Any]:
        return call_recorded(self.plan.backward(given), [*self.saved_tensors(), *grads])

    def saved_tensors(self) -> list[Tensor]:
        """Returns the residuals as tensors with history, intermediates linked through what they read."""
        if self.saved is None:
            raise second_pass_error(self.name())
        plan = self.plan
        extras = [] if plan.extras is None else list(self._recompute_extras(plan.extras))
        first_extra = plan.input_count + len(plan.outputs)
        return [
            extras[source - first_extra] if source >= first_extra else self._link(source, value, storage)
            for source, value, storage in zip(plan.sources, self.saved, self.storages, strict=False)
        ]

    def _recompute_extras(self, extras: ArrayFunction) -> Sequence[Any]:
        assert self.kept is not None
        linked: list[Tensor] = []
        for source, value, storage, version in zip(self.plan.extra_reads, *self.kept, strict=True):
            check_version(self.name(), storage, version)
            linked.append(self._link(source, value, storage))
        return call_recorded(extras, linked)

    def _link(self, source: int, value: Any, storage: Storage) -> Tensor:
        """A tensor for a saved input or output, at the place on the tape where it was saved."""
        tensor = box(value)
        if storage is not NOBODY:
            tensor._storage = storage
        count = self.plan.input_count
        if source >= count:
            tensor._requires_grad = self.plan.differentiable[source - count]
            if tensor._requires_grad:
                tensor._grad_fn, tensor._output_nr = self, source - count
        elif (edge := self.edges[source]) is not None:
            tensor._requires_grad = True
            node, slot = edge
            if isinstance(node, AccumulateGrad):
                tensor._accumulator = node.variable._accumulator
            else:
                tensor._grad_fn, tensor._output_nr = node, slot
        return tensor

    def release(self) -> None:
        """Frees the residuals; a node that has none can run again."""
        if not self.saved:
            return
        self.saved = None
        self.kept = None
        self.versions = None


def record(
    node_class: type[FormulaNode],
    result: Sequence[Any],
    tensors: Sequence[Tensor | None],
    arrays: Sequence[Any],
) -> list[Any]:
    """Puts one call on the tape and boxes its outputs.

    Args:
        node_class: the class of the node, which carries its name.
        result: what the recorder of the call gave, flat: plan, outputs, extras.
        tensors: the tensor behind each input array, or None for a constant.
        arrays: the input arrays.

    Returns:
        One Tensor per output, or None where the function gave None.
    """
    plan: Plan = result[0]
    first_extra = 1 + len(plan.outputs)
    outputs, extras = result[1:first_extra], result[first_extra:]
    node = _new(node_class)
    node.plan = plan
    node.input_metadata = plan.outputs
    node.edges = tuple(
        [
            gradient_edge(tensor) if want and tensor is not None else None
            for tensor, want in zip(tensors, plan.wanted, strict=True)
        ]
    )
    state = modes.state
    node.sequence_nr = state.sequence_nr
    state.sequence_nr += 1
    boxed = [None if output is None else attach(output, node, slot) for slot, output in enumerate(outputs)]
    storages = [NOBODY if tensor is None else tensor._storage for tensor in (*tensors, *boxed)]
    save(node, plan, (*arrays, *outputs, *extras), (*storages, *([NOBODY] * len(extras))))
    return boxed


def attach(output: Any, node: FormulaNode, slot: int) -> Tensor:
    """Boxes an output; it hangs on the node where its dtype has gradients."""
    tensor = box(output)
    if node.plan.differentiable[slot]:
        tensor._requires_grad = True
        tensor._grad_fn = node
        tensor._output_nr = slot
    return tensor


def save(node: FormulaNode, plan: Plan, values: tuple[Any, ...], storages: tuple[Storage, ...]) -> None:
    """Keeps what the plan reads, out of inputs, outputs and extras in this order."""
    node.saved = plan.pick_both((*values, *storages))
    node.versions = plan.pick(tuple([storage.version for storage in storages]))
    if plan.extras is not None:
        read = plan.gather_reads(storages)
        node.kept = (plan.gather_reads(values), read, tuple([storage.version for storage in read]))


def call_recorded(function: ArrayFunction, tensors: Sequence[Tensor]) -> Sequence[Any]:
    """Calls an array function on tensors as an op of its own: recorded where grad mode is on and needed."""
    arrays = [tensor._storage.array for tensor in tensors]
    wanted = tuple([tensor._requires_grad for tensor in tensors])
    if not modes.grad_enabled or not any(wanted):
        return [None if output is None else box(output) for output in function(*arrays)]
    return record(_node_class(function.name), function.recorder(wanted)(*arrays), tensors, arrays)


_node_classes: dict[str, type[FormulaNode]] = {}


def _node_class(name: str) -> type[FormulaNode]:
    found = _node_classes.get(name)
    if found is None:
        found = _node_classes[name] = make_node_class(f"{name}Backward")
    return found


def make_node_class(name: str, *, has_one_slot: bool = False) -> type[FormulaNode]:
    """Makes the node class of one op: the name is what graphs, errors and ``repr`` show."""
    return type(name, (FormulaNode,), {"has_one_slot": has_one_slot})
