"""The functions that control flow calls, each traced into a pure function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.recording.origins import number_node
from oplib.errors import AutogradError, ResultError, TracingError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Storage, Tensor
from oplib.tensor.storage.failed_reads import refuse_caught_reads
from oplib.tensor.storage.overlay import observe, stop_observing
from oplib.transforms.tracing.boundary import Boundary
from oplib.transforms.tracing.observed_tensor import use_overlay
from oplib.transforms.tracing.pruning import find_used_inputs
from oplib.transforms.tracing.python_changes import is_same_constant, is_same_jaxpr

from .body_region import BodyRegion, Captured, hold_weakly
from .leaves import LeafLayout, build_trees, compare, flatten_leaves


@dataclass(frozen=True)
class BodyFunction:
    """A function to be traced.

    Attributes:
        function: of the user.
        what: the function, for errors, such as ``scan: 'f'``.
        layouts: of its arguments.
        types: of all leaves of the arguments, as ``jax.typeof`` gives them.
        captured: the objects from outside that it may read.
        results: how many trees the result has to be; 0 if it is one.
    """

    function: AnyFunction
    what: str
    layouts: tuple[LeafLayout, ...]
    types: Values
    captured: Sequence[Captured]
    results: int = 0

    def trace(self, requires_grad: Sequence[bool]) -> Body:
        """Traces it: once, unless it reads something to which nothing leads and which has a gradient.

        Whether leaves of the arguments require grad matters only if the tape records.
        """
        recording = modes.grad_enabled and not modes.inference
        inputs = [capture for capture in self.captured if capture.storage is not None]
        cutting = recording and (any(requires_grad) or _have_edge(inputs))
        while True:
            body = Body(self, inputs, requires_grad, cutting=cutting)
            unknown = [capture for capture in body.constants if capture.edge is not None]
            is_recorded = recording and (any(requires_grad) or _have_edge(body.captured))
            if is_recorded == cutting and not unknown:
                return body
            inputs = [*unknown, *inputs]
            cutting = is_recorded


def _is_same_value(former: Captured, now: Captured) -> bool:
    """Whether a value is the same. One that was made inside may stand in a cache now."""
    return former.value is now.value or (former.path is None and is_same_constant(former.value, now.value))


def _have_edge(captured: Iterable[Captured]) -> bool:
    return any(capture.edge is not None for capture in captured)


class Body:
    """One trace of a function.

    Args:
        traced: the function.
        inputs: the objects from outside that it may read, each of which is an input.
        requires_grad: for each leaf of the arguments.
        cutting: whether operands that do not require grad are constants for JAX.

    Attributes:
        run: ``(*captured, *arguments) -> results``, of arrays.
        captured: the objects from outside that it reads, and the constants of its trace.
        constants: these alone.
        layouts: of the result; of each part of it, where it is a tuple of a known length.
        types: of the results, as ``jax.typeof`` gives them.
        has_effects: whether it does more than compute them.
        requires_grad: for each result, whether the tape would have a history for it.
        lost: views whose history may not be read, and whose values it reads, if it is not recorded.
    """

    layouts: tuple[LeafLayout, ...]
    requires_grad: list[bool]
    _seen: list[Callable[[], Captured | None]]  # of outside, beside the inputs

    def __init__(
        self,
        traced: BodyFunction,
        inputs: Sequence[Captured],
        requires_grad: Sequence[bool],
        *,
        cutting: bool,
    ) -> None:
        self._function, self._inputs, self._needs, self._cutting = traced, inputs, requires_grad, cutting
        storages = [capture.storage for capture in inputs if capture.storage is not None]
        observed: list[Storage] = []
        try:
            observe({storage: None for storage in storages if storage.owner is storage}, observed)
            closed = jax.make_jaxpr(partial(refuse_caught_reads, traced.what, self._run))(
                *[jax.typeof(capture.value) for capture in inputs], *traced.types
            )
        finally:
            stop_observing(observed)
        used = find_used_inputs(closed.jaxpr)
        self.types, self.has_effects = list(closed.out_avals), bool(closed.effects)
        known = {id(capture.value): capture for capture in traced.captured if capture.storage is None}
        seen = [find() for find in self._seen]
        known |= {id(capture.value): capture for capture in seen if capture is not None}
        # JAX has made constants of everything that the body has read beside the inputs
        self.constants = [known.get(id(value), Captured(value)) for value in closed.consts]
        self.captured = [
            *[capture for capture, use in zip(inputs, used, strict=False) if use],
            *self.constants,
        ]
        # Constants become inputs. From JAX 0.12 on a jaxpr holds its constants, and would keep them alive.
        jaxpr, count = closed.jaxpr, len(inputs)
        read = [var for var, use in zip(jaxpr.invars[:count], used, strict=False) if use]
        variables = [*read, *jaxpr.constvars, *jaxpr.invars[count:]]
        self._jaxpr = jaxpr.replace(constvars=(), invars=variables)
        self.run = bind_jaxpr(ClosedJaxpr(self._jaxpr, ()))

    def equals(self, other: Body) -> bool:
        """Whether another trace gave the same program, of the same values from outside."""
        return (
            is_same_jaxpr(self._jaxpr, other._jaxpr)
            and self.requires_grad == other.requires_grad
            and all(map(_is_same_value, self.captured, other.captured))
        )

    def _run(self, *arrays: Any) -> list[Any]:
        count = len(self._inputs)
        region = BodyRegion(self._inputs, arrays[:count], cutting=self._cutting)
        with use_overlay(region.overlay, region=region):
            results = self._call(region, arrays[count:])
        self._seen = list(map(hold_weakly, region.seen.values()))
        self.lost = region.lost
        return results

    def _call(self, region: BodyRegion, arrays: Sequence[Any]) -> list[Any]:
        first = modes.sequence_nr
        inputs = list(map(partial(_enter, self._function.what), arrays, self._needs))
        results = self._flatten(self._function.function(*build_trees(self._function.layouts, inputs)))
        self._check_written(region, inputs)
        if any(slot.is_packed for slot in region.packed):  # a backward inside has freed what it has unpacked
            raise AutogradError(
                f"{self._function.what}: the function enters hooks for saved tensors. They have packed "
                f"{len(region.packed)} values. The call is differentiated as a whole, so these values would "
                "never be unpacked. Enter the hooks around the call."
            )
        self._refuse_hooks_and_nodes(results, first)
        self.requires_grad = [tensor._requires_grad for tensor in results]
        return list(map(region.read, results))

    def _flatten(self, results: Any) -> list[Tensor]:
        body = self._function
        if body.results and (not isinstance(results, (tuple, list)) or len(results) != body.results):
            raise ResultError(
                f"{body.what} has to return a pair: the new carry, and what is kept of this call. Got "
                f"{describe(results)}. Return (carry, None) if nothing is kept."
            )
        trees = results if body.results else [results]
        flat = [flatten_leaves(tree, f"{body.what}: its result") for tree in trees]
        self.layouts = tuple(layout for _, layout in flat)
        return [tensor for tensors, _ in flat for tensor in tensors]

    def _check_written(self, region: BodyRegion, inputs: Sequence[Tensor]) -> None:
        what = self._function.what
        for tensor in inputs:
            if tensor._storage.version:
                raise AutogradError(
                    f"{what}: the function writes into an argument. Got {describe(tensor)}, which "
                    "is a value of the program, and no Tensor that outlives the call. Write into "
                    "tensor.clone(), and return that."
                )
        written = region.restore_written()
        if written:
            raise TracingError(
                f"{what}: the function writes into a Tensor that it captures. Got "
                f"{describe(written[0])}. Return the new value, and write it after the call."
            )

    def _refuse_hooks_and_nodes(self, results: Sequence[Tensor], first: int) -> None:
        """Raises if the function has a hook or a node of its own: JAX differentiates it, and runs neither."""
        what = self._function.what
        ahead: list[Any] = [tensor._grad_fn for tensor in results]
        seen: set[Any] = set()
        while ahead:
            node = ahead.pop()
            if node is None or node in seen or node.sequence_nr < first or isinstance(node, AccumulateGrad):
                continue
            if node.has_hooks:
                raise AutogradError(
                    f"{what}: the function registers a hook. Got one on {node.name()}. The call "
                    "is differentiated as a whole, so the hook would never run. Register it outside, on an "
                    "argument or a result of the call."
                )
            if not node.follows_jax:
                raise AutogradError(
                    f"{what}: the function makes a node that JAX cannot follow. Got "
                    f"{node.name()}. JAX differentiates the function, and would not call the node. Use an op "
                    "or a Function with this backward."
                )
            seen.add(node)
            ahead += [None if edge is None else edge[0] for edge in node.edges]


def _enter(what: str, array: Any, requires_grad: bool) -> Tensor:
    """Makes the Tensor that stands for an argument inside."""
    tensor = Tensor.from_array(array)
    if requires_grad:
        message = (
            f"{what}: a backward inside the function reaches an argument, whose history is outside. Got "
            f"{describe(array)}. Take the gradient with oplib.autograd.grad(result, inputs), which returns "
            "it, or call backward outside, on the result of the call."
        )
        node = Boundary.make(jax.typeof(array), message)
        number_node(node, modes.state)
        tensor._requires_grad, tensor._grad_fn = True, node
    return tensor


def check_carry(what: str, carry: LeafLayout, types: Sequence[Any], body: Body) -> None:
    """Raises a ResultError where the first result of a body is another carry than it gets."""
    compare(
        carry,
        types,
        body.layouts[0],
        body.types[: body.layouts[0].count],
        f"{what} returns another carry than it gets",
        "Return a carry of the structure, shapes and dtypes of the first one",
    )
