"""What stands between the brackets of ``x[...]``: read, checked, and put as calls of the ops that do it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer, max_dim, min_dim

from oplib.autograd.in_place import check_may_write, write_in_place
from oplib.autograd.view import make_view
from oplib.autograd.view_node import ViewNode, make_view_class
from oplib.errors import ArgumentTypeError, ArgumentValueError, DimensionError, TracingError, describe
from oplib.library import OpOverload
from oplib.tensor import Tensor
from oplib.tensor.symbolic import is_symbolic
from oplib.tensor.views import Window, make_window

from ._in_place import check_written, store_in_place
from ._view_rules import pick

Function = Callable[..., Any]
_NUMBERS = (bool, int, float, complex)


class Choice(NamedTuple):
    """A bool as a subscript: it puts in a dim of length 1, and takes all of it or nothing.

    Attributes:
        places: the one place of the new dim, or none.
    """

    places: np.ndarray[Any, Any]


class Getter:
    """``getitem(input, index)``.

    As in torch, numbers, slices and None are applied first and one after the other, each as the op it is;
    then all tensors among the subscripts at once.
    """

    def __init__(self, overloads: Mapping[str, OpOverload]) -> None:
        self._select, self._select_static = overloads["select"], overloads["select.static"]
        self._slice, self._slice_static = overloads["slice"], overloads["slice.static"]
        self._unsqueeze, self._alias = overloads["unsqueeze"], overloads["alias"]
        self._index = overloads["index"]

    def getitem(self, whole: Any, index: Any) -> Any:
        """Returns the items that subscripts name; of a Tensor a view, where no tensor is among these."""
        if isinstance(whole, Tensor):
            return look_at(whole, index, self._index)
        if index.__class__ is int and whole.ndim:
            return self._take_one(whole, 0, index)
        if index.__class__ is slice and whole.ndim:
            result = self._take_slice(whole, 0, index)
        else:
            result = self._take_all(whole, read_subscripts(index, whole.shape))
        return self._alias.call(result) if result is whole else result

    def _take_all(self, whole: Any, items: list[Any]) -> Any:
        dim = 0
        indices: list[Any] = []
        dims: list[int] = []
        for item in items:
            if isinstance(item, int):
                whole = self._take_one(whole, dim, item)
                continue
            if item is None or isinstance(item, Choice):
                whole = self._unsqueeze.call(whole, dim)
            if isinstance(item, slice):
                whole = self._take_slice(whole, dim, item)
            elif item is not None:
                item = item.places if isinstance(item, Choice) else item
                check_places(item, whole.shape[dim], dim)
                indices.append(item)
                dims.append(dim)
            dim += 1
        return self._index.call(whole, indices, dims) if indices else whole

    def _take_one(self, whole: Any, dim: int, place: int) -> Any:
        place = check_place(place, whole.shape[dim], dim)
        if is_static(whole):
            return self._select_static.call(whole, dim, [place])
        return self._select.call(whole, dim, place)

    def _take_slice(self, whole: Any, dim: int, given: slice) -> Any:
        start, length, step = read_slice(given, whole.shape[dim])
        if length == whole.shape[dim]:
            return whole
        if is_static(whole):
            return self._slice_static.call(whole, dim, [start, length, step])
        return self._slice.call(whole, dim, start, [length, step])


def look_at(whole: Tensor, index: Any, index_op: OpOverload) -> Tensor:
    """Returns the view that numbers, slices and None make; then tensors take items out of that."""
    frame, starts, node_class, indices, dims = read_window(index, whole._storage.spec.shape)
    if not indices:
        return make_view(whole, frame, starts, node_class)
    view = whole if frame.is_identity else make_view(whole, frame, starts, node_class)
    return index_op.call(view, indices, dims)


def make_setitem(overloads: Mapping[str, OpOverload], functions: Mapping[str, Function]) -> Function:
    """Makes ``setitem_(input, index, value)``."""
    setitem, where = overloads["setitem"], functions["where"]

    def setitem_(input: Any, index: Any, value: Any) -> None:  # noqa: A002  torch's name
        check_written(input, "setitem_")
        mask = _find_mask(index, input.shape)
        if mask is not None and isinstance(value, _NUMBERS):
            check_may_write(input, "setitem_", [value])
            write_in_place(input, where(mask, _to_value(value, input.dtype), input), "setitem_")
            return
        frame, starts, node_class, indices, _ = read_window(index, tuple(input.shape))
        if indices:
            check_may_write(input, "setitem_", [value])
            place = read_place(index, input)
            result = setitem.call(input, _to_value(value, input.dtype), *place)
            write_in_place(input, result, "setitem_")
            return
        target = make_view(input, frame, starts, node_class)
        check_may_write(target, "setitem_", [value])
        if not _is_itself(target, value):
            store_in_place(target, _to_value(value, input.dtype), "setitem_")

    return setitem_


def _is_itself(target: Tensor, value: Any) -> bool:
    """Whether the value is what stands there, as in ``x[i] += 1``; it is counted, and nothing is done."""
    if not isinstance(value, Tensor) or value._root is None or value._root is not target._root:
        return False
    own: Any = target._storage
    other: Any = value._storage
    same = own.base is other.base and own.chain is other.chain and own.starts == other.starts
    if same:
        own.version += 1
    return same


def _to_value(value: Any, dtype: Any) -> Any:
    return value if isinstance(value, (Tensor, jax.Array)) else np.asarray(value).astype(dtype)


def _find_mask(index: Any, shape: tuple[int, ...]) -> Any:
    """A subscript that is one mask, shaped so that it broadcasts to the whole; None for any other."""
    if not is_array(index) or index.dtype != np.bool_ or not index.ndim:
        return None
    _check_mask(index, shape, 0)
    return index.reshape((*index.shape, *[1] * (len(shape) - index.ndim)))


SelectBackward0, SliceBackward0, UnsqueezeBackward0, AliasBackward0 = map(
    make_view_class, ("SelectBackward0", "SliceBackward0", "UnsqueezeBackward0", "AliasBackward0")
)


class _WindowReader:
    """Reads subscripts as one window: torch's views one after the other, done at once.

    Attributes:
        node_class: named as the last of them.
        indices: tensors among the subscripts.
        dims: where these stand in the shape of the window.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._dim = 0
        self._sizes, self._steps, self._starts = list(shape), [1] * len(shape), [0] * len(shape)
        self._axes: list[int | None] = []
        self.node_class: type[ViewNode] = AliasBackward0
        self.indices: list[Any] = []
        self.dims: list[int] = []

    def read(self, item: Any) -> None:
        """Reads the next subscript."""
        if item is None:
            self._axes.append(None)
            self.node_class = UnsqueezeBackward0
            return
        if isinstance(item, Choice):
            self._take(item.places)
            self._axes.append(None)
            return
        dim, length = self._dim, self._shape[self._dim]
        self._dim += 1
        if isinstance(item, int):
            self._starts[dim], self._sizes[dim] = check_place(item, length, dim), 1
            self.node_class = SelectBackward0
            return
        if isinstance(item, slice):
            if item != _ALL:
                start, count, step = read_slice(item, length)
                self._starts[dim], self._sizes[dim] = start, count
                self._steps[dim] = step if is_symbolic(count) or count > 1 else 1
                self.node_class = SliceBackward0
        else:
            check_places(item, length, dim)
            self._take(item)
        self._axes.append(dim)

    def _take(self, places: Any) -> None:
        self.indices.append(places)
        self.dims.append(len(self._axes))

    def window(self) -> tuple[Window, tuple[int, ...]]:
        """Returns the window with its starts."""
        shape = tuple([1 if axis is None else self._sizes[axis] for axis in self._axes])
        frame = make_window(self._shape, tuple(self._sizes), tuple(self._steps), tuple(self._axes), shape)
        return frame, tuple([self._starts[axis] for axis in frame.moving])


