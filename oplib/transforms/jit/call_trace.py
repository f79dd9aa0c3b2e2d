"""One trace of a function: its jaxpr, its effects, and the backward of what it returns with a history."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, Tracer
from jax.flatten_util import ravel_pytree
from jax.sharding import AbstractMesh

from oplib.autograd.array_functions.compilation import (
    bind_jaxpr,
    rename_function,
)
from oplib.autograd.array_functions.filled_plan import call_jaxpr
from oplib.autograd.array_functions.masks import find_true, mask_given, pick_given
from oplib.autograd.engine.backward_and_grad import grad
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.accumulate import gradient_edge, leaf_edge
from oplib.autograd.nodes.edges import GradientEdge
from oplib.autograd.nodes.error import Error
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.autograd.recording.view import has_lost_history
from oplib.errors import AutogradError, MissingRuleError, OplibError, TracingError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.devices.device import find_common_device
from oplib.tensor.devices.layout import constrain, find_spread
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.failed_reads import refuse_caught_reads
from oplib.tensor.storage.overlay import Overlay, observe, stop_observing
from oplib.transforms.tracing.boundary import Boundary
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.observed_tensor import (
    StateSnapshot,
    is_observed_tensor,
    observe_tensors,
    use_overlay,
)
from oplib.transforms.tracing.paths import CapturedPath
from oplib.transforms.tracing.pruning import prune
from oplib.transforms.tracing.python_changes import (
    call_and_compare_state,
    is_same_constant,
    is_same_jaxpr,
    refuse_changes,
)

from .collector import FEWEST_PACKED, Collector
from .effects import Effects, Source

tracing = threading.RLock()
"""Held while a function is traced: two traces of one model would see each other's gradients."""

LARGEST_PACKED = 1024  # items together
_scopes = itertools.count(-1, -1)  # never those of kernel traces
_Edges = list[tuple[int | None, GradientEdge]]
"""Operands by number, or None for cotangents and leaves, and where their gradients arrive."""


class TracedBackward(NamedTuple):
    """The backward of what a function returns with a history, as the tape runs it.

    Attributes:
        operands: those by which that can be differentiated.
        leaves: the Tensors that collect a gradient since the call; they come after the operands.
        specs: the shapes of what can be differentiated.
        pull: ``(*residuals, *cotangents) -> gradients``, with None for those that have none.
        residuals: for each residual whether it is an input, and the number of that input or output.
        reached: for each of ``operands`` and ``leaves``, and then for each cotangent, whether it has a
            gradient.
        has_edge: for each of the same, whether a gradient may go there: it has one, or a result that cannot
            be differentiated depends on it.
        paths: for each of ``specs`` the numbers in ``reached`` to which its gradient flows.
        refused: why some of ``specs`` cannot be differentiated, by their numbers: a backward inside has freed
            what theirs needs, a write inside has changed it, or a derivative is missing.
    """

    operands: list[int]
    leaves: list[Source]
    specs: list[Any]
    pull: Any
    residuals: list[tuple[bool, int]]
    reached: list[bool]
    has_edge: list[bool]
    paths: list[frozenset[int]]
    refused: dict[int, Exception]


