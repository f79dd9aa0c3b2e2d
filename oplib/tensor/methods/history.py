"""The history of a Tensor: whether it is recorded, its node, its gradient and its hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast

import jax.numpy as jnp

from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.hooks import RemovableHandle, require_parameters
from oplib.tensor.storage.escape import refuse_escape, refuse_outside
from oplib.tensor.storage.tensor_slots import TensorSlots, TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import warn_user

if TYPE_CHECKING:
    from oplib.protocols import GraphNode
    from oplib.tensor.storage.storage import Storage

Hook: TypeAlias = Callable[[TensorT], TensorT | None]


class TensorHistory(Generic[TensorT]):
    """Mixin with the properties and methods about gradients."""

    _storage: Storage
    _requires_grad: bool = False
    _grad_fn: GraphNode | None = None
    _output_nr: int = 0
    _grad: Any = None  # a Tensor, or where a packed one lies, see Tensor._gradient
    _gradient: Any
    _accumulator: Any = None  # a weak reference to the leaf's AccumulateGrad, set by autograd
    _backward_hooks: OrderedDict[int, Hook[TensorT]] | None = None
    _post_accumulate_hooks: OrderedDict[int, Callable[[TensorT], None]] | None = None
    _retains_grad: bool = False
    _views: list[Any] | None = None  # weak references to the views of this root, see tensor/views/lineage.py
    _restricted_views: list[Any] | None = None  # likewise, those whose history may not be rebased

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value.__class__ is not bool:
            raise GradientTypeError(
                f"requires_grad: it must be a bool. Got {describe(value)}. Give True or False."
            )
        if value and self._requires_grad:
            return
        if self._grad_fn is not None:
            raise AutogradError(
                "requires_grad: only a leaf's flag can be cleared. This tensor is the result of "
                f"{self._grad_fn.name()}. Use tensor.detach() for a tensor without history."
            )
        if value and not jnp.issubdtype(self._storage.array.dtype, jnp.inexact):
            raise AutogradError(
                f"requires_grad: only floating and complex tensors have gradients. "
                f"Got {describe(self)}. Convert it first: tensor.to(oplib.float32)."
            )
        self._requires_grad = value
        upcalls.share_requires_grad(self, value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets ``requires_grad`` in place and returns the tensor.

        Raises:
            AutogradError: the tensor is not a leaf and the flag would be cleared, or its dtype has no
                gradient.
            GradientTypeError: ``requires_grad`` is not a bool.

        Example:
            >>> import oplib
            >>> oplib.ones(2).requires_grad_()
            tensor([1., 1.], requires_grad=True)
        """
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf: no recorded operation made it."""
        return self._grad_fn is None

    def is_inference(self) -> bool:
        """Returns whether the tensor was made in inference mode.

        Such a tensor is never saved for a backward pass.

        Example:
            >>> import oplib
            >>> with oplib.inference_mode():
            ...     x = oplib.ones(2)
            >>> x.is_inference()
            True
        """
        return self._storage.is_inference

    @property
    def grad_fn(self) -> GraphNode | None:
        """The node that made this tensor, or None for a leaf."""
        return self._grad_fn

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of ``grad_fn``."""
        return self._output_nr

    @property
    def grad(self) -> TensorT | None:
        """The accumulated gradient, or None. A non-leaf has one only after ``retain_grad()``."""
        if self._grad is None and self._grad_fn is not None and not self._retains_grad:
            warn_user(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). Got "
                f"{describe(self)}, a result of {self._grad_fn.name()}. Call retain_grad() on "
                "it before backward(), or read the grad of a leaf."
            )
        return self._gradient

    @grad.setter
    def grad(self, value: TensorT | None) -> None:
        if value is not None:
            self._check_new_grad(value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def _check_new_grad(self, value: object) -> None:
        if not isinstance(value, TensorHistory):
            raise GradientTypeError(
                f"grad: expected a Tensor or None. Got {type(value).__name__}. Assign a Tensor."
            )
        if value is self:
            raise AutogradError(
                f"grad: a tensor cannot be its own gradient. Got {describe(self)} for itself. "
                f"Assign a copy: tensor.detach().clone()."
            )
        mine, new = self._storage.array, value._storage.array
        if new.shape != mine.shape or new.dtype != mine.dtype:
            raise AutogradError(
                f"grad: a gradient has the shape and dtype of its tensor. Got {describe(new)} for "
                f"{describe(mine)}. Reshape or convert it first."
            )
        refuse_escape(new, cast("TensorSlots", self), "grad")

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient in ``grad``."""
        return self._retains_grad

    def retain_grad(self) -> None:
        """Makes a non-leaf keep its gradient in ``grad``. A leaf always does.

        Raises:
            AutogradError: the tensor does not require grad.

        Example:
            >>> import oplib
            >>> x = oplib.ones(2, requires_grad=True)
            >>> y = x * 2
            >>> y.retain_grad()
            >>> y.sum().backward()
            >>> y.grad
            tensor([1., 1.])
        """
        if not self._requires_grad:
            raise AutogradError(
                "retain_grad: the tensor does not require grad, so it cannot have one. It is a leaf, or made "
                "of tensors without it. Set requires_grad=True on an input first."
            )
        if self._grad_fn is not None and not self._retains_grad:
            refuse_outside(cast("TensorSlots", self), "retain_grad")
            self._grad_fn.retain_grad(self)
            self._retains_grad = True

    def register_hook(self, hook: Hook[TensorT]) -> RemovableHandle:
        """Calls ``hook(grad)`` whenever a gradient for this tensor is computed.

        Args:
            hook: receives the gradient as a Tensor. It must not change it, and may return another one to use
                instead.

        Returns:
            A handle whose ``remove()`` removes the hook.

        Raises:
            AutogradError: the tensor does not require grad.
            GradientTypeError: the hook does not take one argument.

        Example:
            >>> import oplib
            >>> x = oplib.tensor([1.0], requires_grad=True)
            >>> handle = x.register_hook(lambda grad: grad * 2)
            >>> (x * 3).sum().backward()
            >>> x.grad
            tensor([6.])
        """
        if not self._requires_grad:
            raise AutogradError(
                f"register_hook: the tensor doesn't require grad, so the hook would never run. "
                f"Got {describe(self)}. Set requires_grad=True on it or on an input of it."
            )
        require_parameters(hook, "register_hook: the hook", "grad")
        refuse_outside(cast("TensorSlots", self), "register_hook")
        node = self._grad_fn or (self._accumulator and self._accumulator())  # a new history has no hooks yet
        if self._backward_hooks is None:
            self._backward_hooks = OrderedDict()
            if node is not None:
                node._register_hook_dict(self)
        handle = RemovableHandle(self._backward_hooks)
        self._backward_hooks[handle.id] = hook
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[TensorT], None]) -> RemovableHandle:
        """Calls ``hook(tensor)`` on a leaf each time its ``grad`` has been updated.

        Raises:
            AutogradError: the tensor is not a leaf, or does not require grad.
            GradientTypeError: the hook does not take one argument.

        Example:
            >>> import oplib
            >>> w = oplib.ones(2, requires_grad=True)
            >>> handle = w.register_post_accumulate_grad_hook(lambda w: print(w.grad))
            >>> w.sum().backward()
            tensor([1., 1.])
        """
        if not self._requires_grad or self._grad_fn is not None:
            raise AutogradError(
                "register_post_accumulate_grad_hook: only a leaf that requires grad accumulates a gradient. "
                f"Got a tensor with requires_grad={self._requires_grad} and grad_fn={self._grad_fn}. "
                "Use register_hook for other tensors."
            )
        require_parameters(hook, "register_post_accumulate_grad_hook: the hook", "tensor")
        refuse_outside(cast("TensorSlots", self), "register_post_accumulate_grad_hook")
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = OrderedDict()
        handle = RemovableHandle(self._post_accumulate_hooks)
        self._post_accumulate_hooks[handle.id] = hook
        return handle