_ALL = slice(None)


def read_window(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns window, starts and node class of subscripts, and the tensors among them with their dims."""
    if index.__class__ is int and shape:
        place = check_place(index, shape[0], 0)
        return pick(shape, 0), (place,) if shape[0] > 1 else (), SelectBackward0, (), ()
    reader = _WindowReader(shape)
    for item in read_subscripts(index, shape):
        reader.read(item)
    return (*reader.window(), reader.node_class, reader.indices, reader.dims)


@dataclass
class Place:
    """Where something is stored, as the op ``setitem`` takes it.

    Attributes:
        starts: starts of windows that are operands, so that a loop over them compiles once.
        indices: tensors among the subscripts.
        windows: for each dim start (None for an operand), length and step.
        dims: where the tensors stand in the shape.
        shape: what the windows leave, selected dims left out and new ones put in.
    """

    starts: list[Any] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)
    windows: list[tuple[int | None, int, int]] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)

    def add_window(self, start: int, length: int, step: int, *, is_operand: bool) -> None:
        """Adds the window of the next dim."""
        if is_operand:
            self.starts.append(np.asarray(start, np.int32))
        self.windows.append((None if is_operand else start, length, step))


def read_place(index: Any, whole: Any) -> tuple[Any, ...]:
    """Reads subscripts as the arguments of ``setitem`` after the value."""
    place, fixed = Place(), is_static(whole)
    for item in read_subscripts(index, whole.shape):
        dim = len(place.windows)
        if isinstance(item, Choice):
            place.indices.append(item.places)
            place.dims.append(len(place.shape))
        if item is None or isinstance(item, Choice):
            place.shape.append(1)
        elif isinstance(item, slice):
            start, length, step = read_slice(item, whole.shape[dim])
            place.add_window(start, length, step, is_operand=not fixed and length < whole.shape[dim])
            place.shape.append(length)
        elif isinstance(item, int):
            place.add_window(check_place(item, whole.shape[dim], dim), 1, 1, is_operand=not fixed)
        else:
            check_places(item, whole.shape[dim], dim)
            place.indices.append(item)
            place.dims.append(len(place.shape))
            place.add_window(0, whole.shape[dim], 1, is_operand=False)
            place.shape.append(whole.shape[dim])
    return place.starts, place.indices, tuple(place.windows), place.dims, place.shape


# Reading ----------------------------------------------------------------------------------------------------


def is_array(value: object) -> bool:
    """Whether a subscript is a tensor or an array."""
    return isinstance(value, (Tensor, jax.Array, np.ndarray))


def is_static(whole: Any) -> bool:
    """Whether places are to be static: in a trace they better are, and over several devices they must."""
    array = whole._storage.array if isinstance(whole, Tensor) else whole
    return isinstance(array, Tracer) or array.sharding.num_devices > 1


def read_subscripts(index: Any, shape: tuple[int, ...]) -> list[Any]:
    """Returns one subscript for each dim, and None or a choice for each new one; masks become places.

    Raises:
        DimensionError: there are more than dims, or one is nothing that could index.
        ArgumentTypeError: one is a text.
        TracingError: a mask is traced, so that nobody knows how many items it has.
    """
    given = list(index) if isinstance(index, tuple) else [index]
    items = [_read_one(item) for item in given]
    consumed = sum(_count_dims(item) for item in items)
    if consumed > len(shape):
        raise DimensionError(
            f"index: too many indices for tensor of dimension {len(shape)}. Got {consumed}. Leave some out."
        )
    rest = [slice(None)] * (len(shape) - consumed)
    where = next((place for place, item in enumerate(items) if item is Ellipsis), len(items))
    items = [*items[:where], *rest, *(item for item in items[where + 1 :] if item is not Ellipsis)]
    return [place for item in _with_dims(items) for place in _spread_mask(*item, shape)]


def _with_dims(items: list[Any]) -> list[tuple[Any, int]]:
    """Pairs each subscript with the dim of the whole that it begins at."""
    pairs: list[tuple[Any, int]] = []
    dim = 0
    for item in items:
        pairs.append((item, dim))
        dim += _count_dims(item)
    return pairs


def _read_one(item: Any) -> Any:
    if isinstance(item, slice):
        _check_step(item.step)
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, range)):
        item = np.asarray(item) if len(item) else np.asarray(item, np.int32)
    if isinstance(item, bool):
        return Choice(np.zeros(int(item), np.int32))
    if is_array(item) and (item.dtype == np.bool_ or np.issubdtype(item.dtype, np.integer)):
        if item.ndim or _is_traced(item):
            return item
        return _read_one(bool(item)) if item.dtype == np.bool_ else int(item)
    if not hasattr(item, "__index__") or is_array(item):
        raise (ArgumentTypeError if isinstance(item, str) else DimensionError)(  # as torch tells them apart
            "index: only integers, slices (`:`), ellipsis (`...`), None and long, int or bool tensors are "
            f"valid indices. Got {describe(item)}. Convert it."
        )
    return operator.index(item)


def _is_traced(item: Any) -> bool:
    return isinstance(item._storage.owner.array if isinstance(item, Tensor) else item, Tracer)


def _count_dims(item: Any) -> int:
    """How many dims of the whole a subscript stands for."""
    if item is None or item is Ellipsis or isinstance(item, Choice):
        return 0
    return item.ndim if is_array(item) and item.dtype == np.bool_ else 1


def _spread_mask(item: Any, dim: int, shape: tuple[int, ...]) -> Sequence[Any]:
    """A mask stands for the places where it is true, one array of integers for each of its dims."""
    if not is_array(item) or item.dtype != np.bool_:
        return (item,)
    _check_mask(item, shape, dim)
    array = item._storage.array if isinstance(item, Tensor) else item
    if isinstance(array, Tracer):
        raise TracingError(
            f"index: a traced mask does not tell how many items the result has. Got {describe(array)}. "
            f"Use oplib.where(mask, x, other), or index outside the trace."
        )
    return [places.astype(np.int32) for places in np.nonzero(np.asarray(array))]


def _check_mask(mask: Any, shape: tuple[int, ...], dim: int) -> None:
    own = shape[dim : dim + mask.ndim]
    if tuple(mask.shape) != own:
        raise DimensionError(
            f"index: the shape of the mask at index {dim} does not match the shape of the indexed tensor. "
            f"Got {describe(mask)} for {list(own)}. Give a mask of that shape."
        )


def _check_step(step: Any) -> None:
    if step is not None and operator.index(step) <= 0:
        raise ArgumentValueError(
            f"index: slice step must be positive, step must be greater than zero. Got {step}. "
            f"Take the items with a positive step."
        )


def read_slice(given: slice, length: int) -> tuple[int, int, int]:
    """Returns start, number of items and step."""
    _check_step(given.step)
    step = 1 if given.step is None else operator.index(given.step)
    if is_symbolic(length):
        return _read_symbolic_slice(given, length, step)
    start, stop, _ = given.indices(length)
    count = max(0, -((start - stop) // step))
    return (start if count else 0), count, step


def _read_symbolic_slice(given: slice, length: Any, step: int) -> tuple[Any, Any, int]:
    """As ``slice.indices``, of a length that is a symbol: what it does not tell is a symbol too."""

    def clip(place: Any, default: Any) -> Any:
        if place is None:
            return default
        return max_dim(place + length, 0) if place < 0 else min_dim(place, length)

    start = clip(given.start, 0)
    return start, max_dim(-((start - clip(given.stop, length)) // step), 0), step


def check_place(place: int, length: int, dim: int) -> int:
    """Returns a place counted from the start.

    Raises:
        DimensionError: there is no such place.
    """
    if not -length <= place < length:
        raise DimensionError(
            f"index {place} is out of bounds for dimension {dim} with size {length}. "
            f"Got {place}. Give one from {-length} to {length - 1}."
        )
    return place + length if place < 0 else place


def check_places(index: Any, length: int, dim: int) -> None:
    """Raises where a tensor holds a place that is not there; a traced one is clamped later, as JAX does.

    Raises:
        DimensionError: there is such a place.
    """
    array = index._storage.array if isinstance(index, Tensor) else index
    if isinstance(array, Tracer) or not array.size:
        return
    values = np.asarray(array)
    check_place(int(values.min()), length, dim)
    check_place(int(values.max()), length, dim)
