"""Casting the arguments of a call, by the policy of the op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import DtypeError, describe
from oplib.library.arguments.trees import is_tree_leaf
from oplib.library.op_records.record import Record
from oplib.library.schema import split_values
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_leaves, tree_map
from oplib.tensor import Tensor
from oplib.tensor.devices.device import device_type_of
from oplib.tensor.dtypes import names as dtypes

from .settings import AutocastScope, Settings


def call_by_policy(
    record: Record, values: list[Any], settings: Settings, call: Callable[[list[Any]], Any]
) -> Any:
    """Calls an op under autocast as its policy for the device type of its arguments says, with autocast off.

    Args:
        record: of the op.
        values: the bound arguments.
        settings: of this thread.
        call: calls the op with bound arguments.

    Returns:
        The result; ``NotImplemented`` if there is no policy for the call.

    Raises:
        DtypeError: an op that takes the widest dtype has floating arguments of a dtype that autocast does not
            know.
    """
    pairs = zip(record.schema.arguments, values, strict=True)
    leaves = [leaf for argument, value in pairs if argument.has_tensor for leaf in tree_leaves(value)]
    device_type = _find_device_type(record, leaves, settings)
    if device_type is None:
        return NotImplemented
    policy = record.autocast[device_type]
    with AutocastScope(settings._replace(enabled=())):
        if callable(policy):  # a kernel for the dispatch key AutocastCPU or AutocastCUDA
            positional, named = split_values(record.schema, values)
            return policy(*positional, **named)
        if policy == "result":
            return cast_tree(call(values), device_type, settings.dtype_of(device_type))
        return call(_cast_arguments(record, values, settings, leaves, device_type))


def _cast_arguments(
    record: Record,
    values: Sequence[Any],
    settings: Settings,
    leaves: Sequence[Any],
    device_type: str,
) -> list[Any]:
    low, policy = settings.dtype_of(device_type), record.autocast[device_type]
    if policy == "widest":
        dtype = _find_widest(record.name, (leaf for leaf in leaves if _is_eligible(leaf, device_type)), low)
    else:
        dtype = {"low": low, "float32": dtypes.float32}.get(policy, policy)

    def cast(value: Any) -> Any:
        is_other = _is_eligible(value, device_type) and value.dtype != dtype
        return _convert(value, dtype) if is_other else value

    return [
        tree_map(cast, value) if argument.has_tensor else value
        for argument, value in zip(record.schema.arguments, values, strict=True)
    ]


def cast_tree(tree: Any, device_type: str, dtype: Any) -> Any:
    """Returns arguments with their floating tensors and arrays on a device type in another dtype."""

    def cast(value: Any) -> Any:
        return _convert(value, dtype) if _is_eligible(value, device_type) else value

    return jax.tree_util.tree_map(cast, tree, is_leaf=is_tree_leaf)


def call_in_float32(function: AnyFunction, *args: Any, **kwargs: Any) -> Any:
    """Calls a composed function that torch's autocast computes in float32 on the CPU.

    Where autocast is on for the CPU and an argument is there, the floating arguments become float32, and the
    ops inside of the function cast nothing.
    """
    settings = modes.autocast
    if settings is None or "cpu" not in settings.enabled or not any(_is_on(arg, "cpu") for arg in args):
        return function(*args, **kwargs)
    with AutocastScope(settings._replace(enabled=())):
        return function(*cast_tree(args, "cpu", dtypes.float32), **kwargs)


def _find_device_type(record: Record, leaves: Sequence[Any], settings: Settings) -> str | None:
    """Returns the device type whose policy counts: autocast is on for it, and an argument is there."""
    candidates = [device for device in settings.enabled if device in record.autocast]
    return next((device for device in candidates if any(_is_on(leaf, device) for leaf in leaves)), None)


def _is_on(value: Any, device_type: str) -> bool:
    array = value._storage.array if isinstance(value, Tensor) else value
    return isinstance(array, (jax.Array, np.ndarray)) and device_type_of(array) == device_type


def _is_eligible(value: Any, device_type: str) -> bool:
    if not isinstance(value, (Tensor, jax.Array, np.ndarray)):
        return False
    dtype: Any = value.dtype
    return jnp.issubdtype(dtype, jnp.floating) and dtype != dtypes.float64 and _is_on(value, device_type)


def _find_widest(name: str, leaves: Iterator[Any], low: Any) -> Any:
    for leaf in leaves:
        if leaf.dtype == dtypes.float32:
            return leaf.dtype  # whatever follows, as in torch
        if leaf.dtype != low:
            raise DtypeError(
                f"{name}: under autocast it takes {low} and float32. Got {describe(leaf)}. Convert it: "
                "tensor.to(dtype)."
            )
    return low


def _convert(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) else jnp.asarray(value, dtype)
