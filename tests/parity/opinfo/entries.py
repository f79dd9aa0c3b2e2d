"""torch's own samples of its operators, and the functions of both libraries that they are given to.

``torch.testing._internal`` is not public, and its samples change with torch. The extra ``parity`` fixes the
version.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import oplib

Function = Callable[..., Any]
WAYS = ("function", "method", "in place")
SKIPPED = (
    "jiterator_",  # compile code for CUDA
)
# The samples of these functions begin with the Tensor of torch's ``OpInfo.op``, which is the second argument.
SWAPPED = (
    *("einsum", "polygamma", "special.polygamma", "where"),
    *("nn.functional.embedding", "nn.functional.embedding_bag"),
)


class NotConvertibleError(Exception):
    """An argument of a sample that only torch has, such as a sparse Tensor."""


@dataclass(frozen=True)
class Entry:
    """One entry of torch's ``op_db`` under a name that both libraries have.

    Attributes:
        info: the ``OpInfo``.
        name: the path of the function, below the package.
    """

    info: Any
    name: str

    def __str__(self) -> str:
        return f"{self.name}.{self.info.variant_test_name}" if self.info.variant_test_name else self.name

    def find(self, lib: Any, way: str) -> Function | None:
        """Returns what the samples are given to; None if the library has no such function."""
        if way == "function":
            found = _follow(lib, self.name)
            if not _is_function(found):
                return None
            return _swap(found) if self.name in SWAPPED else found
        name = self.name + "_" if way == "in place" else self.name
        found = getattr(lib.Tensor, name, None) if "." not in name else None
        return found if callable(found) else None

    def list_ways(self) -> list[str]:
        return [way for way in WAYS if self.find(torch, way) and self.find(oplib, way)]

    def draw(self, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[Any]:
        """Yields torch's samples, the same in each run."""
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from self.info.sample_inputs("cpu", dtype, requires_grad=requires_grad)


def _follow(lib: Any, path: str) -> Any:
    return functools.reduce(lambda found, part: getattr(found, part, None), path.split("."), lib)


def _is_function(found: Any) -> bool:
    return callable(found) and not isinstance(found, type)


def _swap(function: Function) -> Function:
    return lambda first, second, *args, **kwargs: function(second, first, *args, **kwargs)


@functools.cache
def list_entries() -> list[Entry]:
    """Returns the entries that both libraries have, at least as methods."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    entries = [Entry(info, info.name) for info in op_db if not info.name.startswith(SKIPPED)]
    return [entry for entry in entries if entry.list_ways()]


def to_oplib(value: Any) -> Any:
    """Returns an argument of torch as one of oplib, with equal values."""
    if isinstance(value, torch.Tensor):
        return _to_tensor(value)
    if isinstance(value, torch.dtype):
        return _to_dtype(value)
    if isinstance(value, (list, tuple)):
        return (
            type(value)(map(to_oplib, value)) if type(value) in (list, tuple) else tuple(map(to_oplib, value))
        )
    if isinstance(value, dict):
        return {key: to_oplib(item) for key, item in value.items()}
    if isinstance(value, torch.device):
        return oplib.device("cpu")
    if type(value).__module__.partition(".")[0] == "torch":
        raise NotConvertibleError(type(value).__name__)
    return value


def _to_tensor(value: torch.Tensor) -> Any:
    if value.layout is not torch.strided or value.dtype in (torch.bfloat16, torch.complex32):
        raise NotConvertibleError(f"a Tensor of {value.layout} and {value.dtype}")
    if value.device.type != "cpu":
        raise NotConvertibleError(f"a Tensor on {value.device}")
    if value.ndim > 64:
        raise NotConvertibleError("numpy has 64 dimensions at most")
    array = np.array(value.detach().resolve_conj().resolve_neg().numpy())
    return oplib.tensor(array).requires_grad_(value.requires_grad)


def _to_dtype(value: torch.dtype) -> Any:
    name = str(value).removeprefix("torch.")
    if not hasattr(oplib, name):
        raise NotConvertibleError(name)
    return getattr(oplib, name)


def list_tensors(value: Any) -> list[Any]:
    """Returns the Tensors in nested containers, in order."""
    if isinstance(value, (torch.Tensor, oplib.Tensor)):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in list_tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in list_tensors(item)]
    return []