class Trace:
    """Traces a function once.

    Args:
        name: of the function, for errors.
        call: runs the function; gets the arrays that stand for the array arguments.
        candidates: what the function could read.
        arrays: the array and number arguments.
        orders: for a trace of higher derivatives, the cotangents of the first backward, of the backward of
            that, and so on, as lists of shapes. Writes into Tensors are no effects then.

    Attributes:
        run: the function as JAX has traced it. A call in another trace is one equation, and traces nothing.
        closed: the jaxpr; see :class:`.candidates.Candidates` for its inputs.
        effects: what a call does beside computing.
        layouts: for each output its sharding over several devices; None where XLA chooses.
        backward: that of what the function returns with a history; None without.
        device: that of all arrays that the function may read; None for several.
        unread_grads: the operands whose gradient from before the call has no influence. So a step that clears
            the gradients before its backward needs one program, whether there were gradients or not.
        gradients: of a trace of higher derivatives, for each gradient its output and its slot of the node.
        snapshot: the operands before the trace.
    """

    closed: Any

    def __init__(
        self,
        name: str,
        call: AnyFunction,
        candidates: Candidates,
        arrays: Sequence[Any],
        orders: Sequence[Sequence[Any]] = (),
    ) -> None:
        self.name = name
        self.orders = orders
        self.candidates = candidates
        self.backward: TracedBackward | None = None
        self.unread_grads: frozenset[int] = frozenset()
        self.gradients: list[tuple[int, int | None]] = []
        self._is_restored = False
        self._behind = _find_behind(candidates.operands)  # a stale view looks its own up
        holders = [*candidates.containers, *candidates.operands]
        self.snapshot = StateSnapshot([path.value for path in candidates.operands], holders)
        self._collector = Collector(name, candidates, self.snapshot)
        self._trace(call, arrays)
        self.effects: Effects = self._collector.effects
        self.layouts: list[Any] = self._collector.layouts
        self._collector.release()

    def lower(self, arrays: Sequence[Any]) -> jax.stages.Lowered:
        """Returns the program for array arguments. The buffers of written Tensors are used again.

        No array needs a value, and the devices may not be there.
        """
        inputs = [*self.candidates.read(), *arrays]
        used, run = prune(self.run, self.closed, self.name)
        kept = find_true(used)
        read = [inputs[number] for number in kept]
        holders = dict(enumerate(self.candidates.holders if self.backward is None else ()))
        written = {operand for operand, output, _ in self.effects.writes if output is not None}
        donated = [index for index, number in enumerate(kept) if holders.get(number) in written]
        layouts = self.layouts if any(self.layouts) else None
        traced = jax.jit(run, donate_argnums=donated, out_shardings=layouts).trace(*read)
        is_elsewhere = any(isinstance(getattr(find_spread(one), "mesh", None), AbstractMesh) for one in read)
        return traced.lower(lowering_platforms=(jax.default_backend(),) if is_elsewhere else None)

    def _trace(self, call: AnyFunction, arrays: Sequence[Any]) -> None:
        """Traces, and leaves no mark on anything outside."""
        cotangents = [spec for specs in self.orders for spec in specs]
        inputs = [*self.candidates.read(), *arrays, *cotangents]
        self.device = find_common_device(inputs)

        def run_traced(*values: Any) -> list[Any]:
            try:
                return refuse_caught_reads(self.name, self._run, call, len(arrays), values)
            finally:  # before JAX looks for values that its trace leaves behind
                self._restore(observed)

        def run(*values: Any) -> list[Any]:
            return step(*values)

        step: AnyFunction = run_traced
        self.run = jax.jit(rename_function(run, self.name))
        collector = self._collector
        observed: list[Storage] = []
        try:
            observe(self.candidates.storages, observed)
            self.closed = self.run.trace(*inputs).jaxpr
            self._refuse_leaked(len(inputs))
        except BaseException:
            self.snapshot.restore_containers()
            raise
        else:
            collector.restore_entries()
            step = bind_jaxpr(self.closed)  # `run` reads it, for other types of inputs; it holds no trace
        finally:
            try:
                self._restore(observed)
            except BaseException:  # an interrupt, of which there is one
                self._restore(observed)
                raise

    def _refuse_leaked(self, count: int) -> None:
        """Raises if the function reads a value of a trace that has ended.

        JAX makes further inputs of such values, before the others, and then of all constants too.
        """
        leaked = self.closed.in_avals[: len(self.closed.in_avals) - count]
        if leaked:
            which = "" if len(leaked) == 1 else "one of "
            raise TracingError(
                f"{self.name}: the function reads a Tensor or array that was made inside another function "
                f"while that was traced, and kept. Got {which}{', '.join(map(describe, leaked))}. Its value "
                "existed only during that trace. Make it outside of both functions, or anew in each; "
                "functools.cache keeps it."
            )

    def _restore(self, observed: list[Storage]) -> None:
        """Leaves no mark on Tensors. A second call does nothing, unless the first was interrupted."""
        if self._is_restored:
            return  # another thread may have written the Tensors since
        collector = self._collector
        stop_observing(observed)
        self.snapshot.restore()
        for tensor, where in collector.made:  # they raise an error of oplib where they are used outside
            tensor._storage = EndedStorage(self.name, where)
        collector.end()
        self._is_restored = True

    def _run(self, call: AnyFunction, count: int, inputs: Values) -> list[Any]:
        """Runs the function on the values of JAX's trace."""
        candidates, collector = self.candidates, self._collector
        versions = [storage.version for storage in candidates.storages]
        first = candidates.array_start
        overlay = self._make_overlay(inputs, versions)
        overlay.device = self.device

        with use_overlay(overlay, tracing=overlay.name, tracing_scope=overlay.scope):
            observe_tensors(self.snapshot.tensors, overlay)
            boundaries = _set_boundaries(self.name, candidates.operands, self._behind)
            edges: _Edges = [
                (number, GradientEdge(*edge))
                for number, path in enumerate(candidates.operands)
                if modes.grad_enabled and (edge := _find_edge(path.value)) is not None
            ]
            result = call_and_compare_state(self.name, call, *inputs[first : first + count])
            for boundary in boundaries:
                boundary.edges = ()
            self.unread_grads = frozenset(
                number
                for number, (tensor, *_) in enumerate(self.snapshot.tensors)
                if is_observed_tensor(tensor) and id(tensor) not in overlay.read_grads
            )
            collector.collect(result, overlay, inputs, versions)
            for _, leaf in collector.leaves:
                node: Any
                node, slot = gradient_edge(leaf) or leaf_edge(leaf)
                edges.append((None, GradientEdge(node, slot)))
                if leaf._retains_grad:  # the call stores the gradient, see WriteBack.list_edges
                    node.stop_retaining(slot)
            if self.orders:
                self._differentiate_again(edges, inputs[first + count :])
            if collector.live:
                self.backward = self._differentiate(edges, inputs)
        return collector.outputs

    def _make_overlay(self, inputs: Values, versions: list[int]) -> Overlay:
        candidates = self.candidates
        overlay = Overlay(self.name, next(_scopes))
        overlay.outside = frozenset(candidates.numbers)
        for storage, array, version in zip(candidates.storages, inputs, versions, strict=False):
            cell = overlay.cells[storage] = Storage(array)
            cell.version = version
        starts = inputs[len(candidates.storages) : candidates.array_start]
        for path, key, count in zip(candidates.generators, starts[::2], starts[1::2], strict=True):
            overlay.shadows[path.value] = path.value.make_shadow(key, count)
        return overlay

    def _differentiate_again(self, edges: _Edges, values: Sequence[Any]) -> None:
        """Runs the backward as often as derivatives are asked for, each time recorded."""
        collector = self._collector
        outputs = collector.live
        arrays = iter(values)
        for specs in self.orders:
            cotangents = [box(next(arrays)) for _ in specs]
            for cotangent in cotangents:
                cotangent._requires_grad = True
            targets = [edge for _, edge in edges]
            outputs = pick_given(_differentiate_rest(outputs, targets, cotangents, create_graph=True)[0])
            edges += [(None, GradientEdge(*leaf_edge(cotangent))) for cotangent in cotangents]
        collector.forget_effects()
        for output in outputs:
            slot = collector.add_live(output) if output._grad_fn is not None else None
            self.gradients.append((collector.put(output._storage.array), slot))

    def _differentiate(self, edges: _Edges, inputs: Values) -> TracedBackward:
        """Traces the backward from all outputs with a history, with what it reads as residuals."""
        outputs = self._collector.live
        avals = [output._storage.spec for output in outputs]
        specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        ends = [edge.node for _, edge in edges]
        self._refuse_passing_leaves(outputs, ends)
        paths = [frozenset(_find_reached(gradient_edge(output), ends)) for output in outputs]
        operands = [number for number, _ in edges if number is not None]
        leaves = [source for source, _ in self._collector.leaves]
        for number in operands:  # the hooks of operands run outside, when the gradient arrives
            self.candidates.operands[number].value._backward_hooks = None
        targets = [edge for _, edge in edges]
        layouts = [None if number is None else self._collector.find_layout(number) for number, _ in edges]
        reached: list[bool] = []
        refused: dict[int, Exception] = {}

        def pull(*cotangents: Any) -> Values:
            gradients, reasons = _differentiate_rest(outputs, targets, list(map(box, cotangents)))
            reached[:] = mask_given(gradients)
            refused.update(reasons)
            pairs = zip(gradients, layouts, strict=True)
            arrays = [(gradient._storage.array, to) for gradient, to in pairs if gradient is not None]
            return tuple([array if to is None else constrain(array, to) for array, to in arrays])

        made = [(tensor, tensor._grad, tensor._storage.owner.array) for tensor, _ in self._collector.made]
        closed = self._trace_settled(pull, specs)
        self._refuse_changes(made)
        without = frozenset[int]().union(*[paths[number] for number in refused])
        has_edge = [has or index in without for index, has in enumerate(reached)]
        small = self._find_small(closed.consts, specs[0].dtype, inputs)
        order = sorted(range(len(closed.consts)), key=small.__contains__)
        values = [closed.consts[number] for number in order]
        jaxpr = closed.jaxpr  # from JAX 0.12 on it holds its constants
        variables = [*[jaxpr.constvars[number] for number in order], *jaxpr.invars]
        pulled = call_jaxpr(jaxpr.replace(constvars=(), invars=variables), tuple(reached))
        if small:
            packed, unpack = ravel_pytree(values[-len(small) :])
            values[-len(small) :] = [packed]
            pulled = partial(_unpack_and_call, pulled, len(values) - 1, unpack)
        residuals = list(self._keep_residuals(values, inputs))
        return TracedBackward(operands, leaves, specs, pulled, residuals, reached, has_edge, paths, refused)

    def _find_small(self, residuals: Sequence[Any], dtype: Any, inputs: Values) -> list[int]:
        """Returns which residuals the program packs into one array: many that are small together.

        JAX takes a microsecond to return an array, however small it is. But XLA compiles each kernel that
        reads a part by itself, and kernels that are alike once. Residuals with a weak type, on a mesh or in
        another memory stay as they are, and so does what exists after the call anyway.
        """
        others = set(map(id, (*inputs, *self._collector.outputs)))
        found = [
            number
            for number, value in enumerate(residuals)
            if jax.typeof(value) == ShapedArray(value.shape, dtype) and id(value) not in others
        ]
        is_small = sum(residuals[number].size for number in found) <= LARGEST_PACKED
        return found if is_small and len(found) >= FEWEST_PACKED and self.device is not None else []

    def _trace_settled(self, pull: AnyFunction, specs: Sequence[Any]) -> Any:
        """Traces the backward, and a second time if it has changed what it reads, such as a cache."""

        def settle() -> bool:
            nonlocal closed
            former = closed
            try:
                with refuse_changes(self.name, self.candidates):
                    closed = jax.make_jaxpr(partial(pull))(*specs)
            except OplibError:
                return False
            return is_same_jaxpr(former.jaxpr, closed.jaxpr) and all(
                map(is_same_constant, former.consts, closed.consts)
            )

        with refuse_changes(self.name, self.candidates, settle):
            closed = jax.make_jaxpr(pull)(*specs)
        return closed

    def _refuse_changes(self, made: Sequence[tuple[Tensor, Any, Any]]) -> None:
        """Raises if the traced backward has given a gradient, or another array, to a Tensor made inside."""
        for tensor, before, array in made:
            if tensor._grad is not before:
                how, cure = "gives a gradient to", "Use oplib.autograd.grad there, which returns the gradient"
            elif tensor._storage.owner.array is not array:
                how, cure = "writes into", "Write into a clone() there, or run the backward inside"
            else:
                continue
            raise TracingError(
                f"{self.name}: the backward of a Function {how} a Tensor that the compiled function returns "
                f"or keeps. Got {describe(tensor)}. A compiled backward that runs outside cannot store it "
                f"there. {cure}."
            )

    def _refuse_passing_leaves(self, outputs: Sequence[Tensor], ends: Sequence[Any]) -> None:
        """Raises if what the function returns depends on an operand that required grad only meanwhile."""
        for node in _list_nodes(outputs):
            number = self.candidates.numbers.get(id(getattr(node, "variable", None)))
            if number is not None and node not in ends:
                raise TracingError(
                    f"{self.name}: {self.candidates.operands[number].name} requires grad only while the "
                    "function runs, and a result of the function has a history from there. Call "
                    "requires_grad_() outside of the function, or detach the result."
                )

    def _keep_residuals(self, values: Sequence[Any], inputs: Values) -> Iterator[tuple[bool, int]]:
        """Yields for each value whether it is an input of the program, and its number there, or as output."""
        numbers = {id(value): number for number, value in enumerate(inputs)}
        for value in values:
            number = numbers.get(id(value))
            array = value if isinstance(value, Tracer) else jnp.asarray(value)
            yield (True, number) if number is not None else (False, self._collector.put(array))


