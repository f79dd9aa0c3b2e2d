"""A registered backward formula as a pure function of residuals and cotangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_function import Mask, has_gradient
from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.tensor import Tensor, box

from .layout import Slot
from .tracing import running_rule

if TYPE_CHECKING:
    from .setup import FormulaPlan


class FormulaContext:
    """The ``ctx`` that a compiled formula reads: what the setup saved, and nothing to write.

    Attributes:
        saved_tensors: what was given to ``save_for_backward``.
        needs_input_grad: one flag per schema argument, a list for a list.
    """

    saved_tensors: tuple[Any, ...]
    needs_input_grad: tuple[Any, ...]

    def __init__(self, op: str, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.__dict__["_op"] = op

    def __setattr__(self, name: str, value: object) -> None:
        raise AutogradError(
            f"{self.__dict__['_op']}: ctx.{name} was set in the backward formula. The formula is compiled, "
            "so this would happen once per signature. Return the value, or set it in setup_context."
        )


def make_formula(plan: FormulaPlan, rule: Callable[..., Any], given: Mask) -> Callable[..., tuple[Any, ...]]:
    """Returns ``(*residuals, *given cotangents) -> wanted gradients``, with None for declared zeros."""
    op = plan.overload.record.name
    boxed = plan.overload.record.kind in ("tensor", "composite")
    wrap: Callable[[Any], Any] = box if boxed else lambda value: value
    residual_count = len(plan.sources)

    def formula(*arrays: Any) -> tuple[Any, ...]:
        residuals = [wrap(value) for value in arrays[:residual_count]]
        cotangents = complete_cotangents(plan, iter(arrays[residual_count:]), given)
        grads = plan.structure.rebuild_grads([None if grad is None else wrap(grad) for grad in cotangents])
        try:
            with running_rule(op, eager=boxed):
                result = rule(restore_context(plan, residuals), *grads)
        except Exception as error:
            error.add_note(f"raised in the backward formula of {op}")
            raise
        return take_gradients(plan, result)

    return formula


def complete_cotangents(
    plan: FormulaPlan, cotangents: Iterator[Any], given: Mask, xp: Any = jnp
) -> list[Any]:
    """One cotangent per flat output: zeros of ``xp``, or None, where there is none."""
    assert plan.notes is not None
    return [
        next(cotangents)
        if has
        else xp.zeros(shape.shape, shape.dtype)
        if plan.notes.materialize and has_gradient(shape.dtype)
        else None
        for has, shape in zip(given, plan.outputs, strict=True)
    ]


def restore_context(plan: FormulaPlan, residuals: list[Any]) -> FormulaContext:
    """Puts residuals and what the setup noted together again, as the formula's ``ctx``."""
    notes = plan.notes
    assert notes is not None
    rest = iter(residuals)
    values: dict[str, Any] = {
        "saved_tensors": tuple([next(rest) if present else None for present in notes.saved]),
        "needs_input_grad": notes.needs_input_grad,
    }
    for name, tree, leaves in notes.attributes:
        filled = [next(rest) if leaf is Slot.array else leaf for leaf in leaves]
        values[name] = jax.tree_util.tree_unflatten(tree, filled)
    return FormulaContext(plan.overload.record.name, values)


def take_gradients(plan: FormulaPlan, result: Any, xp: Any = jnp) -> tuple[Any, ...]:
    """Checks what a formula returned against the schema, and picks the gradients that are wanted.

    A callback may not use JAX, so a host formula has this done with numpy as ``xp``.
    """
    values = list(result) if isinstance(result, tuple) else [result]
    schema, layout = plan.overload.record.schema, plan.layout
    _check_count(plan, values)
    flat: list[Any] = []
    for place, entry in enumerate(layout.entries):
        value = values[place] if place < len(values) else None
        name = schema.arguments[place].name
        if isinstance(entry, tuple):
            flat.extend(_take_list(plan, value, entry, name))
        elif entry is Slot.array:
            flat.append(value)
        elif value is not None and not _is_none_tree(value):
            raise AutogradError(
                f"{plan.overload.record.name}: the formula returned a gradient different than None at "
                f"position {place} for argument '{name}', which is not a tensor. Got {describe(value)}. "
                "Return None there."
            )
    return tuple(
        _fit(plan, value, shape, place, xp=xp)
        for place, (value, shape, want) in enumerate(zip(flat, plan.inputs, plan.wanted, strict=True))
        if want
    )


