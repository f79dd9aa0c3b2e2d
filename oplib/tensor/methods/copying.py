"""copy, deepcopy and pickle of Tensors. As in torch, tensors that share a storage still do so afterwards."""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.errors import AutogradError, TracingError, describe
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.devices.forked import is_orphan
from oplib.tensor.storage.cut import CutStorage
from oplib.tensor.storage.escape import note_trace
from oplib.tensor.storage.failed_reads import note_read
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.storage import Storage
from oplib.tensor.views import AliasStorage, ViewStorage


class TensorCopying:
    """Mixin with the protocols of ``copy`` and ``pickle``.

    ``copy.copy`` gives a leaf on the same storage. A pickle keeps ``requires_grad`` and the attributes that
    users have set, but not history, gradient, hooks or sharding.
    """

    _storage: Storage
    _requires_grad: bool
    _grad_fn: Any
    _gradient: Any

    def __reduce_ex__(self, protocol: Any) -> Values:
        made_of = self.__class__, self._storage, self._requires_grad
        return _make_leaf, made_of, users_attributes(self) or None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._grad_fn is not None:
            raise AutogradError(
                "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                f"protocol at the moment. Got the result of {self._grad_fn.name()}. "
                f"Copy tensor.detach() instead, or clone() to keep the history."
            )
        storage = _copy_storage(self._storage, memo)
        copied = memo[id(self)] = _make_leaf(self.__class__, storage, self._requires_grad)
        copied._grad = copy.deepcopy(self._gradient, memo)
        copied.__dict__.update(copy.deepcopy(users_attributes(self), memo))
        return copied


def _copy_storage(storage: Storage, memo: dict[int, Any]) -> Storage:
    """Copies a storage once for all tensors that share it.

    A view's storage becomes a view of the copy of its base.
    """
    copied = memo.get(id(storage))
    if copied is None:
        if isinstance(storage, ViewStorage):
            copied = ViewStorage(_copy_storage(storage.base, memo), storage.chain, storage.starts)
        elif isinstance(storage, AliasStorage):
            copied = AliasStorage(_copy_storage(storage.base, memo), storage.version)
        elif isinstance(storage, CutStorage):
            copied = CutStorage(_copy_storage(storage.base, memo), storage.history)
        else:
            copied = Storage(storage.array)
        memo[id(storage)] = copied
    return copied


def users_attributes(tensor: Any) -> dict[str, Any]:
    """Returns the attributes that users have set on the instance.

    Names with an underscore belong to the tape.
    """
    return {name: value for name, value in tensor.__dict__.items() if not name.startswith("_")}


def _make_leaf(cls: type[Any], storage: Storage, requires_grad: bool) -> Any:
    leaf: Any = object.__new__(cls)
    leaf._storage = storage
    leaf._trace = note_trace(modes.state)
    if requires_grad:
        leaf._requires_grad = True
    return leaf


def _reduce_storage(storage: Storage) -> Values:
    """Pickles through numpy, because pickles of JAX's arrays name JAX's private modules."""
    array = storage.array
    if isinstance(array, Tracer):
        raise note_read(
            TracingError(
                f"pickle: a traced tensor has no values yet. Got {describe(array)}. "
                "Return it from the traced function and pickle it there."
            )
        )
    return _restore_storage, (np.asarray(array),)


def _restore_storage(values: np.ndarray[Any, Any]) -> Storage:
    """Unpickles a storage. In a forked process, which may not compute, it keeps the numpy array.

    So a process of a pool can receive a tensor, and the first op that uses it raises, which the parent sees.
    """
    return Storage(values if is_orphan() else to_array(values, None, None))


copyreg.pickle(Storage, _reduce_storage)