def _unpack_and_call(
    function: AnyFunction, place: int, unpack: Callable[[Any], Sequence[Any]], *arrays: Any
) -> Any:
    return function(*arrays[:place], *unpack(arrays[place]), *arrays[place + 1 :])


def _differentiate_rest(
    outputs: Sequence[Tensor], targets: Sequence[Any], cotangents: Sequence[Tensor], **options: bool
) -> tuple[Sequence[Tensor | None], dict[int, Exception]]:
    """Returns the gradients of all outputs that can be differentiated, and why others cannot be.

    A derivative that cannot be computed raises where somebody asks for it, as in the uncompiled run.
    """
    options = {"retain_graph": True, "allow_unused": True, **options}
    refused: dict[int, Exception] = {}
    ends = [*targets, *_list_ends_of_errors(outputs)]
    if not ends:  # leaves that the function made, which nobody holds
        return [], refused
    try:
        return grad(outputs, ends, cotangents, **options)[: len(targets)], refused
    except (AutogradError, MissingRuleError):
        for number, output in enumerate(outputs):
            try:
                jax.eval_shape(partial(_differentiate_one, output, ends), output._storage.array)
            except (AutogradError, MissingRuleError) as error:
                refused[number] = type(error)(str(error))  # without its traceback
    kept = [number for number in range(len(outputs)) if number not in refused]
    if not kept:
        return [None] * len(targets), refused
    return grad([outputs[n] for n in kept], targets, [cotangents[n] for n in kept], **options), refused


