"""A compiled backward pass: the engine's flow, whose gradients are computed when somebody asks for them.

The flow runs at each pass, over nodes in the engine's order. The call of a formula adds a line to a list, and
its results are values without arrays. Python code (hooks, the backward of a Function) needs arrays, and so
does the end of the pass: then the lines so far run as one compiled function, which is found by the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import mask_given, pick_given
from oplib.autograd.array_functions.tokens import next_token
from oplib.autograd.array_functions.width import x64
from oplib.autograd.engine.flow import Flow
from oplib.autograd.engine.node_hooks import fit_received, run_pre_hooks, run_tensor_hooks, store_retained
from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.accumulate import AccumulateGrad, adding, refuse_old_gradient, store_sum
from oplib.autograd.nodes.gradient_representation import ARRAYS, GradientRepresentation
from oplib.autograd.nodes.hook_kinds import after, before, runs_python
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.config import config
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.devices.layout import is_explicit
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.fresh import FreshStorage
from oplib.tensor.storage.storage import Storage

from .compilers import compile_segment
from .program_cache import BackwardProgram, programs
from .segment_function import SegmentFunction
from .state import Compiler, counters, current_compiler, log, note_eager, runtime_wrapper, verbose_log
from .values import Value

MOST_CALLS = 200
"""The calls of formulas in one program. XLA's compile time grows faster than a program."""

_PLAIN = (Storage, FreshStorage)
_ADD = 0
_GIVEN = (True,)
_new: Any = object.__new__


