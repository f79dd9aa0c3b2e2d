"""The text of a Tensor, in torch's layout to the digit.

All items of one tensor share a format: no digits after the point if all are whole, else four; an exponent if
they differ by more than a factor of 1000 or are very large or small. ``set_printoptions`` changes this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer

from oplib.errors import AutogradError, describe
from oplib.tensor.devices.device import device_of_array, is_abstract
from oplib.tensor.devices.placement import is_on_default_device
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import (
    COMPLEX,
    INTEGRAL,
    default_complex_dtype,
    default_int_dtype,
    get_default_dtype,
)
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.tensor_slots import TensorSlots

from .print_options import printing

_PREFIX = "tensor("
_WHOLE = "whole"  # the form of floats that are all whole: no digit after the point


def show_tensor(tensor: TensorSlots) -> str:
    """Returns the text for ``repr``: the values, and every property that differs from the default.

    Args:
        tensor: any Tensor. If its values are traced, or held by other processes, dtype and shape are shown.

    Example:
        >>> import oplib
        >>> show_tensor(oplib.tensor([[1.0, 0.5]], requires_grad=True))
        'tensor([[1.0000, 0.5000]], requires_grad=True)'
    """
    if isinstance(tensor._storage, EndedStorage):
        return f"{_PREFIX}made inside {tensor._storage.function}, whose trace has ended)"
    array = tensor._storage.array
    if is_abstract(array):
        suffixes = ["traced" if isinstance(array, Tracer) else "abstract"]
        body = describe(array)
    elif not array.is_fully_addressable:
        suffixes = [f"sharding={array.sharding}"]
        body = describe(array)
    else:
        suffixes = list(_describe_device(array))
        body = _show_values(np.asarray(array), suffixes)
    suffixes += _describe_history(tensor)
    slot = tensor._tangent_slot
    if slot is not None and slot.tangent is not None:
        suffixes.append(f"tangent={show_tensor(slot.tangent)}")
    return _add_suffixes(_PREFIX + body, suffixes)


def _describe_history(tensor: TensorSlots) -> list[str]:
    try:
        node = tensor._grad_fn
    except AutogradError:  # of a view whose base was written in a way that forbids to read its history
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name()}>"]
    return ["requires_grad=True"] if tensor._requires_grad else []


def _describe_device(array: Any) -> Sequence[str]:
    if len(array.devices()) > 1:
        return [f"sharding={getattr(array.sharding, 'spec', array.sharding)}"]
    return () if is_on_default_device(array) else (f"device='{device_of_array(array)}'",)


def _show_values(values: np.ndarray[Any, Any], suffixes: list[str]) -> str:
    expected = {get_default_dtype()}
    is_shown = bool(printing.options.edgeitems)
    if values.size:
        expected |= {default_complex_dtype(), default_int_dtype(), dtypes.bool}
    else:
        is_shown = values.ndim == 1  # [] has one dimension
    if not is_shown:
        suffixes.append(f"size={values.shape}")
    if values.dtype not in expected:
        suffixes.append(f"dtype=oplib.{values.dtype.name}")
    if not values.size:
        return "[]"
    edge, threshold = printing.options.edgeitems, printing.options.threshold
    cut = [length > 2 * edge and values.size > threshold for length in values.shape]
    for axis, is_cut in enumerate(cut):
        if is_cut:
            values = np.take(values, [*range(edge), *range(-edge, 0)], axis)
    return _show_nested(values, cut, _choose_layout(values), len(_PREFIX))


class _Layout(NamedTuple):
    """The function that writes items, and their width."""

    write: Callable[[Any], str]
    width: int


def _show_nested(values: np.ndarray[Any, Any], cut: list[bool], layout: _Layout, indent: int) -> str:
    if values.ndim == 0:
        return layout.write(values.item())
    if values.ndim == 1:
        return _show_row(values, cut[0], layout, indent)
    parts = [_show_nested(part, cut[1:], layout, indent + 1) for part in values]
    if cut[0]:
        parts.insert(printing.options.edgeitems, "...")
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _show_row(values: np.ndarray[Any, Any], is_cut: bool, layout: _Layout, indent: int) -> str:
    items = list(map(layout.write, values.tolist()))
    if is_cut:
        items.insert(printing.options.edgeitems, " ..." if items else "...")
    per_line = max(1, (printing.options.linewidth - indent) // (layout.width + 2))
    lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _choose_layout(values: np.ndarray[Any, Any]) -> _Layout:
    """Chooses one width for all items."""
    if values.dtype in COMPLEX:
        real, imaginary = _choose_layout(values.real), _choose_layout(values.imag)
        return _Layout(
            lambda value: _write_complex(real.write(value.real), imaginary.write(value.imag).lstrip()),
            real.width + imaginary.width + 1,
        )
    if values.dtype in INTEGRAL or values.dtype == dtypes.bool:
        width = max((len(str(value)) for value in values.ravel().tolist()), default=1)
        return _Layout(lambda value: f"{value!s:>{width}}", width)
    return _choose_float_layout(values.astype(np.float64).ravel())


def _write_complex(real: str, imaginary: str) -> str:
    return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"


def _choose_float_layout(values: np.ndarray[Any, Any]) -> _Layout:
    plain = values[np.isfinite(values) & (values != 0)]
    form, width = _WHOLE, 1
    if plain.size:
        whole = bool((plain == np.ceil(plain)).all())
        if _needs_exponent(np.abs(plain).min(), np.abs(plain).max(), whole):
            form = f".{printing.options.precision}e"
        elif not whole:
            form = f".{printing.options.precision}f"
        width = max(len(_write_float(value, form)) for value in plain.tolist())
    return _Layout(lambda value: f"{_write_float(value, form):>{width}}", width)


def _needs_exponent(smallest: float, largest: float, whole: bool) -> bool:
    if printing.options.sci_mode is not None:
        return printing.options.sci_mode
    return largest / smallest > 1000.0 or largest > 1.0e8 or (smallest < 1.0e-4 and not whole)


def _write_float(value: float, form: str) -> str:
    if form == _WHOLE:
        return f"{value:.0f}." if math.isfinite(value) else f"{value}"
    return f"{value:{form}}"


def _add_suffixes(text: str, suffixes: list[str]) -> str:
    """Starts a new line before a suffix that does not fit."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > printing.options.linewidth:
            text += ",\n" + " " * len(_PREFIX) + suffix
            used = len(_PREFIX) + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"