def _list_ends_of_errors(outputs: Sequence[Tensor]) -> list[GradientEdge]:
    """Returns where the edges of nodes end that raise.

    They lead to no operand, so a pass to the operands alone would leave these nodes out in silence.
    """
    nodes = _list_nodes(outputs)
    return [GradientEdge(*edge) for node in nodes if isinstance(node, Error) for edge in node.edges if edge]


def _list_nodes(outputs: Sequence[Tensor]) -> list[TapeNode]:
    """Returns the nodes behind outputs, in the order of a pass."""
    return RunPlan(pick_given(map(gradient_edge, outputs))).find_order()


def _differentiate_one(output: Tensor, targets: Sequence[Any], cotangent: Any) -> None:
    grad([output], targets, [box(cotangent)], retain_graph=True, allow_unused=True)


def _find_reached(root: Edge | None, nodes: Sequence[Any]) -> list[int]:
    """Returns the indices of the nodes to which a gradient flows from an edge."""
    assert root is not None
    plan = RunPlan([root])
    return [index for index, node in enumerate(nodes) if node is not None and plan.executes(node)]


def _find_edge(tensor: Tensor) -> Edge | None:
    """Returns the edge of an operand; none if its history may not be read, which raises where it is."""
    return None if has_lost_history(tensor) else gradient_edge(tensor)