def _is_none_tree(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(member is None for member in value)


def _check_count(plan: FormulaPlan, values: list[Any]) -> None:
    arguments = plan.overload.record.schema.arguments
    last_tensor = max((place for place, argument in enumerate(arguments) if argument.has_tensor), default=-1)
    extra = [value for value in values[len(arguments) :] if value is not None]
    if len(values) <= last_tensor or extra:
        raise AutogradError(
            f"{plan.overload.record.name}: the formula returned an incorrect number of gradients. Expected "
            f"{plan.layout.positional_count}, got {len(values)}. Return one per argument of "
            f"{plan.overload.record.schema}, None where there is none."
        )


def _take_list(plan: FormulaPlan, value: Any, entry: tuple[bool, ...], name: str) -> list[Any]:
    """The gradients of a list of tensors: a list of the same length."""
    if value is None and not entry:
        return []
    if not isinstance(value, list) or len(value) != len(entry):
        raise AutogradError(
            f"{plan.overload.record.name}: the gradients must have the same structure as the inputs. "
            f"Argument '{name}' is a list of {len(entry)}, its gradient is {describe(value)}. Return a list "
            f"of {len(entry)}, None for members without a gradient."
        )
    return [member for member, present in zip(value, entry, strict=True) if present]


def _fit(plan: FormulaPlan, value: Any, shape: jax.ShapeDtypeStruct, place: int, *, xp: Any) -> Any:
    """Makes a gradient fit its input: broadcast axes summed, dtype converted."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        value = value._storage.array
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)):
        raise NoGradientError(plan, place, value)
    grad = xp.asarray(value)
    if grad.shape != shape.shape:
        grad = sum_to_shape(grad, shape.shape, f"{plan.overload.record.name}: the formula", place, xp=xp)
    if grad.dtype != shape.dtype:
        if xp.iscomplexobj(grad) and not jnp.issubdtype(shape.dtype, jnp.complexfloating):
            grad = grad.real
        grad = grad.astype(shape.dtype)
    return grad


class NoGradientError(GradientTypeError):
    """A formula returned something that is no gradient."""

    def __init__(self, plan: FormulaPlan, place: int, value: object) -> None:
        super().__init__(
            f"{plan.overload.record.name}: the formula returned no tensor at position {place}: expected "
            f"Variable or None (a tensor or None). Got {type(value).__name__}. Return an array of the "
            "input's shape, or None."
        )


def sum_to_shape(grad: Any, shape: Sequence[int], subject: str, place: int, *, xp: Any = jnp) -> Any:
    """Sums a gradient over the axes along which its input was broadcast.

    Raises:
        AutogradError: the shape cannot be reached by summing.
    """
    lead = grad.ndim - len(shape)
    fits = lead >= 0 and all(
        have == want or want == 1 for have, want in zip(grad.shape[lead:], shape, strict=True)
    )
    if not fits:
        raise AutogradError(
            f"{subject} returned an invalid gradient at index {place}: got {describe(grad)}, but expected "
            f"shape compatible with {list(shape)}. Return a gradient of the input's shape."
        )
    axes = (
        *range(lead),
        *(lead + axis for axis, want in enumerate(shape) if want == 1 and grad.shape[lead + axis] != 1),
    )
    return xp.reshape(xp.sum(grad, axis=axes), tuple(shape))
