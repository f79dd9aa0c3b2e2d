"""The values that an op saves for its backward, by ``setup_context`` or by ``forward``, and their plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask, has_gradient, shape_of
from oplib.autograd.array_functions.array_types import zeros_of
from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.array_functions.liveness import find_live_inputs
from oplib.autograd.array_functions.masks import find_true, pick_given, pick_true
from oplib.errors import AutogradError
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.results import FORWARD, require_same_results
from oplib.library.arguments.structure import Results, Structure
from oplib.library.batching_and_sharding.levels import to_jax_array
from oplib.library.kernels.array_kernel import take_apart, type_results
from oplib.library.kernels.tensor_kernel import split_tensor_results
from oplib.library.kernels.tracing import any_traced, run_part, trace_to_jaxpr
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record
from oplib.protocols import Values
from oplib.tensor import box

from .formula import FormulaPlan
from .formula_context import Notes, SetupContext, read_context

Setup = Callable[[Sequence[Any]], tuple[list[Any], Notes]]


def plan_formula(
    overload: OpOverload,
    layout: Layout,
    structure: Structure,
    *,
    wanted: Mask,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    is_plain: bool,
) -> tuple[FormulaPlan, list[Any]]:
    """Runs ``setup_context`` for one signature.

    The setup is traced as a jaxpr of its own, with inputs and outputs as separate variables. A saved value
    that is one of these variables is a saved input or output, whatever the kernel computes. Every other saved
    value is an intermediate and becomes an extra output.

    Args:
        overload: the op.
        layout: the layout of the call.
        structure: the structure of its results.
        wanted: for each input array, whether its gradient is needed.
        inputs: the flat input arrays or tracers.
        outputs: the flat output arrays or tracers.
        is_plain: the setup runs as plain Python.

    Returns:
        The plan, and the values of the intermediates.
    """
    plan = FormulaPlan(overload, layout, structure, wanted=wanted, inputs=inputs, outputs=outputs)
    run = _bind_setup(plan)
    values = [*_separate(inputs), *outputs] if is_plain else [*inputs, *outputs]
    extras = _keep_by_identity(plan, run, values) if is_plain else _keep_traced(plan, run, values)
    if overload.record.derivative.linear:
        linear = _find_linear_inputs(plan, outputs)
        plan.constants = tuple(index for index, own in enumerate(linear) if not own)
        _refuse_reading(plan, [*values, *extras])
        plan.set_sources((*plan.sources, *plan.constants))
    return plan, extras


def _separate(arrays: Sequence[Any]) -> list[Any]:
    """Copies an array that stands at a second place, for a saved array is known by its identity."""
    first = {id(array): index for index, array in reversed(list(enumerate(arrays)))}
    return [array if first[id(array)] == index else array.copy() for index, array in enumerate(arrays)]


def _refuse_reading(plan: FormulaPlan, pool: Sequence[Any]) -> None:
    """Raises AutogradError if the formula of a linear op reads an argument in which the op is linear.

    On the host it reads what it gets.
    """
    count = len(plan.inputs) + len(plan.outputs)
    moving = set(range(count)).difference(plan.constants)
    if not moving.isdisjoint(plan.extra_reads):
        moving.update(range(count, len(pool)))
    reads = [source in moving for source in plan.sources]
    if any(reads) and not plan.is_on_host:
        saved = [shape_of(pool[source]) for source in plan.sources]
        cotangents = pick_true(plan.outputs, plan.differentiable)
        formula = plan.bind_formula(plan.differentiable, jnp)
        traced = jax.make_jaxpr(lambda *values: pick_given(formula(*values)))
        live = find_live_inputs(traced(*saved, *cotangents).jaxpr)
        reads = [own and live[index] for index, own in enumerate(reads)]
    if any(reads):
        source = plan.sources[reads.index(True)]
        name = "what setup_context computed from an argument or a result"
        if source < count:
            is_input = source < len(plan.inputs)
            name = f"argument '{plan.layout.find_argument(source)}'" if is_input else "a result"
        raise AutogradError(
            f"{plan.op_name}: the op is declared linear, and its backward formula reads {name}. The formula "
            "of a linear op depends on its gradients, and on arguments without a gradient. Leave out "
            "linear=True, or do not save the value."
        )


def _find_linear_inputs(plan: FormulaPlan, outputs: Sequence[Any]) -> Mask:
    """Tells for each input of a linear op whether the formula gives a gradient for it.

    A formula on the host is run for that, on zeros; any other one is traced.
    """
    floating = tuple(has_gradient(shape.dtype) for shape in plan.inputs)
    if sum(floating) == 1:
        return floating
    on_host = plan.is_on_host
    whole = FormulaPlan(
        plan.overload, plan.layout, plan.structure, wanted=floating, inputs=plan.inputs, outputs=outputs
    )

    def pull(values: Sequence[Any], cotangents: Sequence[Any]) -> Values:
        saved, whole.notes = _bind_setup(whole)(values)
        whole.set_sources(range(len(saved)))
        formula = whole.bind_formula(whole.differentiable, np if on_host else jnp)
        return formula(*map(np.asarray if on_host else to_jax_array, [*saved, *cotangents]))

    shapes = pick_given(plan.outputs)
    cotangents = pick_true(shapes, whole.differentiable)
    sample: Any = [*plan.inputs, *shapes], cotangents
    if on_host:
        with jax.ensure_compile_time_eval():
            grads = pull(*jax.tree_util.tree_map(zeros_of, sample))
    else:
        grads = jax.eval_shape(pull, *sample)
    given = iter(grads)
    return tuple([has and next(given) is not None for has in floating])


def _keep_traced(plan: FormulaPlan, run: Setup, values: list[Any]) -> list[Any]:
    noted: list[Notes] = []

    def traced_setup(*values: Any) -> list[Any]:
        arrays, notes = run(values)
        noted.append(notes)
        return arrays

    closed = trace_to_jaxpr(jax.jit(traced_setup), values, op=plan.op_name, part="setup_context")
    return _keep_by_variable(plan, noted[0], closed, values)


def _bind_setup(plan: FormulaPlan) -> Setup:
    """The user's setup as a function of the flat inputs and outputs."""
    record = plan.overload.record
    setup = record.derivative.setup_context
    boxed = record.takes_tensors

    def run(values: Sequence[Any]) -> tuple[list[Any], Notes]:
        ctx = SetupContext(plan.layout.split(plan.layout.spread_facts(plan.wanted))[0])
        flat = list(map(box, values)) if boxed else values
        if setup is not None:
            inputs, keyword_only = plan.layout.split(plan.layout.rebuild(flat))
            extra = {"keyword_only_inputs": keyword_only} if keyword_only else {}
            output = plan.structure.arrange_returns(flat[plan.input_count :])
            run_part(
                partial(setup, ctx=ctx, inputs=inputs, output=output, **extra),
                record.name,
                "setup_context",
                eager=boxed or not any_traced(values),
            )
        return read_context(ctx, values[plan.input_count :])

    return run


