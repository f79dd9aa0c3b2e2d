"""The functions of the array API standard about dtypes and devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.devices.device import Device, device_of
from oplib.tensor.dtypes import limits, names, promotion
from oplib.tensor.dtypes.rules import default_complex_dtype, default_int_dtype

from .naming import collect

FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS)
_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


class NamespaceInfo:
    """The result of ``__array_namespace_info__``."""

    def capabilities(self) -> dict[str, Any]:
        """Returns what indexing and shapes may depend on; under a trace neither may depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """Returns the device of new Tensors."""
        return device_of(self._find_default())

    def _find_default(self) -> Any:
        chosen: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
        return chosen if hasattr(chosen, "platform") else jax.local_devices()[0]

    def devices(self) -> list[Device]:
        """Returns the devices of this process."""
        return [device_of(device) for device in jax.local_devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:  # noqa: ARG002  all are equal
        """Returns the dtypes of new Tensors by kind."""
        return {
            "real floating": get_default_dtype(),
            "complex floating": default_complex_dtype(),
            "integral": default_int_dtype(),
            "indexing": default_int_dtype(),
        }

    def dtypes(
        self,
        *,
        device: Any = None,  # noqa: ARG002  all are equal
        kind: str | tuple[str, ...] | None = None,
    ) -> dict[str, np.dtype[Any]]:
        """Returns dtypes by name; those of 64 bits (128 if complex) only while JAX's x64 is on."""
        asked = tuple(_KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        kinds = [kind for name in asked for kind in _UNIONS.get(name, (name,))]
        left_out = frozenset() if jax.config.jax_enable_x64 else _WIDE  # pyright: ignore[reportAttributeAccessIssue]
        return {name: getattr(names, name) for kind in kinds for name in _KINDS[kind] if name not in left_out}


@_standard
def _astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Returns the items in another dtype; the Tensor itself only if ``copy`` is False and nothing differs."""
    return x.to(dtype=dtype, copy=copy) if device is None else x.to(device, dtype, copy=copy)


@_standard
def _can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion may lead from a dtype, or that of a Tensor, to another one."""
    return _result_type(_to_dtype(from_), to) == to


@_standard
def _finfo(type: Any, /) -> limits.finfo:  # noqa: A002  the standard's name
    """Returns the limits of a floating dtype, or of that of a Tensor."""
    return limits.finfo(_to_dtype(type))


@_standard
def _iinfo(type: Any, /) -> limits.iinfo:  # noqa: A002  the standard's name
    """Returns the limits of an integer dtype, or of that of a Tensor."""
    return limits.iinfo(_to_dtype(type))


@_standard
def _isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, such as ``"integral"``, or of one of several."""
    return bool(jnp.isdtype(dtype, kind))


@_standard
def _result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Returns the dtype to which Tensors, dtypes and numbers promote."""
    operands = [
        jax.ShapeDtypeStruct((1,), value) if isinstance(value, np.dtype) else value
        for value in arrays_and_dtypes
    ]
    return promotion.result_type(*operands)


def _to_dtype(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else value
