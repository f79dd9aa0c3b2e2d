"""``supports_tensorlist``: lists of tensors in arguments and results of a Function, as in torch.library.

A Function accepts containers of tensors already. This decorator gives the narrower contract that formulas of
registered ops use. Only tuples, and lists of nothing but tensors, are structure. The gradient of a list is a
list, never None. Results and gradients keep their structure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from oplib.errors import AutogradError, MissingRuleError, describe
from oplib.protocols import AnyFunction, Values
from oplib.pytree import TreeSpec, leaf_unless_list_of, tree_flatten, tree_unflatten
from oplib.pytree.paths import find_different_path
from oplib.tensor import Tensor

from .trees import list_values

__all__ = [
    "Metadata",
    "flatten",
    "not_list_of_optional_tensor",
    "not_list_of_tensor",
    "spec_t",
    "supports_tensorlist",
    "unflatten",
]

_C = TypeVar("_C", bound=Any)

flatten = tree_flatten
unflatten = tree_unflatten
spec_t = TreeSpec

not_list_of_tensor: Callable[[Any], bool] = leaf_unless_list_of(Tensor)
"""Leaf test of arguments: only tuples and lists of tensors are structure."""

not_list_of_optional_tensor: Callable[[Any], bool] = leaf_unless_list_of(Tensor, or_none=True)
"""Leaf test of gradients: a list may also hold None."""


@dataclass
class Metadata:
    """The structure of one call. It is an additional last argument, and then ``ctx._pt_metadata``.

    Attributes:
        input_spec: the structure of the arguments.
        output_spec: the structure of the results, after forward has run.
        result_is_tuple: whether forward returned a tuple.
    """

    input_spec: TreeSpec
    output_spec: TreeSpec | None = None
    result_is_tuple: bool | None = None


def supports_tensorlist(cls: _C, *, or_none: bool = False) -> _C:
    """Class decorator: lets arguments and results of a Function hold lists of tensors, and tuples.

    Args:
        cls: a subclass of Function with a static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``.
        or_none: whether these lists may also hold None. In torch they may, and then no tensor of the list
            gets a gradient.

    Returns:
        The same class with new ``forward``, ``backward`` and ``apply``.

    Example:
        >>> import oplib
        >>> @supports_tensorlist
        ... class AddAll(oplib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, tensors):
        ...         ctx.count = len(tensors)
        ...         return sum(tensors[1:], start=tensors[0])
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return [grad] * ctx.count
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> AddAll.apply([x, x]).sum().backward()
        >>> x.grad
        tensor([2.])
    """
    cls._takes_trees = False
    is_leaf = not_list_of_optional_tensor if or_none else not_list_of_tensor
    cls.forward, cls.backward, cls.apply = (
        staticmethod(_make_forward(cls.forward, is_leaf)),
        staticmethod(_make_backward(cls.backward)),
        staticmethod(_make_apply(cls.apply, is_leaf, cls.__name__)),
    )
    return cls


def _make_forward(forward: AnyFunction, is_leaf: Callable[[Any], bool]) -> AnyFunction:
    def new_forward(ctx: Any, *args: Any) -> Values:
        if not args or not isinstance(args[-1], Metadata):
            raise MissingRuleError(
                "supports_tensorlist: forward was called directly. It takes what apply has flattened. Call "
                "apply()."
            )
        *leaves, metadata = args
        result = forward(ctx, *unflatten(leaves, metadata.input_spec))
        metadata.result_is_tuple = isinstance(result, tuple)
        flat, metadata.output_spec = flatten(result if metadata.result_is_tuple else (result,), is_leaf)
        if hasattr(ctx, "_pt_metadata"):
            raise AutogradError(
                "supports_tensorlist: ctx._pt_metadata was set in forward. The name is reserved for the "
                "structure of the call. Choose another name."
            )
        ctx._pt_metadata = metadata
        return tuple(flat)

    return new_forward


def _make_backward(backward: AnyFunction) -> AnyFunction:
    def new_backward(ctx: Any, *grads: Any) -> Values:
        metadata = getattr(ctx, "_pt_metadata", None)
        if metadata is None:
            raise MissingRuleError(
                "supports_tensorlist: backward was called directly. There is no structure of a call. Call "
                "backward() on a result of apply()."
            )
        flags = ctx.needs_input_grad
        try:
            ctx.needs_input_grad = unflatten(flags[:-1], metadata.input_spec)
            result = backward(ctx, *unflatten(grads, metadata.output_spec))
        finally:
            ctx.needs_input_grad = flags
        gradients = list_values(result)
        flat, spec = flatten(gradients, not_list_of_optional_tensor)
        if spec != metadata.input_spec:
            raise AutogradError(
                f"{ctx.name()}: backward must return gradients in the same structure as the arguments. They "
                f"differ at {find_different_path(spec, metadata.input_spec)}. Got {describe(spec)}, "
                f"expected {describe(metadata.input_spec)}. Return a list for a list; None may stand inside "
                "it."
            )
        return (*flat, None)

    return new_backward


def _make_apply(apply: AnyFunction, is_leaf: Callable[[Any], bool], name: str) -> AnyFunction:
    def new_apply(*args: Any) -> Any:
        leaves, spec = flatten(args, is_leaf)
        metadata = Metadata(spec)
        flat = apply(*leaves, metadata)
        if metadata.output_spec is None:
            raise AutogradError(
                f"{name}: forward has not run. Its structure is unknown. Do not replace forward."
            )
        result = unflatten(flat, metadata.output_spec)
        return result if metadata.result_is_tuple else result[0]

    return new_apply
