"""Calls of a Function inside of a map: by its own rule, or unchanged on one example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.extend.core import get_opaque_trace_state

from oplib.autograd.function import Function
from oplib.autograd.user_functions.vmap import call_own_rule, uses_own_rule
from oplib.errors import AutogradError, DimensionError, describe
from oplib.library.carrier.unmapped_values import read_unmapped
from oplib.library.carrier.vmap_rule import VmapInfo
from oplib.modes import modes
from oplib.pytree import tree_flatten, tree_unflatten
from oplib.tensor import Tensor

from .dims import move_batch, repeat
from .spliced_node import call_spliced


def apply_in_map(
    cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any], apply: Callable[..., Any]
) -> Any:
    """Applies a Function inside of ``vmap``.

    With ``generate_vmap_rule`` the Function runs on one example, and its backward is mapped.

    Args:
        cls: the Function.
        args: the arguments of its forward.
        kwargs: the keyword arguments of its forward.
        apply: applies it without regard to the map.

    Raises:
        AutogradError: it has no rule, or the result of the rule does not fit.
    """
    level = modes.state.map_levels[-1]
    if not uses_own_rule(cls) or get_opaque_trace_state() != level.inside:
        return apply(*args, **kwargs)
    args = _bind(cls, args, kwargs)
    leaves, spec = tree_flatten(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    below = read_unmapped(level.index, [tensor._storage.array for tensor in tensors])
    if not any(value.is_batched for value in below):
        return apply(*args)
    outcome: list[Any] = []

    def run(boxes: list[Tensor], batched: list[bool]) -> list[Tensor]:
        remaining = iter(boxes)
        flags = iter(batched)
        values = [next(remaining) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        dims = [0 if isinstance(leaf, Tensor) and next(flags) else None for leaf in leaves]
        info = VmapInfo(level.size, level.randomness)
        outputs, out_dims, out_spec = call_own_rule(
            cls, info, tree_unflatten(dims, spec), tree_unflatten(values, spec)
        )
        outcome[:] = [outputs, out_spec]
        pairs = zip(outputs, out_dims, strict=True)
        return [_front(cls, output, dim, level.size) for output, dim in pairs if isinstance(output, Tensor)]

    results = iter(call_spliced(level, run, tensors))
    outputs, out_spec = outcome
    packed = [next(results) if isinstance(output, Tensor) else output for output in outputs]
    return tree_unflatten(packed, out_spec)


def _bind(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns all arguments in the order of the parameters of forward, for the rule."""
    bound, keyword_only = cls._binding().bind(args, kwargs)
    if keyword_only:
        raise AutogradError(
            f"{cls.__name__}: its vmap staticmethod gets positional arguments, and forward has keyword-only "
            f"ones. Got {list(keyword_only)}. Make these parameters positional, or set "
            "generate_vmap_rule=True and delete vmap."
        )
    return bound


def _front(cls: type[Function], output: Tensor, dim: int | None, size: int) -> Tensor:
    """Moves the batch of a result to the front."""
    if dim is None:
        return repeat(output, size)
    array = output._storage.array
    if not -array.ndim <= dim < array.ndim or array.shape[dim] != size:
        raise DimensionError(
            f"{cls.__name__}: its vmap staticmethod returned an out_dim that is no batch of its output. Got "
            f"{dim} for {describe(array)}, and the batch has {size}. Return the place of the batch in each "
            "output."
        )
    return move_batch(output, dim % array.ndim, 0) if dim else output
