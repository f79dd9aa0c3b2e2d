"""The execution of a run: whether a program serves it, which one, and the call of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr

from oplib.autograd.array_functions.array_function import shape_of
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.width import x64
from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.config import config
from oplib.modes import modes
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.fresh import FreshStorage
from oplib.tensor.storage.storage import Storage

from .backward_program import BackwardProgram
from .compilers import compile_segment
from .graph_key import GraphWalk
from .program_cache import programs
from .recorder import NotServed, Recorder, Script
from .segment import SegmentFunction
from .state import (
    Compiler,
    counters,
    current_compiler,
    log,
    note_eager,
    runtime_wrapper,
    snapshot_verbose_logging_enabled,
    verbose_log,
)
from .steps import HostStep

_PLAIN = (Storage, FreshStorage)


def execute_compiled(run: Run, roots: Sequence[Edge], grads: Gradients) -> bool:
    """Executes a run, whose modes are set, with its program, if there is a compiler and a program can serve.

    Returns:
        Whether the run is done. If not, nothing has changed.
    """
    compiler = current_compiler()
    if compiler is None or modes.state.vmap_levels or is_inside_trace():
        return False
    try:
        program, inputs, nodes = _prepare(run, roots, grads, compiler)
    except NotServed as reason:
        run.node = None
        note_eager(str(reason))
        return False
    return runtime_wrapper(program.run, run, inputs, nodes)


def _prepare(
    run: Run, roots: Sequence[Edge], grads: Gradients, compiler: Compiler
) -> tuple[BackwardProgram, list[Any], list[TapeNode]]:
    """Finds or makes the program of a run, and returns it with its inputs and the nodes of the graph."""
    _check_run(run, roots, grads)
    walk = GraphWalk()
    try:
        walk.walk(roots, run.plan)
    except BaseException:
        run.node = walk.node  # the error names it
        raise
    storages = [grad._storage for grad in walk.gradients]
    _refuse("leaves share the storage of their grads", len(set(storages)) < len(storages))
    _refuse("the grad of a leaf is a view", any(type(storage) not in _PLAIN for storage in storages))
    operands, indices = walk.share_operands()
    inputs = [*grads, *operands]
    starts = [index for index, operand in enumerate(inputs) if operand.__class__ is tuple]
    for index in starts:
        inputs[index] = np.asarray(inputs[index], np.int32)
    is_spread = starts and any(isinstance(a, jax.Array) and a.sharding.num_devices > 1 for a in inputs)
    _refuse("slices of arrays on several devices", bool(is_spread))
    precision: object = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    # A traced backward that casts does so in the autocast state of the pass, as eagerly.
    key = (programs.token_of(compiler), x64.value, precision, modes.autocast, *walk.key)
    program = programs.find(key)
    if program is None or program.is_outdated:
        _refuse("values of an ended trace", any(isinstance(value, Tracer) for value in inputs))
        _refuse("arrays on an explicit mesh", any(map(_has_explicit_sharding, inputs)))
        program = _make_program(run, roots, compiler, walk, inputs, indices, key)
    return program, inputs, walk.nodes


def _check_run(run: Run, roots: Sequence[Edge], grads: Gradients) -> None:
    """Raises if no program can serve a run."""
    _refuse("create_graph=True", run.create_graph)
    _refuse("an open dual level", run.representation.tensor_mode)
    _refuse("anomaly detection", modes.anomaly)
    _refuse("the trace of a kernel", modes.tracing is not None or modes.region is not None)
    _refuse("compilation is switched off", is_uncompiled())
    for (node, slot), grad in zip(roots, grads, strict=True):
        is_other = grad.shape != node.input_metadata[slot].shape
        _refuse("an output has another shape than its node", is_other)


def _refuse(reason: str, holds: bool) -> None:
    """Raises if there is a reason why no program can serve."""
    if holds:
        raise NotServed(reason)


def _has_explicit_sharding(array: Any) -> bool:
    """Returns whether the type of an array says how it is spread. Such types are checked in each formula."""
    return isinstance(array, jax.Array) and any(jax.typeof(array).sharding.spec)


def _make_program(  # noqa: PLR0917  everything that the execution of a run has found
    run: Run,
    roots: Sequence[Edge],
    compiler: Compiler,
    walk: GraphWalk,
    inputs: Sequence[Any],
    indices: Sequence[int],
    key: Any,
) -> BackwardProgram:
    """Captures a graph, and adds its program to the cache."""
    former = programs.find(key)
    if snapshot_verbose_logging_enabled():
        programs.explain_miss(key, [node.name() for node in walk.nodes])
    counters["compiled_autograd"]["captures"] += 1
    script = Script()
    values = [script.make_value(shape_of(array)) for array in inputs]
    operands = [values[len(roots) + index] for index in indices]
    expectations = {} if former is None else former.expectations
    recorder = Recorder(run.plan, script, walk.nodes, operands, expectations)
    try:
        recorder.flow(roots, values[: len(roots)])
    except BaseException:
        run.node = recorder.node  # the error names it
        raise
    functions: list[SegmentFunction] = []

    def compile_function(jaxpr: ClosedJaxpr) -> Callable[..., Any]:
        functions.append(SegmentFunction(f"CompiledAutograd{programs.take_number()}", jaxpr))
        return compile_segment(compiler, functions[-1])

    program = BackwardProgram(recorder, compile_function, former=former)
    if config.stage_host_scalars:
        program.staged = _find_host_scalars(program, inputs)
    for function in functions:
        log.info("%s", function)
        verbose_log.debug("%s on %s", function.__name__, sorted(set(map(_platform, inputs))))
    programs.add(key, program)
    return program


def _find_host_scalars(program: BackwardProgram, inputs: Sequence[Any]) -> list[int]:
    """Returns the inputs that are numbers on the host and are read by segments only.

    They are moved if another input is on an accelerator.
    """
    on_host = [_platform(array) == "cpu" for array in inputs]
    if all(on_host):
        return []
    host_steps = [item for item in program.items if isinstance(item, HostStep)]
    read = {value.number for step in host_steps for value in step.arguments}
    pairs = enumerate(zip(inputs, on_host, strict=True))
    return [number for number, (value, here) in pairs if here and value.ndim == 0 and number not in read]


def _platform(array: Any) -> str:
    return next(iter(array.devices())).platform if isinstance(array, jax.Array) else "cpu"
