"""The Tensor: a mutable box over an immutable ``jax.Array``, with its place on the tape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.errors import AutogradError, DataTypeError, GradientTypeError, TracingError, describe
from oplib.hooks import RemovableHandle
from oplib.modes import modes

from .conversion import TensorConversion, TensorDtypes
from .copying import TensorCopying
from .methods import TensorMethods
from .operators import TensorOperators
from .printing import show
from .storage import Storage
from .values import TensorValues

if TYPE_CHECKING:
    from oplib.protocols import GraphNode

Hook = Callable[["Tensor"], "Tensor | None"]


class Tensor(TensorMethods, TensorOperators, TensorConversion, TensorDtypes, TensorValues, TensorCopying):
    """A multi-dimensional array with ``requires_grad``, ``grad``, a version, and in-place operations.

    Do not construct it: use ``oplib.tensor(data)``, another factory, or ``Tensor.from_array(array)``.
    Operations on it are recorded on the tape where it, or another operand, requires grad.

    Its attributes with an underscore belong to the floors above; what an instance does not set it reads from
    the class, which keeps making a Tensor cheap (two attributes for a result that needs no gradient).

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    _storage: Storage
    _requires_grad: bool = False
    _grad_fn: GraphNode | None = None
    _output_nr: int = 0
    _grad: Tensor | None = None
    _accumulator: Any = None  # weak reference to the leaf's AccumulateGrad, held by the autograd floor
    _backward_hooks: OrderedDict[int, Hook] | None = None
    _post_accumulate_hooks: OrderedDict[int, Callable[[Tensor], None]] | None = None
    _retains_grad: bool = False
    _trace: object = None  # opaque trace in which a leaf was made; op results have it only when traced
    _scope: int = 0  # number of the kernel trace in which it was made (modes.tracing_scope), 0 outside
    _read_only: str | None = None  # why writing in place raises: the name of the view op that made it

    __hash__ = object.__hash__

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise DataTypeError(
            f"Tensor: the class is not called. Got {len(args) + len(kwargs)} arguments. "
            f"Use oplib.tensor(data), another factory, or Tensor.from_array(array)."
        )

    def __repr__(self) -> str:
        return show(self)

    @staticmethod
    def from_array(array: Any, *, requires_grad: bool = False) -> Tensor:
        """Boxes a ``jax.Array`` or tracer without copying, whatever its sharding.

        Args:
            array: the array, any shape and dtype; a weakly typed one is made strong.
            requires_grad: whether the result is a leaf that collects gradients (floating or complex only).

        Returns:
            A new leaf.

        Raises:
            GradientTypeError: ``array`` is not a jax.Array.
            AutogradError: ``requires_grad`` for a dtype that has no gradient.
        """
        if not isinstance(array, jax.Array):
            raise GradientTypeError(
                f"Tensor.from_array: 'array' is not a jax.Array. Got {type(array).__name__}. "
                f"Use oplib.tensor(data) for data of other kinds."
            )
        if getattr(array, "weak_type", False):
            array = jax.lax.convert_element_type(array, array.dtype)
        tensor = box(array)
        tensor._trace = get_opaque_trace_state()
        state = modes.state
        if state.tracing is not None:
            tensor._scope = state.tracing_scope
        if requires_grad:
            tensor.requires_grad = True
        return tensor

    # What it holds ------------------------------------------------------------

    @property
    def array(self) -> Any:
        """The ``jax.Array`` (or tracer) of this tensor; it carries no history."""
        if modes.state.tracing is not None:
            self._refuse_reading_while_tracing()
        return self._storage.array

    @property
    def _version(self) -> int:
        """How often the storage has been written in place; shared with ``detach()``ed tensors."""
        return self._storage.version

    def _refuse_reading_while_tracing(self) -> None:
        """Raises where a concrete Tensor from outside would be frozen into a compiled kernel."""
        if self._scope != modes.tracing_scope and not isinstance(self._storage.array, Tracer):
            raise TracingError(
                f"{modes.tracing}: the kernel or rule reads a Tensor from outside while it is traced. "
                f"Got {describe(self._storage.array)}, which would be frozen into the compiled code. "
                f"Make it an argument of the op, or define the op with compile=False."
            )

    # Its place on the tape ------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._grad_fn is not None:
            if not value:
                raise AutogradError(
                    "requires_grad: only a leaf's flag can be cleared. This tensor is the result of "
                    f"{self._grad_fn.name()}. Use tensor.detach() for a tensor without history."
                )
            return
        if value and not jnp.issubdtype(self._storage.array.dtype, jnp.inexact):
            raise AutogradError(
                f"requires_grad: only floating and complex tensors have gradients. "
                f"Got {describe(self._storage.array)}. Convert it first: tensor.to(oplib.float32)."
            )
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets ``requires_grad`` in place and returns the tensor.

        Raises:
            AutogradError: it is no leaf and the flag would be cleared, or its dtype has no gradient.
        """
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._grad_fn is None

    @property
    def grad_fn(self) -> GraphNode | None:
        """The node that made this tensor, or None for a leaf."""
        return self._grad_fn

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this is."""
        return self._output_nr

    @property
    def grad(self) -> Tensor | None:
        """The gradient collected so far, or None."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_new_grad(value)
        self._grad = value

    def _check_new_grad(self, value: object) -> None:
        if not isinstance(value, Tensor):
            raise GradientTypeError(
                f"grad: expected a Tensor or None. Got {type(value).__name__}. Assign a Tensor."
            )
        if value is self:
            raise AutogradError(
                "grad: a tensor cannot be its own gradient. Assign a copy: tensor.detach().clone()."
            )
        mine, given = self._storage.array, value._storage.array
        if given.shape != mine.shape or given.dtype != mine.dtype:
            raise AutogradError(
                f"grad: a gradient has the shape and dtype of its tensor. Got {describe(given)} for "
                f"{describe(mine)}. Reshape or convert it first."
            )

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient in ``grad``."""
        return self._retains_grad

    def retain_grad(self) -> None:
        """Makes a non-leaf keep its gradient in ``grad``; a leaf does so anyway.

        Raises:
            AutogradError: the tensor does not require grad.
        """
        if not self._requires_grad:
            raise AutogradError(
                "retain_grad: the tensor does not require grad, so it cannot have one. It is a leaf, or made "
                "of tensors without it. Set requires_grad=True on an input first."
            )
        if self._grad_fn is not None and not self._retains_grad:
            self._grad_fn.retain_grad(self)
            self._retains_grad = True

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(grad)`` whenever a gradient for this tensor is computed.

        Args:
            hook: gets the gradient as a Tensor, must not change it, and may return another to use instead.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Raises:
            AutogradError: the tensor does not require grad.

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
                "register_hook: the tensor doesn't require grad, so the hook would never run. "
                "Set requires_grad=True on it or on an input of it."
            )
        if self._backward_hooks is None:
            self._backward_hooks = OrderedDict()
            if self._grad_fn is not None:
                self._grad_fn._register_hook_dict(self)
        handle = RemovableHandle(self._backward_hooks)
        self._backward_hooks[handle.id] = hook
        return handle

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls ``hook(tensor)`` on a leaf each time its ``grad`` has been updated.

        Raises:
            AutogradError: the tensor is no leaf, or does not require grad.
        """
        if not self._requires_grad or self._grad_fn is not None:
            raise AutogradError(
                "register_post_accumulate_grad_hook: only a leaf that requires grad accumulates a gradient. "
                f"Got a tensor with requires_grad={self._requires_grad} and grad_fn={self._grad_fn}. "
                "Use register_hook for other tensors."
            )
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = OrderedDict()
        handle = RemovableHandle(self._post_accumulate_hooks)
        self._post_accumulate_hooks[handle.id] = hook
        return handle

    def detach(self) -> Tensor:
        """Returns a tensor without history that shares this one's storage and version.

        Writing into either is seen by both. The result never requires grad.
        """
        detached = _new(Tensor)
        detached._storage = self._storage
        detached._trace = self._trace
        detached._scope = self._scope
        detached._read_only = self._read_only
        return detached


_new: Callable[[type[Any]], Any] = object.__new__


def box(array: Any) -> Tensor:
    """Makes a Tensor around an array with nothing checked: for floors that know what they hold."""
    storage = _new(Storage)
    storage.array = array
    tensor = _new(Tensor)
    tensor._storage = storage
    return tensor
