"""The class Tensor: a mutable object around an immutable ``jax.Array``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import jax
from jax.core import Tracer

from oplib.errors import DataTypeError, TracingError, describe
from oplib.modes import modes
from oplib.torch_names import HINTS, MissingAttribute

from .devices.placement import find_placement
from .dtypes.rules import get_default_dtype
from .methods.aliasing import TensorAliasing
from .methods.comparing import TensorComparison
from .methods.conversion import TensorConversion, TensorDtypes
from .methods.copying import TensorCopying
from .methods.displays import TensorDisplays
from .methods.history import TensorHistory
from .methods.op_methods import OpMethods
from .methods.operators import TensorOperators
from .methods.own_arguments import TensorMethods
from .methods.printing import show_tensor
from .methods.values import TensorValues
from .shapes.construction import construct
from .storage.class_changes import change_class
from .storage.constants import own_array
from .storage.cut import cut_storage, cuts_results
from .storage.escape import note_trace
from .storage.fresh import buffers, is_large, mark_fresh
from .storage.overlay import overlays
from .storage.packed import copy_part
from .storage.storage import Storage
from .upcalls import upcalls


class Tensor(
    TensorHistory["Tensor"],
    TensorAliasing["Tensor"],
    TensorMethods["Tensor"],
    TensorOperators["Tensor"],
    TensorConversion["Tensor"],
    TensorDtypes["Tensor"],
    TensorValues,
    TensorCopying,
    TensorComparison,
    TensorDisplays,
    OpMethods["Tensor"],
):
    """A multi-dimensional array with ``requires_grad``, ``grad``, a version, and in-place operations.

    Operations are recorded on the tape if an operand requires grad. Make a tensor by ``oplib.tensor(data)``,
    another factory, or ``Tensor.from_array(array)``.

    Args:
        *args: the class itself is torch's old constructor: sizes or an ``oplib.Size`` give a tensor without
            defined values (no size gives an empty one), a sequence or array one of its data, of the default
            dtype; a Tensor gives a view of it.
        device: by default JAX's choice.

    Raises:
        DataTypeError: a single argument has another type.
        ArgumentError: a size is negative.

    Attributes with an underscore belong to higher floors. The class holds their defaults, so an instance sets
    only what differs, and making a Tensor is cheap: two attributes for a result without gradient.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    _storage: Storage
    _trace: object = None  # the trace of JAX in which it was made, where that is known
    _scope: int = 0  # the number of the kernel trace in which it was made (modes.tracing_scope), else 0
    _tangent_slot: Any = None  # holds its tangent in an open dual level, see autograd/tangents.py
    # (): not from the root; else the tensor and frames that the tangent comes from
    _tangent_source: Any = None
    _root: Tensor | None = None  # the tensor whose history this view shares; torch's _base
    _creation: int = 0  # a views.Creation: how this view was made
    _read_only: str | None = None  # the view op whose result cannot be written in place
    _is_detached: bool = False  # made by detach, so meant as a constant

    __hash__ = object.__hash__

    def __new__(cls, *args: Any, device: Any = None) -> Self:  # noqa: D102  described above
        made: Any = construct(cls.__name__, args, get_default_dtype(), find_placement(device))
        made = made.view(made.shape) if isinstance(made, Tensor) else box_leaf(made, requires_grad=False)
        if cls is not Tensor:
            change_class(made, cls)
        return made

    def __repr__(self) -> str:
        return show_tensor(self)

    def __dir__(self) -> list[str]:
        """The names of the attributes, including those that users have set."""
        names = set(object.__dir__(self)) - HINTS["Tensor"].keys()
        return sorted(filter(str.isidentifier, names))

    @staticmethod
    def from_array(array: Any, *, requires_grad: bool = False) -> Tensor:
        """Makes a Tensor around a ``jax.Array`` or tracer without copying, whatever its sharding.

        Args:
            array: the array, any shape and dtype. A weakly typed array becomes strongly typed. A
                ``jax.ShapeDtypeStruct`` makes a Tensor without values, for ``lower`` of a compiled function.
            requires_grad: whether the result collects gradients (floating and complex dtypes only).

        Returns:
            A new leaf.

        Raises:
            DataTypeError: ``array`` is not a jax.Array.
            AutogradError: ``requires_grad`` is set for a dtype that has no gradient.

        Example:
            >>> import oplib
            >>> oplib.Tensor.from_array(oplib.ones(2).array)
            tensor([1., 1.])
        """
        if not isinstance(array, (jax.Array, jax.ShapeDtypeStruct)):
            raise DataTypeError(
                f"Tensor.from_array: 'array' is not a jax.Array. Got {type(array).__name__}. "
                f"Use oplib.tensor(data) for data of other kinds."
            )
        if isinstance(array, jax.Array) and getattr(array, "weak_type", False):
            array = jax.lax.convert_element_type(array, array.dtype)
        return box_leaf(array, requires_grad)

    @property
    def array(self) -> Any:
        """The ``jax.Array`` (or tracer) of this tensor. It has no history."""
        state = modes.state
        if state.region is not None:
            return state.region.read(self)
        if state.tracing is not None:
            self._refuse_reading_while_tracing()
        return own_array(self)

    @property
    def _version(self) -> int:
        """The number of in-place writes of the storage, which ``detach()``ed tensors share."""
        return self._storage.version

    @property
    def _gradient(self) -> Tensor | None:
        """The gradient. A program may have left it packed, as an array of several and its place there."""
        held = self._grad
        if held.__class__ is not tuple:
            return held
        array, (start, shape, version) = held
        storage, grad = Storage(copy_part(array, start, shape)), _new(Tensor)
        storage.version, grad._storage = version, storage
        with buffers:  # a program in another thread may replace it
            if self._grad is held:
                self._grad = grad
        return self._gradient

    def _refuse_reading_while_tracing(self) -> None:
        """Raises if a concrete Tensor from outside would become a constant of a compiled kernel."""
        if self._scope != modes.tracing_scope and not isinstance(self._storage.owner.array, Tracer):
            overlay = overlays.current
            if overlay is not None and overlay.scope == modes.tracing_scope:
                raise TracingError(
                    f"{overlay.name}: the function reads a Tensor that nothing leads to from it. Got "
                    f"{describe(self)}. oplib.jit finds Tensors through closures, globals, "
                    "attributes and items of containers. Make the Tensor an argument, or an attribute of an "
                    "object that the function refers to."
                )
            raise TracingError(
                f"{modes.tracing} reads a Tensor from outside while it is traced. Got "
                f"{describe(self)}, which would be frozen into the compiled code. Make it an "
                "argument of the op, or a part of a function that is one: jax.tree_util.Partial(lambda w, x: "
                "..., w). Or define the op with compile=False."
            )

    def detach(self) -> Tensor:
        """Returns a tensor without history that shares the memory and version of this one.

        A write into either shows in both. The result does not require grad, and is a constant for the
        transformations of JAX.

        Example:
            >>> import oplib
            >>> x = oplib.zeros(2, requires_grad=True)
            >>> _ = x.detach().add_(1)
            >>> x.tolist(), x._version
            ([1.0, 1.0], 1)
        """
        detached = _new(Tensor)
        storage = self._storage
        if modes.state.in_trace or (storage.__class__ is Storage and isinstance(storage.array, Tracer)):
            storage = cut_storage(storage)
        detached._storage = storage
        detached._trace = self._trace
        detached._scope = self._scope
        detached._read_only = self._read_only
        detached._is_detached = True
        return detached

    def _share(self) -> Tensor:
        """Detaches for oplib itself: JAX differentiates the result, unless user code says otherwise."""
        shared = self.detach()
        if not cuts_results(modes.state):
            shared._storage = self._storage
        return shared


