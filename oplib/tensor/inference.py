"""Tensors made in inference mode. They count no versions, and the tape treats them as constants.

They have a class of their own, so no check is needed for other Tensors. The fast path of a call accepts exact
Tensors only. Other classes take the complete path, which refuses a call that would save an inference tensor.
"""

from __future__ import annotations

import copy
from typing import Any

from oplib.errors import AutogradError, describe
from oplib.modes import modes
from oplib.protocols import Values

from .methods.copying import users_attributes
from .methods.history import TensorHistory
from .storage.class_changes import change_class
from .storage.storage import Storage
from .tensor import Tensor, box

_new: Any = object.__new__
_SEE = "Make a clone() of it outside of inference mode and use that, or use oplib.no_grad() instead."


class InferenceStorage(Storage):
    """A storage that can be written in inference mode only. It counts no versions."""

    __slots__ = ()
    is_inference = True

    def write(self, array: Any) -> None:
        """Replaces the array.

        Raises:
            AutogradError: inference mode is off.
        """
        self.check_mode()
        self.array = array

    def exchange(self, seen: Any, array: Any, *, counted: bool = True) -> bool:
        """Replaces the array, unless another thread has replaced it.

        Raises:
            AutogradError: inference mode is off, and the write would be counted.
        """
        if counted:
            self.check_mode()
        return super().exchange(seen, array, counted=False)

    def check_mode(self) -> None:
        """Raises if inference mode is off, in which the storage may not be written."""
        if not modes.inference:
            raise AutogradError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. Got a write to "
                f"{describe(self.array)}, which counts no versions. {_SEE}"
            )


class InferenceTensor(Tensor):
    """The class of results of calls and factories in inference mode; see ``oplib.inference_mode``."""

    @property
    def _version(self) -> int:
        raise AutogradError(
            f"_version: Inference tensors do not track version counter. Got {describe(self)}, "
            f"made in inference mode. {_SEE}"
        )

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded. It can be set in inference mode only."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not modes.inference:
            raise AutogradError(
                "requires_grad: Setting requires_grad=True on inference tensor outside InferenceMode is not "
                f"allowed. Got {describe(self)}. {_SEE}"
            )
        setter: Any = TensorHistory.requires_grad.fset
        setter(self, value)

    def detach(self) -> Tensor:
        """Returns an inference tensor without history on the same storage."""
        detached = super().detach()
        change_class(detached, InferenceTensor)
        return detached

    def __reduce_ex__(self, protocol: Any) -> Values:
        return _to_ordinary(self).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = copy.deepcopy(_to_ordinary(self), memo)
        return copied


def _to_ordinary(tensor: InferenceTensor) -> Tensor:
    """Returns an ordinary Tensor with the values, flags and attributes of an inference tensor."""
    ordinary = box(tensor._storage.array)
    ordinary._trace = tensor._trace
    ordinary._requires_grad = tensor._requires_grad
    ordinary.__dict__.update(users_attributes(tensor))
    return ordinary


def mark_inference(tensor: Tensor) -> Tensor:
    """Turns a new tensor with a storage of its own into an inference tensor. Subclasses stay as they are."""
    if type(tensor) is Tensor:
        tensor._storage = InferenceStorage(tensor._storage.array)
        change_class(tensor, InferenceTensor)
    return tensor


def refuse_saving(tensor: Tensor, op: str) -> None:
    """Raises if an inference tensor would be saved for a backward pass.

    Raises:
        AutogradError: the tensor is an inference tensor.
    """
    if tensor._storage.is_inference:
        raise AutogradError(
            f"{op}: Inference tensors cannot be saved for backward. Got {describe(tensor)}, "
            f"made in inference mode. {_SEE}"
        )
