"""The class of ``ctx``, and its two forms: one that the setup fills, and one that the formula reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

import jax

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.user_functions.context import advise_saving, find_unpacking
from oplib.errors import AutogradError
from oplib.library.arguments.layout import EntryKind
from oplib.library.arguments.recording import unbox
from oplib.protocols import Values
from oplib.tensor import Tensor


class Context:
    """The ``ctx`` of ``setup_context`` and of a formula: an annotation for both.

    The setup saves arrays, and sets other values as attributes of any name. The formula reads them.

    Attributes:
        saved_tensors: in a formula, the values of ``save_for_backward``.
        needs_input_grad: for each argument, whether its gradient is needed; a list for a list, a tree for a
            tree.

    Source:
        ``torch.autograd.function.FunctionCtx``.

    Example:
        >>> import jax
        >>> from oplib.library import Context, custom_op
        >>> @custom_op("docs::squared")
        ... def squared(x: jax.Array) -> jax.Array:
        ...     return x * x
        >>> def save(ctx: Context, inputs: tuple[jax.Array], output: jax.Array) -> None:
        ...     ctx.save_for_backward(inputs[0])
        >>> @squared.register_autograd(setup_context=save)
        ... def squared_backward(ctx: Context, g: jax.Array) -> jax.Array:
        ...     return 2 * g * ctx.saved_tensors[0]
    """

    saved_tensors: tuple[Any, ...]
    needs_input_grad: tuple[Any, ...]

    if TYPE_CHECKING:

        def save_for_backward(self, *tensors: Any) -> None:
            """Saves arrays for the formula; None is allowed."""

        def mark_non_differentiable(self, *outputs: Any) -> None:
            """Declares that these outputs have no gradient."""

        def set_materialize_grads(self, value: bool) -> None:
            """With False, the formula gets None instead of zeros as the gradient of an unused output."""

        def __getattr__(self, name: str) -> Any:
            """Any other attribute is the author's."""

        def __setattr__(self, name: str, value: Any) -> None:
            """Any other attribute is the author's."""


