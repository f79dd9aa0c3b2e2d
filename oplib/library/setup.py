"""What an op keeps for its backward: the traced ``setup_context`` and the plan it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
from jax.extend.core import jaxpr_as_fun

from oplib.autograd.array_function import ArrayFunction, Mask, Plan, make_gather
from oplib.autograd.liveness import find_live_inputs
from oplib.config import config
from oplib.errors import AutogradError, MissingRuleError
from oplib.tensor import Tensor, box

from .formula import make_formula
from .host_formula import make_host_formula
from .infer_schema import infer_kind
from .layout import Layout, Slot
from .structure import Structure
from .tracing import running_rule

if TYPE_CHECKING:
    from .overload import OpOverload


class SetupContext:
    """The ``ctx`` that a ``setup_context`` function fills.

    Arrays set as attributes are saved like those given to ``save_for_backward``; everything else is kept as
    it is and is part of the compiled formula.
    """

    def __init__(self, needs_input_grad: tuple[Any, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved: tuple[Any, ...] = ()
        self._materialize = True
        self._non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps arrays for the formula's ``ctx.saved_tensors``; None is allowed.

        Raises:
            TypeError: something else was given.
        """
        for place, value in enumerate(tensors):
            if value is not None and not isinstance(value, (jax.Array, Tensor)):
                raise NotATensorError(
                    f"save_for_backward: argument {place} is not a tensor. Got {type(value).__name__}. "
                    f"Set other values as attributes of ctx."
                )
        self._saved = tensors

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declares that these outputs have no gradient."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """With False, the gradient of an unused output reaches the formula as None instead of zeros."""
        self._materialize = bool(value)


class NotATensorError(AutogradError, TypeError):
    """A value that cannot be saved for the backward."""


_OWN = frozenset({"needs_input_grad", "_saved", "_materialize", "_non_differentiable"})


@dataclass(frozen=True, slots=True, eq=False)
class Notes:
    """What a setup recorded, without the arrays: those stand in one flat list beside it.

    Attributes:
        saved: for each value given to ``save_for_backward`` whether it is an array (or None).
        attributes: names, tree structures and static leaves of the attributes; ``Slot.array`` stands for an
            array.
        materialize: unused outputs reach the formula as zeros.
        non_differentiable: for each flat output, whether it was marked.
        needs_input_grad: as the formula sees it.
    """

    saved: tuple[bool, ...]
    attributes: tuple[tuple[str, Any, tuple[Any, ...]], ...]
    materialize: bool
    non_differentiable: Mask
    needs_input_grad: tuple[Any, ...]


def _unbox(value: Any) -> Any:
    return value._storage.array if isinstance(value, Tensor) else value


def _collect(ctx: SetupContext, outputs: Sequence[Any]) -> tuple[list[Any], Notes]:
    """Takes the arrays out of a filled context."""
    arrays = [_unbox(value) for value in ctx._saved if value is not None]
    attributes: list[tuple[str, Any, tuple[Any, ...]]] = []
    for name, value in vars(ctx).items():
        if name in _OWN:
            continue
        leaves, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda leaf: isinstance(leaf, Tensor))
        marked = tuple(Slot.array if isinstance(leaf, (jax.Array, Tensor)) else leaf for leaf in leaves)
        arrays.extend(_unbox(leaf) for leaf in leaves if isinstance(leaf, (jax.Array, Tensor)))
        attributes.append((name, tree, marked))
    marked_outputs = [_unbox(value) for value in ctx._non_differentiable]
    notes = Notes(
        saved=tuple(value is not None for value in ctx._saved),
        attributes=tuple(attributes),
        materialize=ctx._materialize,
        non_differentiable=tuple(any(value is marked for marked in marked_outputs) for value in outputs),
        needs_input_grad=ctx.needs_input_grad,
    )
    return arrays, notes


class FormulaPlan(Plan):
    """The plan of a registered op with a formula of its own, which is looked up when the backward runs."""

    __slots__ = ("_backwards", "inputs", "layout", "notes", "overload")

    def __init__(
        self,
        overload: OpOverload,
        layout: Layout,
        structure: Structure,
        *,
        wanted: Mask,
        inputs: Any,
        outputs: Any,
    ) -> None:
        self.overload = overload
        self.layout = layout
        self.inputs = tuple(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in inputs)
        self.notes: Notes | None = None
        self._backwards: dict[Any, ArrayFunction] = {}
        super().__init__(wanted, outputs, ())
        self.structure: Structure = structure

    def keep(self, notes: Notes, sources: Sequence[int]) -> None:
        """Takes what the setup recorded."""
        self.notes = notes
        self.sources = tuple(sources)
        self.gather = make_gather(self.sources)
        self.differentiable = tuple(
            has and not marked
            for has, marked in zip(self.differentiable, notes.non_differentiable, strict=True)
        )

    def backward(self, given: Mask) -> ArrayFunction:  # noqa: D102  described in Plan
        record = self.overload.record
        rule = record.derivative.backward
        found = self._backwards.get((rule, given))
        if found is None:
            if rule is None:
                raise missing_formula(self.overload)
            if infer_kind(rule) == "host":
                found = ArrayFunction(make_host_formula(self, rule, given), record.name, compiled=False)
            else:
                found = ArrayFunction(
                    make_formula(self, rule, given), record.name, compiled=record.is_compiled
                )
            self._backwards[rule, given] = found
        return found


jax.tree_util.register_pytree_node(FormulaPlan, lambda plan: ((), plan), lambda plan, _: plan)


def missing_formula(overload: OpOverload) -> MissingRuleError:
    """The error for a backward through an op that has none."""
    record = overload.record
    reason = record.derivative.missing
    if reason is not None:
        return MissingRuleError(
            f"{record.name}: the derivative is missing, because {reason}. A gradient through it was asked "
            "for. Detach its inputs, or register one with register_autograd."
        )
    return MissingRuleError(
        f"{record.name}: Trying to backward through {record.name} but no autograd formula was registered. "
        f"Its kernel is opaque to autograd. Please use register_autograd to add one, "
        f'or register_autograd("derive") for JAX\'s own derivative of the kernel.'.replace(
            "Please use", "Use"
        )
    )


def plan_formula(
    overload: OpOverload,
    layout: Layout,
    structure: Structure,
    *,
    wanted: Mask,
    inputs: Sequence[Any],
    outputs: Any,
) -> tuple[FormulaPlan, list[Any]]:
    """Runs ``setup_context`` for one signature.

    The setup is traced as a jaxpr of its own, with inputs and outputs as separate variables: a saved value
    that is one of these variables is a saved input or output, whatever the kernel does; any other is an
    intermediate and becomes an extra output.

    Args:
        overload: the op.
        layout: of the call.
        structure: of its results.
        wanted: for each input array, whether its gradient is needed.
        inputs: the flat input arrays or tracers.
        outputs: the flat output arrays or tracers.

    Returns:
        The plan, and the values of the intermediates.
    """
    plan = FormulaPlan(overload, layout, structure, wanted=wanted, inputs=inputs, outputs=outputs)
    run = _make_setup(plan)
    if not config.compile_kernels or not overload.record.is_compiled:
        return plan, _keep_by_identity(plan, run, [*inputs, *outputs])
    notes: list[Notes] = []

    def traced_setup(*values: Any) -> list[Any]:
        arrays, noted = run(values)
        notes.append(noted)
        return arrays

    closed = jax.jit(traced_setup).trace(*inputs, *outputs).jaxpr
    return plan, _keep_by_variable(plan, notes[0], closed, [*inputs, *outputs])


def _make_setup(plan: FormulaPlan) -> Callable[[Sequence[Any]], tuple[list[Any], Notes]]:
    """The user's setup as a function of the flat inputs and outputs."""
    record = plan.overload.record
    setup = record.derivative.setup_context
    boxed = record.kind in ("tensor", "composite")

    def run(values: Sequence[Any]) -> tuple[list[Any], Notes]:
        ctx = SetupContext(tuple(plan.layout.spread_flags(plan.wanted)))
        flat = [box(value) for value in values] if boxed else values
        outputs = flat[plan.input_count :]
        if setup is not None:
            inputs, keyword_only = plan.layout.split(plan.layout.rebuild(flat))
            extra = {"keyword_only_inputs": keyword_only} if keyword_only else {}
            with running_rule(record.name, eager=boxed):
                setup(ctx=ctx, inputs=inputs, output=plan_output(plan.structure, outputs), **extra)
        return _collect(ctx, values[plan.input_count :])

    return run


