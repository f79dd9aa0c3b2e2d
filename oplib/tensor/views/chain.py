"""Chains: the frames from the base of a view to the view, with their compiled functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from oplib.errors import ArgumentError
from oplib.protocols import AnyFunction
from oplib.tensor.devices.forked import after_fork, is_orphan, refuse_call
from oplib.tensor.devices.layout import drop_names, find_single, is_explicit
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.storage.fresh import is_large
from oplib.tensor.storage.known import run_noted
from oplib.tensor.storage.overlay import overlays

from .frame import Frame, Layout, Starts, contiguous_strides, find_positions
from .reshape import Reshape

Combine = Callable[[Starts, Starts], Starts] | None
_MOST_PARTS = 16
_MOST_FORMS = 64  # those of gradients of written views have names of ever new formulas


class Chain:
    """One or several frames, and their compiled functions. Make one with :func:`make_chain`.

    Two frames that can be merged become one, so a chain of windows is always a single window.

    Attributes:
        frames: the frames, from the base on.
        in_shape: the shape of the base.
        shape: the shape of the view.
        start_count: the number of starts of all frames. Those of the first frame come first.
        is_identity: whether the view shows its base unchanged.
        is_large: whether writes use the buffer of the base again, see ``storage/fresh.py``.
        tape_functions: functions that the tape makes for the chain, by name.
    """

    def __init__(self, frames: tuple[Frame, ...]) -> None:
        self.frames = frames
        self.in_shape = frames[0].in_shape
        self.shape = frames[-1].shape
        self._in_layout: Layout = contiguous_strides(self.in_shape), 0
        self.start_count = sum(frame.start_count for frame in frames)
        self._is_injective = all(frame.is_injective for frame in frames)
        self.is_identity = all(frame.is_identity for frame in frames)
        self.is_large = is_large(self.in_shape) and not self.is_identity and 0 not in self.shape
        self.tape_functions: dict[Hashable, Any] = {}
        self._forms: dict[Hashable, Forms] = {}
        self._extensions: dict[Frame, tuple[Chain, Combine]] = {}
        self._parts: dict[int, tuple[ref[Any], ref[Any]]] = {}  # base and view, by the id of the base
        self._calls: set[Hashable] = set()  # of large bases

    @cached_property
    def is_injective(self) -> bool:
        """Whether the view shows each item of the base at most once, so that it can be written."""
        if self._is_injective or len(self.frames) == 1:
            return self._is_injective
        # a later frame may leave out what an earlier one repeats
        if not self.is_strided:
            return False
        indices = self._find_positions((0,) * self.start_count)
        return np.unique(indices).size == indices.size

    @cached_property
    def is_strided(self) -> bool:
        """Whether strides describe what the view shows: no frame shows other items, or parts of items."""
        kinds = set(map(type, self.frames))
        return all(
            kind.lay_out is not Frame.lay_out and kind.part_dtype is Frame.part_dtype for kind in kinds
        )

    @cached_property
    def _inverse(self) -> Chain | None:
        """The chain that reads the base out of the view; None if the view does not show all of the base once.

        A view of another tensor may have this chain too, and have compiled its program.
        """
        frames = [frame.invert() for frame in reversed(self.frames)]
        return None if None in frames else make_chain(tuple(filter(None, frames)))

    def _find_positions(self, starts: Sequence[Any]) -> Any:
        """Returns the position of each item in the flat base."""
        strides, offset = self.lay_out(tuple(starts))
        return find_positions(self.shape, (strides, 0)) + offset

    # Composition ------------------------------------------------------------------------------

    def extend(self, frame: Frame | Chain, own: Starts, others: Starts) -> tuple[Chain, Starts]:
        """Returns the chain with further frames at its end, and the starts of that chain."""
        if isinstance(frame, Chain):
            chain = self
            for part, starts in frame.split(others):
                chain, own = chain.extend(part, own, starts)
            return chain, own
        extended = self._extensions.get(frame)
        if extended is None:
            extended = self._extensions[frame] = self._attach(frame)
        chain, combine = extended
        if combine is None:
            return chain, own + others
        first = self.start_count - self.frames[-1].start_count
        return chain, own[:first] + combine(own[first:], others)

    def reshape(self, own: Starts, shape: tuple[int, ...]) -> tuple[Chain, Starts] | None:
        """Returns the chain with its items in another shape; None if that has another number of items."""
        if shape == self.shape:
            return self, own
        is_possible = math.prod(shape) == math.prod(self.shape)
        return self.extend(Reshape.between(self.shape, shape), own, ()) if is_possible else None

    def _attach(self, frame: Frame) -> tuple[Chain, Combine]:
        last = self.frames[-1]
        if frame.is_identity or (last.is_identity and len(self.frames) == 1):
            return (self if frame.is_identity else make_chain((frame,))), None
        merged = last.merge(frame)
        if merged is None:
            return make_chain((*self.frames, frame)), None
        return make_chain((*self.frames[:-1], merged[0])), merged[1]

    # Pure functions ---------------------------------------------------------------------------

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:
        """Returns the view of a base, as a pure function of arrays."""
        for frame, own in self.split(starts):
            whole = frame.get(whole, own)
        return whole

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:
        """Returns the base with the view replaced. ``part`` broadcasts to the shape of the view."""
        if 0 in self.shape:
            return whole
        if not self._is_injective:  # no two different items are put at one place
            indices = self._find_positions([starts[index] for index in range(self.start_count)])
            flat = lax.reshape(whole, (whole.size,)).at[indices].set(jnp.broadcast_to(part, self.shape))
            return lax.reshape(flat, self.in_shape)
        wholes = [whole]
        pairs = self.split(starts)
        for frame, own in pairs[:-1]:
            wholes.append(frame.get(wholes[-1], own))
        part = jnp.broadcast_to(part, self.shape)
        for (frame, own), outer in zip(reversed(pairs), reversed(wholes), strict=True):
            part = frame.put(outer, part, own)
        return part

    def pull(self, grad: Any, starts: Sequence[Any]) -> Any:
        """Returns the gradient of the base from the gradient of the view, in the tape's convention."""
        dtype = self.whole_dtype(grad.dtype)
        varying: Any = getattr(jax.typeof(grad), "manual_axis_type", None)
        if varying is not None and varying.varying:  # in shard_map types must match; the vjp is the same
            zeros = jax.lax.pcast(jnp.zeros(self.in_shape, dtype), tuple(varying.varying), to="varying")
            transposed = jax.vjp(lambda whole: self.get(whole, starts), zeros)[1]
        else:
            grad = drop_names(grad)
            base = jax.ShapeDtypeStruct(self.in_shape, dtype, sharding=find_single(grad))
            transposed = jax.linear_transpose(lambda whole: self.get(whole, starts), base)
        return _conjugate(transposed(_conjugate(grad))[0])

    def split(self, starts: Sequence[Any]) -> list[tuple[Frame, Any]]:
        """Pairs each frame with its starts, which are a tuple of Python numbers or an array of operands."""
        pairs: list[tuple[Frame, Any]] = []
        if not isinstance(starts, tuple):
            starts = [starts[index] for index in range(self.start_count)]
        first = 0
        for frame in self.frames:
            pairs.append((frame, starts[first : first + frame.start_count]))
            first += frame.start_count
        return pairs

    # Properties of the view ---------------------------------------------------------------------

    def part_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the view for a base of this dtype."""
        for frame in self.frames:
            dtype = frame.part_dtype(dtype)
        return dtype

    def whole_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the base for a view of this dtype."""
        for frame in reversed(self.frames):
            dtype = frame.whole_dtype(dtype)
        return dtype

    def lay_out(self, starts: Starts, layout: Layout | None = None) -> Layout:
        """Returns the strides and offset of the view. By default its base is contiguous."""
        laid = layout or self._in_layout
        for frame, own in self.split(starts):
            laid = frame.lay_out(laid, tuple(own))
        return laid

    # Running ----------------------------------------------------------------------------------

    def read(self, whole: Any, starts: Starts) -> Any:
        """Returns the view of a base. The function is compiled if the base is concrete."""
        if self.is_identity:
            return whole
        if isinstance(whole, Tracer):
            return self._run_traced("get", Chain.get, starts, whole)
        forms = self._forms.get("get")
        if forms is None or whole.sharding.__class__ is not SingleDeviceSharding:
            return self.run("get", Chain.get, starts, whole)
        if starts:
            return forms.by_operand(whole, starts_to_array(starts))  # as run does, inlined
        # An equal view of the same base may live: the transposed weight that each step of a loop takes anew.
        held = self._parts.get(id(whole))
        part = None if held is None or held[0]() is not whole else held[1]()
        if part is None or part.is_deleted():
            part = forms.by_operand(whole, ())
            if not isinstance(part, Tracer):
                if len(self._parts) >= _MOST_PARTS:
                    self._parts.clear()
                self._parts[id(whole)] = ref(whole), ref(part)
        return part

    def note_read(self, whole: Any) -> bool:
        """Notes a read of such a base. Returns whether one was noted before, so that no read compiles."""
        key = whole.dtype, whole.sharding, whole.committed
        has_read = key in self._calls
        self._calls.add(key)
        return has_read and whole.sharding.__class__ is SingleDeviceSharding

    def write(self, whole: Any, part: Any, starts: Starts) -> Any:
        """Returns the base with the view replaced. The function is compiled if both are concrete."""
        if self.is_identity and part.shape == self.shape and part.__class__ is not np.ndarray:
            return part
        run = self._run_traced if isinstance(whole, Tracer) or isinstance(part, Tracer) else self.run
        return run("put", Chain.put, starts, whole, part)

    @cached_property
    def _put_into(self) -> AnyFunction:
        return jax.jit(partial(Chain.put, self), donate_argnums=0)

    def find_writer(self, whole: Any, part: Any, starts: Starts) -> tuple[Any, Any, bool]:
        """Returns a compiled function that donates its first argument, a base, and puts the view into it.

        Args:
            whole: the base.
            part: what is put.
            starts: the starts.

        Returns:
            The function, its other arguments, and whether it has run on such arrays. The first run is for a
            copy of the base: in it JAX runs in Python, where an interrupt would lose the result.
        """
        operands = part, starts_to_array(starts)
        classes = tuple(map(type, operands))
        key = whole.dtype, whole.sharding, whole.committed, part.shape, part.dtype, classes
        has_run = key in self._calls
        self._calls.add(key)
        return self._put_into, operands, has_run

    def _run_traced(self, name: str, function: AnyFunction, starts: Starts, *arrays: Any) -> Any:
        """Runs a function of one result, as :meth:`run` does, and notes how the result is computed."""
        count = len(arrays)
        traced = starts if any(isinstance(start, Tracer) for start in starts) else ()

        def run(*operands: Any) -> tuple[Any]:
            return (self.run(name, function, operands[count:] or starts, *operands[:count]),)

        return run_noted(run, *arrays, *traced)[0]

    def pull_back(self, grad: Any, starts: Starts, held: Any = None) -> Any:
        """Returns the gradient of the base from that of the view, added to another one if that is given.

        It is compiled for concrete arrays.
        """
        if held is not None:
            return self.run("add", lambda _, held, *given: held + self.pull(*given), starts, held, grad)
        if self.is_identity:
            return grad
        inverse = self._inverse
        if inverse is None:
            return self.run("pull", Chain.pull, starts, grad)
        return inverse.run("get", Chain.get, (), grad)

    def run(self, name: Hashable, function: AnyFunction, starts: Starts, *arrays: Any) -> Any:
        """Runs a function of this chain, arrays and starts. It is compiled if the arrays are concrete.

        Starts are operands, so that other starts do not compile again. In a trace and on several devices they
        are static, because this is faster or necessary.

        Args:
            name: the key of the compiled function.
            function: a pure function of the chain, the arrays and the starts.
            starts: the starts.
            *arrays: the arrays.
        """
        forms = self._forms.get(name)
        if forms is None:
            if len(self._forms) == _MOST_FORMS:
                self._forms.clear()
            forms = self._forms[name] = Forms(partial(function, self), len(arrays))
        return forms.run(starts, *arrays)