def _keep_by_identity(plan: FormulaPlan, run: Setup, values: list[Any]) -> list[Any]:
    """Finds saved inputs and outputs by object identity, for a setup that is not traced."""
    arrays, notes = run(values)
    extras = keep_arrays(plan, notes, arrays, values)
    if extras:
        indices = [index for index, source in enumerate(plan.sources) if source >= len(values)]
        plan.extra_reads = tuple(range(len(values)))
        plan.extras = ArrayFunction(
            lambda *read: tuple(run(read)[0][index] for index in indices),
            plan.overload.name(),
            compiled=False,
        )
    return extras


def keep_arrays(plan: FormulaPlan, notes: Notes, arrays: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Enters saved arrays into a plan, and returns those that are no value, which are its intermediates.

    Args:
        plan: the plan.
        notes: the notes of the setup.
        arrays: the saved arrays.
        values: the inputs and outputs, which are known by their identity.
    """
    extras: list[Any] = []
    sources: list[int] = []
    for array in arrays:
        index = next((index for index, value in enumerate(values) if value is array), None)
        sources.append(len(values) + len(extras) if index is None else index)
        if index is None:
            extras.append(array)
    plan.keep(notes, sources)
    return extras


def _keep_by_variable(plan: FormulaPlan, notes: Notes, closed: Any, values: list[Any]) -> list[Any]:
    """Finds saved inputs and outputs among the variables of the setup's jaxpr; computes the others."""
    indices = {var: index for index, var in enumerate(closed.jaxpr.invars)}
    saved_indices = [None if hasattr(var, "val") else indices.get(var) for var in closed.jaxpr.outvars]
    extra_outputs = [position for position, index in enumerate(saved_indices) if index is None]
    number = iter(range(len(values), len(values) + len(extra_outputs)))
    plan.keep(notes, [next(number) if index is None else index for index in saved_indices])
    if not extra_outputs:
        return []
    live = find_live_inputs(closed.jaxpr)
    plan.extra_reads = tuple(find_true(live))
    plan.extras = ArrayFunction(_bind_extras(plan, closed, extra_outputs), plan.overload.record.name)
    return list(plan.extras.function(*(values[index] for index in plan.extra_reads)))


def _bind_extras(plan: FormulaPlan, closed: Any, extra_outputs: list[int]) -> Callable[..., Values]:
    """Returns the intermediates as a function of the inputs and outputs that they read."""
    run = bind_jaxpr(closed)
    shapes = [*plan.inputs, *pick_given(plan.outputs)]

    def compute_extras(*read: Any) -> Values:
        full: list[Any] = list(map(zeros_of, shapes))
        for index, value in zip(plan.extra_reads, read, strict=True):
            full[index] = value
        outputs = run(*full)
        return tuple(outputs[position] for position in extra_outputs)

    return compute_extras


Forwarded = tuple[FormulaPlan, Values, Values]


def run_forward(
    overload: OpOverload, layout: Layout, arrays: Sequence[Any], *, wanted: Mask, due: Sequence[Any] = ()
) -> Forwarded:
    """Runs the forward of an op on arrays or tracers of one example, and plans the backward.

    A saved array that is an input or a result is known by its identity. Every other one is an intermediate.

    Args:
        overload: the op, which has a forward.
        layout: the layout of the call.
        arrays: the arrays of the call.
        wanted: for each of them, whether its gradient is needed.
        due: the shapes and dtypes of the kernel's results, if they are known.

    Returns:
        The plan, the results, and the intermediates.

    Raises:
        ResultError: the results are not those of the kernel.
    """
    record = overload.record
    ctx = SetupContext(layout.split(layout.spread_facts(wanted))[0])
    arrays = _separate(arrays)
    structure, flat = _run(record, layout, ctx, arrays)
    outputs = type_results(record, layout, arrays, flat)
    require_same_results(record.name, "forward", outputs, due)
    plan = FormulaPlan(overload, layout, structure, wanted=wanted, inputs=arrays, outputs=outputs)
    saved, notes = read_context(ctx, flat)
    extras = keep_arrays(plan, notes, saved, [*arrays, *flat])
    if extras:
        plan.extra_reads = tuple(range(len(arrays)))
        plan.extras = ArrayFunction(
            lambda *values: run_forward(overload, layout, values, wanted=wanted)[2], record.name
        )
    return plan, outputs, tuple(extras)


def _run(record: Record, layout: Layout, ctx: SetupContext, arrays: Sequence[Any]) -> Results:
    """Calls the user's function, and splits its results."""
    forward, boxed = record.derivative.forward, record.takes_tensors
    assert forward is not None
    args, kwargs = layout.split(layout.rebuild(list(map(box, arrays)) if boxed else arrays))
    call = partial(forward, ctx, *args, **kwargs)
    if not boxed:
        return run_part(
            lambda: take_apart(record, layout, call(), FORWARD),
            record.name,
            "forward",
            eager=record.is_untraced or not any_traced(arrays),
        )
    structure, tensors = run_part(
        lambda: split_tensor_results(record, call(), FORWARD), record.name, "forward", eager=True
    )
    return structure, [tensor._storage.array for tensor in tensors]
