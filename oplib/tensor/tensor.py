"""The Tensor: a mutable box over an immutable ``jax.Array``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.errors import DataTypeError, TracingError, describe
from oplib.modes import modes

from .methods.aliasing import TensorAliasing
from .methods.comparing import TensorComparison
from .methods.conversion import TensorConversion, TensorDtypes
from .methods.copying import TensorCopying
from .methods.forms import TensorMethods
from .methods.history import TensorHistory
from .methods.op_methods import OpMethods
from .methods.operators import TensorOperators
from .methods.printing import show_tensor
from .methods.values import TensorValues
from .methods.view_methods import TensorViewMethods
from .storage.storage import Storage
from .upcalls import upcalls


class Tensor(
    TensorHistory["Tensor"],
    TensorAliasing["Tensor"],
    TensorMethods["Tensor"],
    TensorViewMethods["Tensor"],
    TensorOperators["Tensor"],
    TensorConversion["Tensor"],
    TensorDtypes["Tensor"],
    TensorValues,
    TensorCopying,
    TensorComparison,
    OpMethods,
):
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
    _trace: object = None  # opaque trace in which a leaf was made; op results have it only when traced
    _scope: int = 0  # number of the kernel trace in which it was made (modes.tracing_scope), 0 outside
    _tangent_slot: Any = None  # where its tangent stands while a dual level is open, see autograd/tangents.py
    _tangent_source: Any = None  # (): not its root's tangent; else whose, and through which frames
    _root: Tensor | None = None  # of a view: the tensor whose history it shares; what torch calls _base
    _creation: int = 0  # of a view: how it was made, a views.Creation
    _read_only: str | None = None  # why writing in place raises: the name of the view op that made it

    __hash__ = object.__hash__

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise DataTypeError(
            f"Tensor: the class is not called. Got {len(args) + len(kwargs)} arguments. "
            f"Use oplib.tensor(data), another factory, or Tensor.from_array(array)."
        )

    def __repr__(self) -> str:
        return show_tensor(self)

    def __dir__(self) -> list[str]:
        """The attributes that can be written after a dot, those that users have set among them."""
        return sorted(name for name in object.__dir__(self) if name.isidentifier())

    @staticmethod
    def from_array(array: Any, *, requires_grad: bool = False) -> Tensor:
        """Boxes a ``jax.Array`` or tracer without copying, whatever its sharding.

        Args:
            array: the array, any shape and dtype; a weakly typed one is made strong.
            requires_grad: whether the result is a leaf that collects gradients (floating or complex only).

        Returns:
            A new leaf.

        Raises:
            DataTypeError: ``array`` is not a jax.Array.
            AutogradError: ``requires_grad`` for a dtype that has no gradient.
        """
        if not isinstance(array, jax.Array):
            raise DataTypeError(
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
        if state.inference:
            upcalls.mark_inference(tensor)
        if requires_grad:
            tensor.requires_grad = True
        return tensor

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
        if self._scope != modes.tracing_scope and not isinstance(self._storage.owner.array, Tracer):
            raise TracingError(
                f"{modes.tracing}: the kernel or rule reads a Tensor from outside while it is traced. "
                f"Got {describe(self._storage.array)}, which would be frozen into the compiled code. "
                f"Make it an argument of the op, or define the op with compile=False."
            )

    def detach(self) -> Tensor:
        """Returns a tensor without history that shares this one's storage and version.

        Writing into either is seen by both. The result never requires grad.

        Example:
            >>> import oplib
            >>> x = oplib.zeros(2, requires_grad=True)
            >>> _ = x.detach().add_(1)
            >>> x.tolist(), x._version
            ([1.0, 1.0], 1)
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
    storage.version = 0
    tensor = _new(Tensor)
    tensor._storage = storage
    return tensor