@lru_cache(maxsize=256)
def _needs_static(sharding: Any) -> bool:
    """Whether starts are static: on several devices, and where the type of an array carries its sharding."""
    return sharding.num_devices > 1 or is_explicit(sharding)


class Forms:
    """One function of arrays and starts: plain, and compiled in two ways."""

    __slots__ = ("by_operand", "by_static", "function")

    def __init__(self, function: AnyFunction, array_count: int) -> None:
        self.function = function = partial(_explain, function)

        def run(*arguments: Any) -> Any:
            result = function(*arguments)
            for array in jax.tree.leaves(result):
                require_memory("view", array.shape, array.dtype, in_jit=True)
            return result

        self.by_operand: AnyFunction = jax.jit(run, inline=True)
        self.by_static: AnyFunction = jax.jit(run, inline=True, static_argnums=array_count)

    def run(self, starts: Starts, *arrays: Any) -> Any:
        """Runs the form that fits the arrays."""
        if not starts:
            return self.by_operand(*arrays, ())
        for array in arrays:
            if isinstance(array, Tracer):
                return self.function(*arrays, starts)
            sharding = getattr(array, "sharding", None)  # arrays of numpy, and numbers, have none
            is_single = sharding is None or sharding.__class__ is SingleDeviceSharding
            if not is_single and _needs_static(sharding):
                is_moving = any(isinstance(start, Tracer) for start in starts)
                return (self.function if is_moving else self.by_static)(*arrays, starts)
        return self.by_operand(*arrays, starts_to_array(starts))


