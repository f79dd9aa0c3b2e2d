"""The functions that control flow calls, each traced into a pure function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.autograd.recording.origins import number_node
from oplib.errors import AutogradError, ResultError, TracingError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.storage.overlay import observe, stop_observing
from oplib.transforms.tracing.pruning import find_used_inputs

from .body_region import BodyRegion, Captured, run_in_region
from .leaves import LeafLayout, build_trees, flatten_leaves

_new: Any = object.__new__


class BodyInput(TapeNode):
    """Stands for the history of an argument inside of a body."""

    results_are_checked = True
    follows_jax = True
    has_one_slot = True

    def name(self) -> str:  # noqa: D102
        return "oplib::BodyInput"

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  its edges lead nowhere
        return ()


@dataclass(frozen=True)
class Body:
    """A traced function.

    Attributes:
        run: ``(*captured, *arguments) -> results``, of arrays.
        captured: what it reads of outside, and the constants of its trace.
        layouts: of the result; of each part of it, where it is a tuple of a known length.
        types: of the results, as ``jax.typeof`` gives them.
        requires_grad: for each result, whether the tape would have a history for it.
    """

    run: Callable[..., Sequence[Any]]
    captured: list[Captured]
    layouts: tuple[LeafLayout, ...]
    types: list[Any]
    requires_grad: list[bool]


@dataclass(frozen=True)
class BodyFunction:
    """A function to be traced.

    Attributes:
        function: of the user.
        what: the function, for errors, such as ``scan: 'f'``.
        layouts: of its arguments.
        types: of all leaves of the arguments, as ``jax.typeof`` gives them.
        captured: what it may read of outside.
        results: how many trees the result has to be; 0 if it is one.
    """

    function: Callable[..., Any]
    what: str
    layouts: tuple[LeafLayout, ...]
    types: tuple[Any, ...]
    captured: Sequence[Captured]
    results: int = 0

    def trace(self, requires_grad: Sequence[bool], *, recording: bool) -> Body:
        """Traces it: once, unless it reads something to which nothing leads and which has a gradient.

        Args:
            requires_grad: for each leaf of the arguments.
            recording: whether the tape is to differentiate it, if anything that it reads requires grad.

        Returns:
            The body as a function of arrays.
        """
        inputs = [one for one in self.captured if one.storage is not None]
        cutting = recording and (any(requires_grad) or _have_edge(inputs))
        while True:
            trace = _BodyTrace(self, inputs, requires_grad, cutting=cutting)
            read, constants = trace.list_read(), trace.list_constants()
            is_recorded = recording and (any(requires_grad) or _have_edge([*read, *constants]))
            if is_recorded == cutting and not _have_edge(constants):
                return Body(
                    trace.make_function(), [*read, *constants], trace.layouts, trace.types, trace.flags
                )
            inputs = [*[one for one in constants if one.edge is not None], *inputs]
            cutting = is_recorded


def _have_edge(captured: Iterable[Captured]) -> bool:
    return any(one.edge is not None for one in captured)


class _BodyTrace:
    """One trace of a body.

    Args:
        body: the function.
        captured: what it may read of outside, each of which is an input.
        requires_grad: for each leaf of the arguments.
        cutting: what does not require grad is a constant for JAX.

    Attributes:
        layouts, types, flags: of the results, see :class:`Body`.
    """

    layouts: tuple[LeafLayout, ...]
    flags: list[bool]

    def __init__(
        self,
        body: BodyFunction,
        captured: Sequence[Captured],
        requires_grad: Sequence[bool],
        *,
        cutting: bool,
    ) -> None:
        self._body = body
        self._captured = captured
        self._requires_grad = requires_grad
        self._cutting = cutting
        types = [jax.typeof(one.value) for one in captured]
        storages = [one.storage for one in captured if one.storage is not None]
        observed: list[Storage] = []
        try:
            observe({one: None for one in storages if one.owner is one}, observed)
            self._closed = jax.make_jaxpr(self._run)(*types, *body.types)
        finally:
            stop_observing(observed)
        self._used = find_used_inputs(self._closed.jaxpr)
        self.types = list(self._closed.out_avals)

    def _run(self, *arrays: Any) -> list[Any]:
        count = len(self._captured)
        region = self._region = BodyRegion(self._captured, arrays[:count], cutting=self._cutting)
        return run_in_region(region, lambda: self._call(region, arrays[count:]))

    def _call(self, region: BodyRegion, arrays: Sequence[Any]) -> list[Any]:
        first = modes.sequence_nr
        inputs = list(map(_enter, arrays, self._requires_grad))
        results = self._flatten(self._body.function(*build_trees(self._body.layouts, inputs)))
        self._check_written(inputs)
        self._refuse_hooks_and_nodes(results, first)
        self.flags = [tensor._requires_grad for tensor in results]
        return list(map(region.read, results))

    def _flatten(self, results: Any) -> list[Tensor]:
        body = self._body
        if body.results and (not isinstance(results, (tuple, list)) or len(results) != body.results):
            raise ResultError(
                f"{body.what} has to return a pair: the new carry, and what is kept of this call. Got "
                f"{describe(results)}. Return (carry, None) if nothing is kept."
            )
        trees = results if body.results else [results]
        flat = [flatten_leaves(tree, f"{body.what}: its result") for tree in trees]
        self.layouts = tuple(layout for _, layout in flat)
        return [tensor for tensors, _ in flat for tensor in tensors]

    def _check_written(self, inputs: Sequence[Tensor]) -> None:
        for tensor in inputs:
            if tensor._storage.version:
                raise AutogradError(
                    f"{self._body.what}: the function writes into an argument. Got {describe(tensor)}, which "
                    "is a value of the program, and no Tensor that outlives the call. Write into "
                    "tensor.clone(), and return that."
                )
        written = self._region.restore_written()
        if written:
            raise TracingError(
                f"{self._body.what}: the function writes into a Tensor that it captures. Got "
                f"{describe(written[0])}. Return the new value, and write it after the call."
            )

    def _refuse_hooks_and_nodes(self, results: Sequence[Tensor], first: int) -> None:
        """Raises if the function has a hook or a node of its own: JAX differentiates it, and runs neither."""
        ahead: list[Any] = [tensor._grad_fn for tensor in results]
        seen: set[Any] = set()
        while ahead:
            node = ahead.pop()
            if node is None or node in seen or node.sequence_nr < first or isinstance(node, AccumulateGrad):
                continue
            if node.has_hooks:
                raise AutogradError(
                    f"{self._body.what}: the function registers a hook. Got one on {node.name()}. The call "
                    "is differentiated as a whole, so the hook would never run. Register it outside, on an "
                    "argument or a result of the call."
                )
            if not node.follows_jax:
                raise AutogradError(
                    f"{self._body.what}: the function makes a node that JAX cannot follow. Got "
                    f"{node.name()}. JAX differentiates the function, and would not call the node. Use an op "
                    "or a Function with this backward."
                )
            seen.add(node)
            ahead += [None if edge is None else edge[0] for edge in node.edges]

    def list_read(self) -> list[Captured]:
        """Returns the inputs that the body has read."""
        return [one for one, use in zip(self._captured, self._used, strict=False) if use]

    def list_constants(self) -> list[Captured]:
        """Returns everything else that the body has read: JAX made constants of it."""
        arrays = [one for one in self._body.captured if one.storage is None]
        known = {id(one.value): one for one in (*arrays, *self._region.seen.values())}
        return [known.get(id(value), Captured(value)) for value in self._closed.consts]

    def make_function(self) -> Callable[..., Sequence[Any]]:
        """Returns the function of what the body has read, its constants and its arguments."""
        jaxpr, count = self._closed.jaxpr, len(self._captured)
        # Constants become inputs. From JAX 0.12 on a jaxpr holds its constants, and would keep them alive.
        read = [var for var, use in zip(jaxpr.invars[:count], self._used, strict=False) if use]
        inputs = [*read, *jaxpr.constvars, *jaxpr.invars[count:]]
        return jaxpr_as_fun(ClosedJaxpr(jaxpr.replace(constvars=(), invars=inputs), ()))


def _enter(array: Any, requires_grad: bool) -> Tensor:
    """Makes the Tensor that stands for an argument inside."""
    tensor = Tensor.from_array(array)
    if requires_grad:
        node: BodyInput = _new(BodyInput)
        node.input_metadata = (jax.typeof(array),)
        number_node(node, modes.state)
        tensor._requires_grad, tensor._grad_fn = True, node
    return tensor
