"""A registered backward formula as a pure function of residuals and cotangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from oplib.autograd.array_functions.array_function import (
    ArrayFunction,
    BackwardPlan,
    Mask,
    has_gradient,
    register_plan,
    spread_gradients,
)
from oplib.autograd.array_functions.array_types import match_type
from oplib.autograd.array_functions.masks import map_given, pick_true
from oplib.errors import AutogradError, MissingRuleError
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Structure
from oplib.library.infer_schema import infer_kind
from oplib.library.kernels.host_call import make_host_call
from oplib.library.kernels.tracing import any_traced, run_part
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Function
from oplib.protocols import Values
from oplib.tensor import box

from .formula_context import Notes, refuse_nothing_saved
from .gradient_types import GradientTypes
from .gradients import GradientTargets
from .linear_map import make_linear_map


class FormulaPlan(BackwardPlan):
    """The plan of a registered op with a formula, which is looked up when the backward runs.

    Attributes:
        overload: the op.
        layout: the layout of the call.
        inputs: the shape and dtype of each input.
        apply: of a linear op its call, as a function of all inputs.
        constants: of a linear op the inputs in which it is not linear. They are its last residuals.
        notes: the notes of the setup.
        types: the types of the call inside ``shard_map``; None outside.
    """

    __slots__ = (
        "_token",
        "_versioned",
        "apply",
        "constants",
        "inputs",
        "layout",
        "notes",
        "overload",
        "types",
    )

    notes: Notes
    apply: Any

    def __init__(
        self,
        overload: OpOverload,
        layout: Layout,
        structure: Structure,
        *,
        wanted: Mask,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        self.overload = overload
        self.layout = layout
        self.inputs = tuple(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in inputs)
        self.constants: tuple[int, ...] = ()
        self.types: GradientTypes | None = None
        self._versioned: dict[Mask, tuple[int, ArrayFunction]] = {}
        super().__init__(wanted, outputs, ())
        self.structure: Structure = structure

    def keep(self, notes: Notes, sources: Sequence[int]) -> None:
        """Stores the notes of the setup, and the source of each saved array."""
        self.notes = notes
        self.set_sources(sources)
        self.differentiable = tuple(
            has and not marked
            for has, marked in zip(self.differentiable, notes.non_differentiable, strict=True)
        )

    @property
    def token(self) -> Any:  # another formula, another token
        """Stands for the plan and the current record of its op in keys."""
        return self._token, self.overload.record.version

    @token.setter
    def token(self, token: int) -> None:
        self._token = token

    @property
    def op_name(self) -> str:  # noqa: D102  described in Plan
        return self.overload.name()

    @property
    def is_surrogate(self) -> bool:  # noqa: D102  described in Plan
        return self.overload.record.derivative.surrogate

    @property
    def is_on_host(self) -> bool:
        """Whether the formula works on numpy arrays."""
        rule = self._find_rule()
        return not self.overload.record.is_function and infer_kind(rule) == "host"

    def backward(self, present: Mask) -> ArrayFunction:  # noqa: D102  described in Plan
        record = self.overload.record
        held = self._versioned.get(present)
        if held is not None and held[0] == record.version:
            return held[1]
        if is_on_host := self.is_on_host:
            shapes = tuple(pick_true(self.inputs, self.wanted))
            formula: Any = make_host_call(self.bind_formula(present, np), shapes, op=record.name)
        else:
            formula = self.bind_formula(present, jnp)
        formula = formula if self.types is None else self.types.bind(formula, self.wanted, present)
        if record.derivative.linear:
            formula = make_linear_map(formula, self, present)
        made = ArrayFunction(
            spread_gradients(formula, self.wanted),
            record.name,
            compiled=not (is_on_host or record.is_plain),
            is_formula=not is_on_host,
            selects=record.derivative.selects,
        )
        self._versioned[present] = record.version, made
        return made

    def _find_rule(self) -> Function:
        rule = self.overload.record.derivative.backward
        if rule is None:
            raise missing_formula(self.overload)
        return rule

    def bind_formula(self, present: Mask, xp: Any) -> Callable[..., Values]:
        """Returns ``(*residuals, *given cotangents) -> wanted gradients``, with None for declared zeros.

        It looks the rule up when it is traced, as a call looks up its kernel, because JAX's caches keep plans
        alive.
        """
        op, boxed = self.overload.name(), self.overload.record.takes_tensors and xp is jnp
        targets = GradientTargets(
            op, self.layout, self.inputs, self.wanted, xp, self.overload.record.is_function
        )
        wrap: Callable[[Any], Any] = box if boxed else lambda value: value
        count = len(self.sources)
        saver = self.overload.record.derivative.saver

        def formula(*arrays: Any) -> Values:
            rule, saved = self._find_rule(), arrays[:count]
            if getattr(rule, "is_once_differentiable", False):
                saved = tuple(map(_refuse_second_derivative, saved))
            ctx = self.notes.restore(op, saver, map(wrap, saved))
            cotangents = self._complete(iter(arrays[count:]), present, xp)
            grads = self.structure.rebuild_grads(map_given(wrap, cotangents))
            eager = self.overload.record.is_untraced or not any_traced(arrays)
            try:
                result = run_part(lambda: rule(ctx, *grads), op, "backward formula", eager=eager)
            except Exception as error:
                refuse_nothing_saved(error, ctx, op, saver)
                raise
            return targets.take(result)

        return formula

    def _complete(self, cotangents: Iterator[Any], present: Mask, xp: Any) -> list[Any]:
        """Returns one cotangent per flat output: zeros or None, as the setup chose, for a missing one."""
        return [
            next(cotangents) if has else self._make_missing(index, xp) for index, has in enumerate(present)
        ]

    def _make_missing(self, index: int, xp: Any) -> Any:
        shape = self.outputs[index]
        if not (self.notes.materialize and shape is not None and has_gradient(shape.dtype)):
            return None
        zeros = xp.zeros(shape.shape, shape.dtype)
        return zeros if self.types is None or xp is np else match_type(zeros, self.types.results[index])


register_plan(FormulaPlan)


@jax.custom_jvp
def _refuse_second_derivative(saved: Any) -> Any:
    """Returns a saved array, whose derivative raises."""
    return saved


def _raise_if_moving(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    if not isinstance(tangents[0], SymbolicZero):
        raise AutogradError(
            "once_differentiable: trying to differentiate twice a function that was marked with "
            "@once_differentiable. Its backward is differentiated by JAX. Take the mark away."
        )
    return primals[0], _make_zeros(primals[0])


def _make_zeros(value: Any) -> Any:
    is_moving = has_gradient(jax.typeof(value).dtype)
    return jnp.zeros_like(value) if is_moving else np.zeros(jnp.shape(value), jax.dtypes.float0)


_refuse_second_derivative.defjvp(_raise_if_moving, symbolic_zeros=True)


def missing_formula(overload: OpOverload) -> MissingRuleError:
    """Returns the error for a backward through an op without a formula."""
    record = overload.record
    if record.is_function:
        return MissingRuleError(
            f"{record.node_name}: its Function has no backward. A derivative was asked for. Define a static "
            "backward(ctx, *grads), or jvp."
        )
    reason = record.derivative.missing
    if reason is not None:
        return MissingRuleError(
            f"{record.name}: the derivative is missing, because {reason}. A gradient through it was asked "
            "for. Detach its inputs, or register one with register_autograd."
        )
    derive = (
        ', or register_autograd("derive") for JAX\'s own derivative of the kernel'
        if record.kind != "host"
        else ""
    )
    return MissingRuleError(
        f"{record.name}: Trying to backward through {record.name} but no autograd formula was registered. "
        f"Its kernel is opaque to autograd. Use register_autograd to add one{derive}."
    )