class SetupContext(Context):
    """The ``ctx`` of a ``setup_context`` function.

    Arrays that are set as attributes are saved like the arguments of ``save_for_backward``. Every other
    attribute stays as it is and becomes part of the compiled formula.
    """

    def __init__(self, needs_input_grad: Values) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved: Values = ()
        self._saved_for_forward: Values = ()
        self._materialize = True
        self._non_differentiable: Values = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Saves arrays for the formula's ``ctx.saved_tensors``; None is allowed.

        Raises:
            NotATensorError: a value is no array.
        """
        for index, value in enumerate(tensors):
            if value is not None and not isinstance(value, (jax.Array, Tensor)):
                advice = advise_saving(value) or "Set other values as attributes of ctx."
                raise NotATensorError(
                    f"save_for_backward: argument {index} is not a tensor. Got {type(value).__name__}. "
                    f"{advice}"
                )
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Saves arrays for the ``jvp`` of a Function."""
        self._saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Raises: arrays are not written."""
        raise AutogradError(
            f"mark_dirty: arrays are not written. Got {len(tensors)} in a forward annotated jax.Array. "
            "Return the new value, or take Tensors."
        )

    def set_output_grad_dtype(self, *dtypes: Any) -> None:
        """Raises: a gradient of an array has its dtype."""
        raise AutogradError(
            f"set_output_grad_dtype: in JAX a gradient has the dtype of its result. Got {len(dtypes)} dtypes "
            "in a forward annotated jax.Array. Cast it in backward: g.astype(dtype)."
        )

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declares that these outputs have no gradient; a tree stands for its arrays."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """With False, the formula gets None instead of zeros as the gradient of an unused output."""
        self._materialize = bool(value)


class NotATensorError(AutogradError, TypeError):
    """A value that cannot be saved for the backward."""


class FormulaContext(Context):
    """The ``ctx`` of a compiled formula: the saved values of the setup, read-only.

    Attributes:
        saved_tensors: the values of ``save_for_backward``.
        needs_input_grad: one flag per schema argument, a list for a list.
    """

    saved_tensors: tuple[Any, ...]
    needs_input_grad: tuple[Any, ...]

    def __init__(self, op: str, saver: str, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.__dict__["_op"], self.__dict__["_saver"] = op, saver

    def __getattr__(self, name: str) -> Any:
        own = ("saved_tensors", "needs_input_grad", "_op", "_saver")
        kept = sorted(attribute for attribute in self.__dict__ if attribute not in own)
        near = get_close_matches(name, [*own[:2], *kept], n=1)
        raise AttributeError(
            f"{self.__dict__.get('_op')}: ctx.{name} is read in the backward formula, and was never set. "
            f"{''.join(f'The nearest name is ctx.{other}. ' for other in near)}"
            f"{_tell_how_to_save(self.__dict__.get('_saver', ''), kept, 'Set it')}",
            name=name,
            obj=self,
        )

    def __getitem__(self, index: object) -> NoReturn:
        """Refuses what a ``bwd`` of JAX does with its residuals; unpacking comes here too."""
        raise TypeError(
            f"{self.__dict__['_op']}: ctx is subscripted or unpacked in the backward formula, and it is no "
            f"tuple of residuals. Got {index!r}. Read what was saved: (x,) = ctx.saved_tensors."
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AutogradError(
            f"{self.__dict__['_op']}: ctx.{name} was set in the backward formula. The formula is compiled, "
            "so this would happen once per signature. Return the value, or set it in setup_context."
        )


def refuse_nothing_saved(error: Exception, ctx: Any, op: str, saver: str) -> None:
    """Raises an error that says how to save, if a formula cannot unpack since nothing was saved for it.

    Args:
        error: the error of the formula.
        ctx: the ``ctx`` of the formula. To read its saved tensors may run hooks, so the text is read first.
        op: the name of the op.
        saver: the part of the op that saves; empty if there is none.
    """
    kind = find_unpacking(error)
    if kind is not None and not ctx.saved_tensors:
        advice = _tell_how_to_save(saver, None, "Call ctx.save_for_backward")
        raise kind(f"{op}: ctx.saved_tensors is empty in the backward formula. {advice}") from error


def _tell_how_to_save(saver: str, kept: list[str] | None, what: str) -> str:
    """Returns what the part that saves has done, and what to do.

    Args:
        saver: that part; empty if there is none.
        kept: the names of the attributes that it has set; None if tensors are missing.
        what: what to do there.
    """
    if not saver:
        return (
            f"The op has neither a setup_context nor a forward. {what} in a setup_context(ctx, inputs, "
            "output), and give that to register_autograd together with the formula."
        )
    done = "has saved no tensors" if kept is None else f"has set {kept}"
    return f"Its {saver} {done}. {what} in {saver}."


_OWN = frozenset(vars(SetupContext(())))


@dataclass(frozen=True, slots=True, eq=False)
class Notes:
    """The notes of a setup, without the arrays, which are in a flat list beside them.

    Attributes:
        tree: the structure of the values of ``save_for_backward``, and of the attributes by their names.
        leaves: its static leaves; ``EntryKind.array`` marks an array.
        materialize: the formula gets zeros for unused outputs.
        non_differentiable: for each flat output, whether it was marked.
        needs_input_grad: as the formula reads it.
    """

    tree: Any
    leaves: Values
    materialize: bool
    non_differentiable: Mask
    needs_input_grad: Values

    def restore(self, op: str, saver: str, residuals: Iterator[Any]) -> FormulaContext:
        """Joins the notes and the residuals again, as the formula's ``ctx``.

        Args:
            op: its name.
            saver: the part of the op that saves, for errors; empty if there is none.
            residuals: the saved arrays.
        """
        filled = [next(residuals) if leaf is EntryKind.array else leaf for leaf in self.leaves]
        saved, attributes = jax.tree_util.tree_unflatten(self.tree, filled)
        own = {"saved_tensors": saved, "needs_input_grad": self.needs_input_grad}
        return FormulaContext(op, saver, attributes | own)


def read_context(ctx: SetupContext, outputs: Sequence[Any]) -> tuple[list[Any], Notes]:
    """Splits a filled context into its arrays and everything else."""
    attributes = {name: value for name, value in vars(ctx).items() if name not in _OWN}
    leaves, tree = jax.tree_util.tree_flatten((ctx._saved, attributes), is_leaf=_is_tensor)
    marked_outputs = list(map(unbox, jax.tree_util.tree_leaves(ctx._non_differentiable, is_leaf=_is_tensor)))
    notes = Notes(
        tree=tree,
        leaves=tuple(EntryKind.array if _is_saved(leaf) else leaf for leaf in leaves),
        materialize=ctx._materialize,
        non_differentiable=tuple(any(value is marked for marked in marked_outputs) for value in outputs),
        needs_input_grad=ctx.needs_input_grad,
    )
    return [unbox(leaf) for leaf in leaves if _is_saved(leaf)], notes


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _is_saved(value: object) -> bool:
    return isinstance(value, (jax.Array, Tensor))