def plan_output(structure: Structure, flat: Sequence[Any]) -> Any:
    """Arranges flat outputs as the op returns them: one value, a tuple of several, or None."""
    values = structure.rebuild(flat)[structure.written :]
    return values[0] if len(values) == 1 else tuple(values) if values else None


def _keep_by_identity(plan: FormulaPlan, run: Any, values: list[Any]) -> list[Any]:
    """Finds saved inputs and outputs by object identity, where nothing is traced."""
    arrays, notes = run(values)
    extras: list[Any] = []
    sources: list[int] = []
    for array in arrays:
        place = next((place for place, value in enumerate(values) if value is array), None)
        sources.append(len(values) + len(extras) if place is None else place)
        if place is None:
            extras.append(array)
    plan.keep(notes, sources)
    return extras


def _keep_by_variable(plan: FormulaPlan, notes: Notes, closed: Any, values: list[Any]) -> list[Any]:
    """Finds saved inputs and outputs among the variables of the setup's jaxpr; computes the rest."""
    places = {var: place for place, var in enumerate(closed.jaxpr.invars)}
    found = [None if hasattr(var, "val") else places.get(var) for var in closed.jaxpr.outvars]
    extra_outputs = [position for position, place in enumerate(found) if place is None]
    number = iter(range(len(values), len(values) + len(extra_outputs)))
    plan.keep(notes, [next(number) if place is None else place for place in found])
    if not extra_outputs:
        return []
    live = find_live_inputs(closed.jaxpr)
    plan.extra_reads = tuple(place for place, reads in enumerate(live) if reads)
    plan.gather_reads = make_gather(plan.extra_reads)
    plan.extras = ArrayFunction(_extras_function(plan, closed, extra_outputs), plan.overload.record.name)
    return list(plan.extras.function(*(values[place] for place in plan.extra_reads)))


def _extras_function(
    plan: FormulaPlan, closed: Any, extra_outputs: list[int]
) -> Callable[..., tuple[Any, ...]]:
    run = jaxpr_as_fun(closed)
    shapes = [*plan.inputs, *plan.outputs]

    def compute_extras(*read: Any) -> tuple[Any, ...]:
        full: list[Any] = [jax.numpy.zeros(shape.shape, shape.dtype) for shape in shapes]
        for place, value in zip(plan.extra_reads, read, strict=True):
            full[place] = value
        outputs = run(*full)
        return tuple(outputs[position] for position in extra_outputs)

    return compute_extras
