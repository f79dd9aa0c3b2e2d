"""The two faces of ``ctx`` in a registered op: what its setup fills, and what its formula reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import Mask
from oplib.errors import AutogradError
from oplib.library.arguments.layout import Slot
from oplib.library.arguments.recording import unbox
from oplib.tensor import Tensor


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
            NotATensorError: something else was given.
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

    def __getattr__(self, name: str) -> Any:
        own = ("saved_tensors", "needs_input_grad", "_op")
        kept = sorted(found for found in self.__dict__ if found not in own)
        raise AttributeError(
            f"{self.__dict__.get('_op')}: ctx.{name} is read in the backward formula, and was never set. "
            f"A setup_context has set {kept}. Set it in a setup_context(ctx, inputs, output), and give that "
            "to register_autograd together with the formula.",
            name=name,
            obj=self,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AutogradError(
            f"{self.__dict__['_op']}: ctx.{name} was set in the backward formula. The formula is compiled, "
            "so this would happen once per signature. Return the value, or set it in setup_context."
        )


_OWN = frozenset(vars(SetupContext(())))


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

    def restore(self, op: str, residuals: Iterator[Any]) -> FormulaContext:
        """Puts what was recorded and the residuals together again, as the formula's ``ctx``."""
        values: dict[str, Any] = {
            "saved_tensors": tuple([next(residuals) if present else None for present in self.saved]),
            "needs_input_grad": self.needs_input_grad,
        }
        for name, tree, leaves in self.attributes:
            filled = [next(residuals) if leaf is Slot.array else leaf for leaf in leaves]
            values[name] = jax.tree_util.tree_unflatten(tree, filled)
        return FormulaContext(op, values)


def read_context(ctx: SetupContext, outputs: Sequence[Any]) -> tuple[list[Any], Notes]:
    """Takes a filled context apart, into the arrays that it holds and everything else."""
    arrays = [unbox(value) for value in ctx._saved if value is not None]
    attributes: list[tuple[str, Any, tuple[Any, ...]]] = []
    for name, value in vars(ctx).items():
        if name in _OWN:
            continue
        leaves, tree = jax.tree_util.tree_flatten(value, is_leaf=_is_tensor)
        marked = tuple(Slot.array if _is_saved(leaf) else leaf for leaf in leaves)
        arrays.extend(unbox(leaf) for leaf in leaves if _is_saved(leaf))
        attributes.append((name, tree, marked))
    marked_outputs = [unbox(value) for value in ctx._non_differentiable]
    notes = Notes(
        saved=tuple(value is not None for value in ctx._saved),
        attributes=tuple(attributes),
        materialize=ctx._materialize,
        non_differentiable=tuple(any(value is marked for marked in marked_outputs) for value in outputs),
        needs_input_grad=ctx.needs_input_grad,
    )
    return arrays, notes


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _is_saved(value: object) -> bool:
    return isinstance(value, (jax.Array, Tensor))
