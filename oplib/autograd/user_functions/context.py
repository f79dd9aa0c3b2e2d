"""The ctx of a Function: the methods by which forward and setup_context inform backward."""

from __future__ import annotations

from typing import Any

from oplib.autograd.array_functions.masks import map_given
from oplib.errors import ArgumentValueError, AutogradError, DimensionError, GradientTypeError
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.inference import refuse_saving


class FunctionCtx:
    """The ``ctx`` of a :class:`~oplib.autograd.function.Function`, with the methods for forward.

    Other attributes may be set freely. Tensors belong in ``save_for_backward``.
    """

    to_save: tuple[Tensor | None, ...] = ()
    saved_for_forward: tuple[Tensor | None, ...] = ()
    dirty_tensors: tuple[Tensor, ...] = ()
    non_differentiable: tuple[Tensor, ...] = ()
    materialize_grads: bool = True
    output_grad_dtypes: Values | None = None
    _materialize_non_diff_grads: bool = True  # whether that holds for outputs that have no gradient at all

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for ``ctx.saved_tensors`` in backward, which checks that nothing has written them.

        Args:
            *tensors: inputs, outputs or intermediates; None stays None. A second call replaces the first.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for ``jvp``.

        Args:
            *tensors: inputs, outputs or intermediates; None stays None.

        Raises:
            GradientTypeError: an argument is neither a Tensor nor None.
        """
        check_saved(tensors, "save_for_forward")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Declares the inputs that the forward has written in place. The forward must return them.

        Args:
            *args: inputs of the forward.

        Raises:
            AutogradError: an argument is not a Tensor.
        """
        _check_marked(args, "mark_dirty")
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Declares the outputs that have no gradient. The backward receives zeros for them.

        Args:
            *args: outputs of the forward.

        Raises:
            AutogradError: an argument is not a Tensor.
        """
        _check_marked(args, "mark_non_differentiable")
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Sets the gradient that the backward receives for an output without gradient.

        Args:
            value: True (the default) for zeros, False for None.

        Raises:
            GradientTypeError: the value is not a bool.
        """
        if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise GradientTypeError(
                f"set_materialize_grads: it takes a bool. Got {type(value).__name__}. Give True or False."
            )
        self.materialize_grads = value

    def set_output_grad_dtype(self, *dtypes: Any) -> None:
        """Sets the dtype of the gradient that the backward receives for each output.

        Args:
            *dtypes: for each output a dtype, to which its gradient is cast; or None, for the dtype with which
                it arrives, and for an output without gradient. By default it is that of the output.

        Raises:
            AutogradError: it was called before; or, after forward: there is not one for each output, or there
                is one for an output without gradient.
            DtypeError: an argument is no dtype, or has 64 bits while JAX's x64 is off.

        Source:
            ``torch.autograd.function.FunctionCtx.set_output_grad_dtype`` of torch 2.14.
        """
        if self.output_grad_dtypes is not None:
            raise AutogradError(
                f"set_output_grad_dtype: it was called before. Got {len(self.output_grad_dtypes)} dtypes and "
                f"then {len(dtypes)}. Call it once, with one for each output."
            )
        self.output_grad_dtypes = tuple(map_given(normalize_dtype, dtypes))


def _check_marked(tensors: Values, method: str) -> None:
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise AutogradError(
                f"{method}: it can only accept Tensors, but argument {position} is of type "
                f"{type(tensor).__name__}. It marks inputs or outputs of forward. Leave it out."
            )


def check_saved(tensors: Values, method: str, *, in_graph: bool = False) -> None:
    """Raises if an argument of ``save_for_backward`` or ``save_for_forward`` is not a Tensor or None.

    One that a node of a graph saves must be no inference tensor.
    """
    for position, tensor in enumerate(tensors):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            advice = (
                advise_saving(tensor)
                or "Nothing else is checked for changes. Set it as an attribute: ctx.name = value."
            )
            raise GradientTypeError(
                f"{method}: it can only save Tensors, but argument {position} is of type "
                f"{type(tensor).__name__}. {advice}"
            )
        if in_graph and tensor._storage.is_inference:
            refuse_saving(tensor, method)


def advise_saving(value: object) -> str:
    """Returns what to write in place of a container of Tensors; nothing for another value."""
    return "Give the values one by one: (*values)." if isinstance(value, (tuple, list)) else ""


def find_unpacking(error: Exception) -> type[ArgumentValueError | DimensionError] | None:
    """Returns the class for an error of code that unpacks a tuple with too few items; else None."""
    if isinstance(error, ValueError) and str(error).startswith("not enough values to unpack"):
        return ArgumentValueError
    if isinstance(error, IndexError) and str(error).startswith("tuple index out of range"):
        return DimensionError
    return None