for _name in HINTS["Tensor"]:
    setattr(Tensor, _name, MissingAttribute(_name))
_new: Callable[[type[Any]], Any] = object.__new__


def read_array(tensor: Tensor) -> Any:
    """Returns the array of an operand. In the body of a control flow function it is the one of the trace."""
    region = modes.state.region
    return tensor._storage.array if region is None else region.read(tensor)


def needs_grad(value: object) -> bool:
    """Returns whether a value is a Tensor that requires grad."""
    return isinstance(value, Tensor) and value._requires_grad


def box_leaf(array: Any, requires_grad: object) -> Tensor:
    """Makes a leaf around a strongly typed array, for factories."""
    storage = _new(Storage)
    storage.array = array
    storage.version = 0
    tensor = _new(Tensor)
    tensor._storage = storage
    state = modes.state
    trace = note_trace(state)
    if trace is not None:
        tensor._trace = trace
    if state.tracing is not None:
        tensor._scope = state.tracing_scope
    if state.inference:
        upcalls.mark_inference(tensor)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def box_new(array: Any, requires_grad: object) -> Tensor:
    """Makes a leaf around an array that a computation has made for it, and that nothing else holds.

    The first write uses the buffer of a large one.
    """
    tensor = box_leaf(array, requires_grad)
    if is_large(array.shape):
        mark_fresh(tensor._storage)
    return tensor


def box(array: Any) -> Tensor:
    """Makes a Tensor around an array without any check, for internal use."""
    storage = _new(Storage)
    storage.array = array
    storage.version = 0
    tensor = _new(Tensor)
    tensor._storage = storage
    state = modes.state
    if state.in_trace and not isinstance(array, Tracer):
        tensor._trace = note_trace(state)
    return tensor
