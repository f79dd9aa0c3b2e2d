"""View ops on Tensors: what a rule says becomes a view, and nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.recording.in_place import check_may_turn
from oplib.autograd.recording.view import make_view, make_views, turn_in_place
from oplib.autograd.recording.view_node import make_view_class
from oplib.builtin.rows.row import Function
from oplib.errors import ArgumentError, frame_error
from oplib.library import OpOverload
from oplib.library.arguments.binding import Binder
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor

from .in_place import require_tensor_to_write
from .rows.choice import OverloadChoice
from .rows.parameters import FURTHER_NAMES
from .shared_kernels import partition_rules as partition
from .shared_kernels.view_rules import Itself, Several
from .values import can_move, find_start, is_item, is_traced_index

_NO_NAMES: Mapping[str, Any] = {}
_STARTS = ("start", "index")  # the arguments that say where a window of known size begins: they may be traced


def make_viewer(rule: Function, name: str, overload: OpOverload, check: Function | None = None) -> Function:
    """Makes the function of a view op on a Tensor and the other arguments.

    Args:
        rule: gives the frame.
        name: of the node, less "Backward0".
        overload: takes what gives no view, and says what is wrong with arguments.
        check: sees the arguments of a call that gives other things than integers, and raises or not.
    """
    own, name = overload.name().partition("::")[2].partition(".")[0], f"{name}Backward0"
    node_class, convert = make_view_class(name), convert_by_schema(overload)
    place = next((at for at, one in enumerate(_name_arguments(overload)[1:]) if one in _STARTS), None)

    @lru_cache(maxsize=1024)
    def look_up(shape: tuple[int, ...], dtype: Any, *args: int) -> Any:
        return rule(jax.ShapeDtypeStruct(shape, dtype), *args)

    def look(tensor: Tensor, *args: Any) -> Any:
        storage = tensor._storage
        is_plain, traced = all_integers(args), None
        if not is_plain:
            if check is not None:
                check(tensor, *args)
            if place is not None and is_traced_index(args[place]) and can_move(tensor):
                traced, args = args[place], (*args[:place], 0, *args[place + 1 :])
            args = convert(tensor, args)
            is_plain = all_integers(args)
        try:
            if storage.__class__ is Storage and is_plain:
                part = look_up(storage.array.shape, storage.array.dtype, *args)
            else:
                part = rule(storage.spec, *args)
        except ArgumentError as error:
            frame_error(error, own, zip(_name_arguments(overload), (tensor, *args), strict=False))
            raise
        if part is None:
            return overload.call(tensor, *args)
        if part.__class__ is Itself:
            return tensor
        if part.__class__ is Several:
            return make_views(tensor, part.parts, _find_join(part.joined_by, part.dim), name)
        frame, starts = part
        if traced is not None and starts:
            starts = (find_start(traced, frame.in_shape[frame.moving[0]], frame.sizes[frame.moving[0]]),)
        return make_view(tensor, frame, starts, node_class)

    return look


def _name_arguments(overload: OpOverload) -> list[str]:
    return [argument.name for argument in overload._schema.arguments]


def all_integers(args: Iterable[Any]) -> bool:
    """Returns whether all are integers, or tuples of them: ``1.0`` and ``True`` would be equal keys."""
    for value in args:  # a generator costs more than the loop
        if value.__class__ is not int and not (value.__class__ is tuple and all_integers(value)):
            return False
    return True


def convert_by_schema(overload: OpOverload) -> Callable[..., Values]:
    """Makes the function that converts the further arguments of a view, before a rule sees them.

    A view lives as long as its starts and sizes. So these are numbers, and not what may change later.
    """

    @cache
    def find_binder() -> Binder:
        return Binder(overload._schema)

    def convert(tensor: Tensor, args: Iterable[Any], named: Mapping[str, Any] = _NO_NAMES) -> Values:
        values = find_binder().bind((tensor, *args), named, op=overload.name())[1:]
        return tuple([tuple(value) if value.__class__ is list else value for value in values])

    return convert


def make_turner(rule: Function, name: str, overload: OpOverload) -> Function:
    """Makes the in-place form of a view op, such as ``transpose_``."""
    node_class = make_view_class(f"{''.join(map(str.capitalize, name.split('_')))}Backward0")
    convert = convert_by_schema(overload)

    def turn(input: Any, *args: Any, **kwargs: Any) -> Any:
        require_tensor_to_write(input, f"{name}_")
        check_may_turn(input, f"{name}_")
        named = {FURTHER_NAMES.get(given, given): value for given, value in kwargs.items()}
        frame, starts = rule(input._storage.spec, *convert(input, args, named))
        return turn_in_place(input, frame, starts, node_class, f"{name}_")

    turn.__doc__ = f"As ``{name}``, in place: ``input`` itself has the other shape, and is returned."
    return turn


@lru_cache(maxsize=256)
def _find_join(how: str, dim: int) -> ArrayFunction:
    """Returns what undoes an op with several views, the same for the same axis: it is compiled."""
    if how == "stack":
        return ArrayFunction(lambda *grads: (jnp.stack(grads, dim),), "Unbind")
    return ArrayFunction(lambda *grads: (jnp.concatenate(grads, dim),), "Split")


def choose_split(overloads: Mapping[str, OpOverload]) -> OverloadChoice:
    """Makes ``split(tensor, split_size_or_sections, dim=0)``, by one length or by several."""
    even, by_sizes = overloads["split"], overloads["split.sizes"]
    look_even = make_viewer(partition.split_evenly, "Split", even)
    look_given = make_viewer(partition.split, "SplitWithSizes", by_sizes)

    def function(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
        is_even = isinstance(split_size_or_sections, int) or is_item(split_size_or_sections)
        if isinstance(tensor, Tensor):
            return (look_even if is_even else look_given)(tensor, split_size_or_sections, dim)
        return (even if is_even else by_sizes).call(tensor, split_size_or_sections, dim)

    return OverloadChoice(function)
