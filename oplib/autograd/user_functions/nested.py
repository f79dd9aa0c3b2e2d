"""``NestedIOFunction``: a Function whose methods receive nested arguments and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from oplib.errors import AutogradError, GradientValueError, MissingRuleError
from oplib.protocols import Values
from oplib.pytree import TreeSpec, tree_structure, tree_unflatten
from oplib.tensor import Tensor

from .function_node import BackwardCFunction
from .user_function import Function


class NestedContext(BackwardCFunction):
    """The ctx of a :class:`NestedIOFunction`. Saved and marked tensors may be nested too."""

    _saved_structure: TreeSpec | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Saves Tensors, and lists and tuples of Tensors. ``saved_tensors`` has the same nesting.

        Args:
            *tensors: inputs, outputs or intermediates; None stays None. A second call replaces the first.

        Raises:
            GradientValueError: an argument has another type.
        """
        self.to_save = tuple(iterate_tensors(tensors, or_none=True))
        self._saved_structure = tree_structure(tensors)

    @BackwardCFunction.saved_tensors.getter
    def saved_tensors(self) -> Values:
        """The arguments of ``save_for_backward``, with their nesting.

        Raises:
            SavedTensorError: a value is freed, or has been written in place.
        """
        saved = super().saved_tensors
        if self._saved_for_jvp is not None or self._saved_structure is None:
            return saved
        return tree_unflatten(saved, self._saved_structure)

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Declares the inputs, nested or not, that the forward has written in place."""
        super().mark_dirty(*iterate_tensors((args, tuple(kwargs.values()))))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Declares the outputs, nested or not, that have no gradient."""
        super().mark_non_differentiable(*iterate_tensors((args, tuple(kwargs.values()))))


class NestedIOFunction(Function):
    """A Function on Tensors in lists and tuples of any depth. It is called by ``apply``.

    Define ``forward_extended(ctx, *args)`` and ``backward_extended(ctx, *grads)``. They receive arguments and
    gradients with the user's nesting, and may save nested Tensors. The gradients returned may be nested in
    any way: one for each Tensor among the arguments, in their order.

    Source:
        torch.autograd.function.NestedIOFunction. Its methods receive an instance instead of ctx, and it no
        longer runs in torch.

    Example:
        >>> import oplib
        >>> class Scale(oplib.autograd.NestedIOFunction):
        ...     def forward_extended(ctx, factor, tensors):
        ...         ctx.save_for_backward(factor, tensors)
        ...         return [factor * tensor for tensor in tensors]
        ...
        ...     def backward_extended(ctx, grads):
        ...         factor, tensors = ctx.saved_tensors
        ...         total = sum((g * t).sum() for g, t in zip(grads, tensors))
        ...         return total, [g * factor for g in grads]
        >>> factor = oplib.tensor(3.0, requires_grad=True)
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> (y,) = Scale.apply(factor, [x])
        >>> y.sum().backward()
        >>> factor.grad, x.grad
        (tensor(3.), tensor([3., 3.]))
    """

    _context_base: ClassVar[type[BackwardCFunction]] = NestedContext

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Checks the arguments and calls ``forward_extended``."""
        for _ in iterate_tensors(args):
            pass
        return ctx._forward_cls.forward_extended(ctx, *args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Values:
        """Calls ``backward_extended`` and puts its gradients at the places of the arguments."""
        returned = ctx._forward_cls.backward_extended(ctx, *grads)
        gradients = list(iterate_tensors(returned, or_none=True))
        due = sum(ctx._tensor_flags)
        if len(gradients) != due:
            raise AutogradError(
                f"{ctx.name()}: backward_extended returned an incorrect number of gradients. Got "
                f"{len(gradients)}, expected {due}, one for each Tensor given. Return None for one without."
            )
        return ctx._arrange(gradients)

    def forward_extended(self: Any, *args: Any) -> Any:  # noqa: ARG002  a definition has them
        """Computes the result from nested arguments. Subclasses define it. ``self`` is the ctx."""
        raise MissingRuleError(
            "NestedIOFunction: it has no forward_extended. apply() was called on a class without. "
            "Define forward_extended(ctx, *args)."
        )

    def backward_extended(self: Any, *grads: Any) -> Any:  # noqa: ARG002  likewise
        """Computes nested gradients from nested gradients. Subclasses define it. ``self`` is the ctx."""
        raise MissingRuleError(
            "NestedIOFunction: it has no backward_extended. A gradient must pass through it. Define "
            "backward_extended(ctx, *grads)."
        )


def iterate_tensors(nested: Any, *, or_none: bool = False) -> Iterator[Any]:
    """Yields the Tensors in lists and tuples.

    Args:
        nested: a Tensor, None, or lists and tuples of these.
        or_none: yields each None too.

    Raises:
        GradientValueError: the argument holds another type.

    Example:
        >>> import oplib
        >>> x = oplib.ones(1)
        >>> len(list(iterate_tensors((x, [x, None, (x,)]))))
        3
    """
    if nested is None:
        if or_none:
            yield None
    elif isinstance(nested, Tensor):
        yield nested
    elif isinstance(nested, (list, tuple)):
        for item in nested:
            yield from iterate_tensors(item, or_none=or_none)
    else:
        raise GradientValueError(
            "NestedIOFunction: Auto nesting doesn't know how to process an input object of type "
            f"{type(nested).__name__}. Accepted types: Tensors, None, or lists/tuples of them. Give other "
            "values to a plain Function."
        )