def _explain(function: AnyFunction, *arguments: Any) -> Any:
    """Calls a function. An error of JAX about explicit axes becomes one with a cure."""
    try:
        return function(*arguments)
    except Exception as error:
        if type(error).__name__ != "ShardingTypeError":  # no public class of JAX
            raise
        raise ArgumentError(
            "view: JAX does not tell how this part of a tensor on explicit axes is spread. Got "
            f"{type(error).__name__}: {str(error).removesuffix('.')}. Lay the tensor out otherwise first, "
            "tensor.to(NamedSharding(mesh, PartitionSpec())), or make the mesh with AxisType.Auto."
        ) from None


def _refuse_in_orphan() -> None:
    if is_orphan():
        Chain.run = refuse_call


after_fork(_refuse_in_orphan)


@lru_cache(maxsize=4096)
def make_chain(frames: tuple[Frame, ...]) -> Chain:
    """Returns the chain of these frames. Equal frames give the same object."""
    return Chain(frames)


_operands: dict[Hashable, Any] = {}
_MOST = 1024


def starts_to_array(starts: Starts) -> Any:
    """Returns starts as one array. An array used twice is kept on the device, which saves the transfer."""
    try:
        held = None if overlays.current is not None else _operands.get(starts)
        return _keep(starts, np.array(starts, np.int32)) if held is None else held
    except TypeError:  # a start is traced
        return jnp.stack([jnp.asarray(start, jnp.int32) for start in starts])


