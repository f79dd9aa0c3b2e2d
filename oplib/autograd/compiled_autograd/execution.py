"""The execution of a run: whether a program serves it, which one, and the call of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.width import x64
from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.modes import modes
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.fresh import FreshStorage
from oplib.tensor.storage.storage import Storage

from .capture import Skeleton, starts_as_array
from .compilers import check_compiler
from .graph_key import GraphWalk
from .instance import AutogradCompilerInstance
from .loggers import snapshot_verbose_logging_enabled
from .misses import explain_miss
from .program_cache import Entry, programs
from .recorder import NotServed
from .state import Compiler, current_compiler, note_eager

_PLAIN = (Storage, FreshStorage)


def execute_compiled(run: Run, roots: Sequence[Edge], grads: Gradients) -> bool:
    """Executes a run with its program, if a compiler is installed and a program can serve.

    Args:
        run: the run. Its modes are set.
        roots: the edges where gradients enter.
        grads: one for each of them.

    Returns:
        Whether the run is done. If not, nothing has changed.
    """
    compiler = current_compiler()
    if compiler is None or modes.state.vmap_levels or is_inside_trace():
        return False
    try:
        entry, inputs, nodes = _prepare(run, roots, grads, compiler)
    except NotServed as reason:
        run.node = None
        note_eager(str(reason))
        return False
    wrapper, program = entry.captured
    wrapper(program, inputs, [], nodes)
    return True


def _prepare(
    run: Run, roots: Sequence[Edge], grads: Gradients, compiler: Compiler
) -> tuple[Entry, list[Any], list[TapeNode]]:
    """Finds or makes the program of a run, and returns it with its inputs and the nodes of the graph."""
    _require(_find_obstacle(run) or _find_misfit(roots, grads))
    walk = GraphWalk()
    try:
        walk.walk(roots, run.plan)
    except BaseException:
        run.node = walk.node  # the error names it
        raise
    _require(_find_shared(walk.gradients))
    operands, places = walk.share_operands()
    inputs = [*grads, *operands]
    starts = [place for place, operand in enumerate(inputs) if operand.__class__ is tuple]
    for place in starts:
        inputs[place] = starts_as_array(inputs[place])
    _require("slices of arrays on several devices" if starts and _are_spread(inputs) else None)
    precision: object = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    # A traced backward that casts does so in the autocast state of the pass, as eagerly.
    key = (programs.token_of(compiler), x64.value, precision, modes.autocast, *walk.key)
    entry = programs.find(key)
    if entry is None or entry.needs_program():
        _require("values of an ended trace" if any(isinstance(one, Tracer) for one in inputs) else None)
        _require("arrays on an explicit mesh" if any(map(_has_explicit_sharding, inputs)) else None)
        entry = _make_program(run, roots, compiler, walk, inputs, places, key)
    return entry, inputs, walk.nodes


def _require(obstacle: str | None) -> None:
    """Raises if there is a reason why no program can serve."""
    if obstacle is not None:
        raise NotServed(obstacle)


def _find_obstacle(run: Run) -> str | None:
    """Returns why no program can serve a run; None if one can."""
    if run.create_graph:
        return "create_graph=True"
    if run.representation.tensor_mode:
        return "an open dual level"
    if modes.anomaly:
        return "anomaly detection"
    if modes.tracing is not None or modes.region is not None:
        return "the trace of a kernel"
    if is_uncompiled():
        return "compilation is switched off"
    return None


def _find_misfit(roots: Sequence[Edge], grads: Gradients) -> str | None:
    """Returns why root gradients do not fit the graph; None if they do."""
    for (node, slot), grad in zip(roots, grads, strict=True):
        if grad.shape != node.input_metadata[slot].shape:
            return "an output has another shape than its node"
    return None


def _find_shared(gradients: Sequence[Any]) -> str | None:
    """Returns why ``grad``s cannot be written by a program; None if they can."""
    storages = [grad._storage for grad in gradients]
    if len(set(storages)) < len(storages):
        return "leaves share the storage of their grads"
    if any(type(storage) not in _PLAIN for storage in storages):
        return "the grad of a leaf is a view"
    return None


def _are_spread(inputs: Sequence[Any]) -> bool:
    """Returns whether some array is on several devices."""
    return any(isinstance(array, jax.Array) and array.sharding.num_devices > 1 for array in inputs)


def _has_explicit_sharding(array: Any) -> bool:
    """Returns whether the type of an array says how it is spread. Such types are checked in each formula."""
    return isinstance(array, jax.Array) and any(jax.typeof(array).sharding.spec)


def _make_program(  # noqa: PLR0917  everything that the execution of a run has found
    run: Run,
    roots: Sequence[Edge],
    compiler: Compiler,
    walk: GraphWalk,
    inputs: Sequence[Any],
    places: Sequence[int],
    key: Any,
) -> Entry:
    """Captures a graph, and adds its program to the cache."""
    check_compiler(compiler)
    names = tuple([node.name() for node in walk.nodes])
    if snapshot_verbose_logging_enabled():
        explain_miss(key, names)
    entry = programs.find(key) or Entry(names)
    instance = AutogradCompilerInstance(compiler)
    values, _ = instance.begin_capture(inputs, [])
    arguments = [values[len(roots) + place] for place in places]
    skeleton = Skeleton(walk, run.plan, roots, values, arguments, dict(entry.expectations))
    captured = instance.capture_graph(run, skeleton)
    entry.set_program(instance.end_capture(captured), skeleton.expectations)
    return programs.add(key, entry)