def _find_behind(operands: Sequence[CapturedPath]) -> dict[int, list[int]]:
    """Returns for each operand with a history the operands that its gradient flows to, all by their numbers.

    It is asked outside of the trace: an edge that is read inside belongs to the trace.
    """
    tensors = [path.value for path in operands]
    numbers = [n for n, one in enumerate(tensors) if not has_lost_history(one) and one._grad_fn is not None]
    edges = list(map(_find_edge, tensors)) if numbers else []
    nodes = [None if edge is None else edge[0] for edge in edges]
    return {n: [end for end in _find_reached(edges[n], nodes) if nodes[end] is not nodes[n]] for n in numbers}


def _set_boundaries(
    name: str, operands: Sequence[CapturedPath], behind: dict[int, list[int]]
) -> list[Boundary]:
    """Lets the histories of operands end at nodes that raise.

    The edges of each lead to the operands behind it. So a backward that looks for the gradient of one of
    these runs the node.
    """
    made: list[Boundary] = []
    for number in behind:
        tensor, spec = operands[number].value, operands[number].value._storage.spec
        message = (
            f"{name}: a backward inside the compiled function reaches a node that was recorded outside of "
            f"it. Got {describe(spec)}, found as {operands[number].name}. Call backward outside, on what the "
            "function returns, or compute that Tensor inside too, or detach() what a step hands to the next."
        )
        made.append(Boundary.make(spec, message))
        tensor._grad_fn, tensor._output_nr, tensor._backward_hooks = made[-1], 0, None
    for boundary, ends in zip(made, behind.values(), strict=True):
        boundary.edges = tuple([gradient_edge(operands[number].value) for number in ends])
    return made