def execute_compiled(run: Run, roots: Sequence[Edge], grads: Gradients) -> bool:
    """Executes a run, whose modes are set, compiled, if there is a compiler.

    Returns:
        Whether the run is done. If not, nothing has changed.
    """
    compiler = current_compiler()
    if compiler is None or modes.state.vmap_levels or is_inside_trace():
        return False
    reasons = {
        "create_graph=True": run.create_graph,
        "an open dual level": run.representation.tensor_mode,
        "anomaly detection": modes.anomaly,
        "the trace of a kernel": modes.tracing is not None or modes.region is not None,
        "compilation is switched off": is_uncompiled(),
        "arrays on an explicit mesh": any(map(_is_explicit, grads)),
        "an output has another shape than its node": any(
            grad.shape != node.input_metadata[slot].shape
            for (node, slot), grad in zip(roots, grads, strict=True)
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            note_eager(reason)
            return False
    runtime_wrapper(CompiledFlow(run, compiler).execute, roots, grads)
    return True


class _Deferred(GradientRepresentation):
    """Gradients as arrays and values. The sum of two is a line."""

    def __init__(self, flow: CompiledFlow) -> None:
        self._flow = flow

    def add(self, a: Any, b: Any) -> Any:
        return self._flow.add(a, b)


_MOST_KNOWN = 4096
_known: dict[Any, tuple[int, list[Any], int]] = {}
# by formula and mask (where it is not _GIVEN): a number, the types of the results, and the count of arguments


class CompiledFlow(Flow):
    """One compiled pass. It stores what the eager run stores, when the lines before have run."""

    is_symbolic = True

    def __init__(self, run: Run, compiler: Compiler) -> None:
        self.plan, self.captured = run.plan, run.captured
        self.representation = _Deferred(self)
        self.keep_graph, self.create_graph = True, False
        self.node, self.ready, self.buffers = None, [], {}
        self._run, self._compiler = run, compiler
        self._calls, self._is_new = 0, False
        precision: object = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        self._settings = (programs.token_of(compiler), x64.value, precision, modes.autocast)
        self._begin()

    def _begin(self) -> None:
        # for each line its formula, and then its arguments: results of lines, or inputs, which are negative
        self._lines: list[int] = []
        self._sources: list[tuple[TapeNode, Any, int, int]] = []  # node, formula or mask, call, arguments
        self._inputs: list[Any] = []
        self._facts: list[Any] = []  # of the inputs that are gradients
        self._slots: dict[int, int] = {}
        self._count = 0
        self._stores: list[tuple[TapeNode, int, Any, int | None]] = []
        # node, slot, gradient, and which input is the grad that it is added to
        self._idle: list[TapeNode] = []
        self._held: set[Any] = set()  # the owners of grads that are added to

    def execute(self, roots: Sequence[Edge], grads: Gradients) -> None:
        """Runs the pass, and puts the captured gradients into the run."""
        try:
            self.flow(roots, grads)
            self._calculate()
            self.captured[:] = map(_read, self.captured)
        except BaseException:
            self._run.node = self.node
            raise
        finally:
            self.representation = ARRAYS  # the two held each other
        self._run.node = None

    # Lines ------------------------------------------------------------------------------------

    def add(self, a: Any, b: Any) -> Any:
        """Returns the sum of two gradients."""
        aval = a.aval
        self._lines += _ADD, self._enter(a), self._enter(b)
        return self._make_value(aval)

    def _make_value(self, aval: Any) -> Value:
        self._count += 1
        return Value(self._count - 1, aval)

    def _enter(self, grad: Any) -> int:
        """Returns the number of a gradient: not negative for a result of a line, else that of an input."""
        if grad.__class__ is Value:
            if grad.number >= 0:
                return grad.number
            grad = grad.array
        slot = self._slots.get(id(grad))
        if slot is None:
            slot = self._enter_operand(grad)
            self._facts.append((slot, grad.shape, grad.dtype, getattr(grad, "weak_type", False)))
        return slot

    def _enter_operand(self, operand: Any) -> int:
        inputs = self._inputs
        if operand.__class__ is tuple:
            inputs.append(np.asarray(operand, np.int32))
            return -len(inputs)
        inputs.append(operand)
        slot = -len(inputs)
        if getattr(operand, "shape", True):  # numbers may be equal by chance
            self._slots[id(operand)] = slot
        return slot

    def run_hooked(self, node: TapeNode, grads: list[Any]) -> Gradients:  # noqa: D102  described in Flow
        self._calls += 1
        if node.has_hooks:
            if node.fits_gradients:
                grads = self.fit_received(node, grads)
            if runs_python(node, before):
                grads = run_pre_hooks(node, self._read(grads), self._run)
            else:
                self._retain(node, grads)
            if runs_python(node, after):
                return self._run_host(node, grads)
        if node.__class__ is AccumulateGrad:
            return self._store(node, grads[0])
        return self._record(node, grads)

    def _record(self, node: TapeNode, grads: list[Any]) -> Gradients:
        operands: list[Any] = []
        token = node.read_operands(operands)
        if len(grads) == 1 and grads[0] is not None:
            present = _GIVEN
        else:
            present = mask_given(grads)
            if token is not None and True not in present and not node.runs_without_gradients:
                self._idle.append(node)
                return [None] * len(node.edges)
        if token is None:
            return self._run_host(node, grads)
        key = token if present is _GIVEN else (token, present)
        known, formula = _known.get(key), present
        if known is None or node.runs_without_gradients:
            known, formula = _learn(key, node, present, [*operands, *grads])
        if known is None:
            return self._run_host(node, grads)
        number, avals, taken = known
        if len(self._sources) >= MOST_CALLS:
            self._calculate(grads)
        lines, slots, count = self._lines, self._slots, self._count
        lines.append(number)
        for operand in operands:
            slot = slots.get(id(operand))
            lines.append(self._enter_operand(operand) if slot is None else slot)
        for grad in grads:
            if grad is not None:
                is_open = grad.__class__ is Value and grad.number >= 0
                lines.append(grad.number if is_open else self._enter(grad))
        self._sources.append((node, formula, self._calls, taken))
        results: list[Any] = []
        for aval in avals:
            value = None
            if aval is not None:
                value = _new(Value)
                value.number, value.aval = count, aval
                count += 1
            results.append(value)
        self._count = count
        return results if self.plan.members is None else self._drop_unwanted(results, node.edges)

    # Python code ------------------------------------------------------------------------------

    def _read(self, grads: Iterable[Any]) -> list[Any]:
        """Returns gradients as arrays; the lines before run for that."""
        grads = list(grads)
        self._calculate(grads)
        self._run.node = self.node
        return list(map(_read, grads))

    def _run_host(self, node: TapeNode, grads: Sequence[Any]) -> Gradients:
        results = self._run.run_past_pre_hooks(node, self._read(grads))
        if not self._run.keep_graph:
            node.release()
        return results

    def run_tensor_hooks(self, node: TapeNode, grads: list[Any]) -> None:  # noqa: D102  described in Flow
        if runs_python(node, [kind for kind in before if kind.is_of_tensor]):
            grads[:] = self._read(grads)
            run_tensor_hooks(node, grads, self._run)
        else:
            self._retain(node, grads)

    def fit_received(self, node: TapeNode, grads: list[Any]) -> list[Any]:  # noqa: D102  described in Flow
        specs = node.input_metadata
        return [
            grad if grad is None or grad.shape == spec.shape else self._fit(node, slot, grad)
            for slot, (grad, spec) in enumerate(zip(grads, specs, strict=True))
        ]

    def _fit(self, node: TapeNode, slot: int, grad: Any) -> Value:
        """Adds the line that fits a gradient to a tensor that got another shape."""
        run, count = self._run, len(node.input_metadata)

        def fit(array: Any) -> tuple[Any]:
            grads = [array if other == slot else None for other in range(count)]
            return (fit_received(node, grads, run)[slot],)

        function, spec = ArrayFunction(fit, node.name()), node.input_metadata[slot]
        key = "fit", not node.edges, slot, grad.shape, spec.shape, spec.dtype
        (aval,) = jax.eval_shape(fit, grad.aval)
        number, *_ = _known.setdefault(key, (next_token(), [], 1))
        self._lines += number, self._enter(grad)
        self._sources.append((node, function, self._calls, 1))
        return self._make_value(aval)

    def _retain(self, node: TapeNode, grads: Sequence[Any]) -> None:
        for slot, tensor in (node._retained or {}).items():
            if grads[slot] is not None and tensor() is not None:
                self._stores.append((node, slot, grads[slot], None))

    def _store(self, node: Any, grad: Any) -> Gradients:
        leaf = node.variable
        node.check()
        if not leaf._requires_grad:
            return ()
        if leaf._post_accumulate_hooks:
            node.apply(self._read([grad]), self._run)
            return ()
        if grad is not None:
            storage, source = getattr(leaf._gradient, "_storage", None), None
            if storage is not None and type(storage) in _PLAIN and storage not in self._held:
                spec = storage.spec
                if spec.shape != grad.shape:
                    refuse_old_gradient("AccumulateGrad", leaf._gradient, leaf)
                source = len(self._inputs)
                self._inputs.append(node)
                self._facts.append((~source, spec.shape, spec.dtype))
                aval = jax.ShapeDtypeStruct(spec.shape, spec.dtype)
                self._lines += _ADD, ~source, self._enter(grad)
                grad = self._make_value(aval)
            if storage is not None:
                self._held.add(storage.owner)  # a later sum reads it once this one is stored
            self._stores.append((node, 0, grad, source))
        return ()

    # Programs ---------------------------------------------------------------------------------

    def _find_open(self, received: Iterable[Any]) -> dict[int, list[Value]]:
        """Returns the values that somebody still reads, by the number of their result."""
        stored = [grad for _, _, grad, _ in self._stores]
        waiting = [grads for *_, grads in self.ready]
        found: dict[int, list[Value]] = {}
        for grad in chain(received, stored, *self.buffers.values(), *waiting, self.captured):
            if grad.__class__ is Value and grad.number >= 0:
                found.setdefault(grad.number, []).append(grad)
        return found

    def _calculate(self, received: Iterable[Any] = ()) -> None:
        """Runs the lines, and stores gradients."""
        if not (self._lines or self._stores or self._idle):
            return
        open_values, inputs = self._find_open(received), self._inputs
        with adding if self._held else nullcontext():
            for _, _, _, source in self._stores:
                if source is not None:
                    inputs[source] = inputs[source].variable._gradient._storage.array
            if open_values:
                results = self._call(tuple(open_values), inputs)
                for values, array in zip(open_values.values(), results, strict=True):
                    for value in values:
                        value.array, value.number = array, -1
            for store in self._stores:
                self._put(*store)
        if not self._run.keep_graph:
            for node in (*self._idle, *[source[0] for source in self._sources]):
                node.release()
        self._begin()

    def _put(self, node: Any, slot: int, grad: Any, source: int | None) -> None:
        """Stores a gradient in a tensor that keeps its own, or in a leaf; or stores the sum with its own."""
        array = _read(grad)
        if not isinstance(node, AccumulateGrad):
            store_retained(node, slot, array, self._run)
        elif source is None:
            node.apply([array], self._run)
        else:
            store_sum(node.variable._gradient, array)

    def _call(self, wanted: tuple[int, ...], inputs: Sequence[Any]) -> Sequence[Any]:
        key = self._settings, tuple(self._lines), wanted, tuple(self._facts)
        program = programs.find(key)
        if program is None:
            if any(isinstance(one, Tracer) or _is_explicit(one) for one in inputs):
                note_eager("values of an ended trace, or arrays on an explicit mesh")
                return _interpret(self._lines, self._list_calls(by_nodes=True), wanted, inputs)
            program = self._make_program(key, wanted, inputs)
        if config.stage_host_scalars:
            inputs = [jax.device_put(one) if one.ndim == 0 else one for one in inputs]
        try:
            return program.run(inputs)
        except Exception:
            if not (_are_apart(inputs) or any(map(_is_explicit, inputs))):
                raise
        note_eager("arrays are on different devices, or on an explicit mesh")
        return _interpret(self._lines, self._list_calls(by_nodes=True), wanted, inputs)

    def _list_calls(self, *, by_nodes: bool = False) -> list[tuple[str, Any, int]]:
        """Returns for each call its label, what computes it, and the number of its arguments.

        Args:
            by_nodes: the nodes run as in an eager pass, and not their formulas.
        """
        calls: list[tuple[str, Any, int]] = []
        for node, formula, call, count in self._sources:
            function: Any = formula if isinstance(formula, ArrayFunction) else node.find_function(formula)
            run = function.run
            if by_nodes and function is not formula:
                run = partial(self._run_node, node, formula)
            calls.append((f"{node.name()} (NodeCall {call - 1})", run, count))
        return calls

    def _run_node(self, node: TapeNode, present: Any, *arguments: Any) -> Gradients:
        grads = iter(arguments[len(arguments) - sum(present) :])
        return node.apply([next(grads) if has else None for has in present], self._run)

    def _make_program(self, key: Any, wanted: tuple[int, ...], inputs: Sequence[Any]) -> BackwardProgram:
        names = [node.name() for node, *_ in self._sources]
        programs.explain_miss(key, names)
        if not self._is_new:
            self._is_new = True
            counters["compiled_autograd"]["captures"] += 1
        lines, calls = self._lines, self._list_calls()
        forwarded: list[int | None] = []

        def run(*arrays: Any) -> Values:
            results = _interpret(lines, calls, wanted, arrays)
            indices = {id(array): index for index, array in enumerate(arrays)}
            forwarded[:] = [indices.get(id(result)) for result in results]
            return tuple([one for one, index in zip(results, forwarded, strict=True) if index is None])

        closed = jax.jit(run).trace(*inputs).jaxpr
        compiled = None
        if None in forwarded:
            function = SegmentFunction(f"CompiledAutograd{programs.take_number()}", closed)
            compiled = compile_segment(self._compiler, function)
            log.info("%s", function)
            verbose_log.debug("%s", function.__name__)
        program = BackwardProgram(names, compiled, forwarded)
        programs.add(key, program)
        return program


def _interpret(
    lines: Iterable[int], calls: Iterable[Any], wanted: Sequence[int], arrays: Sequence[Any]
) -> list[Any]:
    """Computes what is wanted, line by line."""
    results: list[Any] = []
    calls, numbers = iter(calls), iter(lines)
    for number in numbers:
        label, run, count = ("", None, 2) if number == _ADD else next(calls)
        slots = list(islice(numbers, count))
        arguments = [arrays[~slot] if slot < 0 else results[slot] for slot in slots]
        if run is None:
            results.append(ARRAYS.add(*arguments))
            continue
        with jax.named_scope(label):
            results += pick_given(run(*arguments))
    return [results[number] for number in wanted]


def _learn(key: Any, node: TapeNode, present: tuple[bool, ...], given: Sequence[Any]) -> tuple[Any, Any]:
    """Returns what a formula gives for these shapes, and its mask, or itself where the node forgets it.

    It returns None if the node has none, or on an explicit mesh, where types say more.
    """
    function, known = node.find_function(present), _known.get(key)
    if function is None:
        return None, None
    if known is None:
        arguments = [np.asarray(one, np.int32) if one.__class__ is tuple else one for one in given]
        arguments = [one.aval if isinstance(one, Value) else one for one in arguments if one is not None]
        if any(map(_is_explicit, arguments)):
            return None, None
        avals = list(jax.eval_shape(function.run, *arguments))
        if any(map(_is_explicit, avals)):
            return None, None
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[key] = next_token(), avals, len(arguments)
    return known, function if node.runs_without_gradients else present


def _is_explicit(array: Any) -> bool:
    kind = jax.typeof(array) if isinstance(array, jax.Array) else array
    return is_explicit(getattr(kind, "sharding", None))  # such types are checked in each formula


def _read(grad: Any) -> Any:
    return grad.array if grad.__class__ is Value else grad


def _are_apart(arrays: Iterable[Any]) -> bool:
    """Returns whether arrays are committed to different devices, which one program cannot read."""
    committed = [array.sharding.device_set for array in arrays if getattr(array, "committed", False)]
    return any(devices != committed[0] for devices in committed)
