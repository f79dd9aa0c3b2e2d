"""The class of ``ctx``, with which setups and formulas annotate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


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