def number_to_array(number: complex, dtype: Any, convert: Callable[[], np.ndarray[Any, Any]]) -> Any:
    """Returns a Python number that is written through a chain. One that is used twice is kept on the device.

    Args:
        number: the number. In the key the text of a zero tells its sign.
        dtype: the dtype of the array.
        convert: checks the number and returns it in that dtype. It is called where no array is kept.
    """
    is_exact = number and number.__class__ is not complex
    key = number.__class__, number if is_exact else repr(number), dtype
    held = None if overlays.current is not None else _operands.get(key)
    return _keep(key, convert()) if held is None else held


def _keep(key: Hashable, values: np.ndarray[Any, Any]) -> Any:
    """Returns values as they are, or at their second use as an array on the device, which is kept.

    A program of ``oplib.jit`` gets them as they are: its text does not depend on what was used before.
    """
    if overlays.current is not None:
        return values
    if key not in _operands:
        if len(_operands) >= _MOST:
            _operands.clear()
        _operands[key] = None
        return values
    array = jax.device_put(values)
    is_plain = not isinstance(array, Tracer) and not array.committed  # as it is in the context of a mesh
    if not is_plain or array.dtype != values.dtype:  # a wide dtype, while 64 bits are off
        return values
    _operands[key] = array
    return array


def _conjugate(array: Any) -> Any:
    return lax.conj(array) if jnp.iscomplexobj(array) else array
