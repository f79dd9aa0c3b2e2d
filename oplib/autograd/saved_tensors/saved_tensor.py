"""Saved values of nodes, and the two errors of reading them: freed, or written since."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import jax.numpy as jnp

from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.node import NOBODY
from oplib.autograd.tangents import TangentSlot, claim_slot
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box

from .hooks import KEEP_VALUES, HookPair, active_pairs, make_pair, pack_through, unpack_through

if TYPE_CHECKING:
    from oplib.autograd.nodes.node import Edge, TapeNode


def check_version(node_name: str, storage: Storage, version: int) -> None:
    """Raises if a saved tensor has been written in place since it was saved.

    Raises:
        SavedTensorError: the storage has another version now.
    """
    if storage.version != version:
        raise SavedTensorError(
            f"{node_name}: a tensor needed for gradient computation has been modified by an inplace "
            f"operation. Got {describe(storage.array)} at version {storage.version}, expected version "
            f"{version}. Write into a clone(), or do so before the tensor is used."
        )


def second_pass_error(node_name: str) -> SavedTensorError:
    """Returns the error for a node whose saved values are freed."""
    return SavedTensorError(
        f"Trying to backward through the graph a second time. {node_name}: its saved values were freed by "
        "the first pass. Give retain_graph=True to the first backward() or grad(), or detach() a state that "
        "the next step reads."
    )


class SavedTensor:
    """One tensor saved for a backward pass: its value, its storage, and its edge.

    An output of the saving node is kept without that node. Otherwise the two would hold each other.
    """

    _array: Any = None  # None after packing or freeing
    _storage: Storage = NOBODY
    _version: int = 0
    _packed: Any = None
    _type: Any = None  # of the value which hooks have packed
    _pairs: tuple[HookPair, ...] | None = None  # the pairs that made _packed; () after freeing
    _edge: Edge | None = None
    _is_own: bool = False  # whether it is an output of the saving node
    _output_nr: int = 0
    _trace: object = None
    _tangent_slot: TangentSlot | None = None
    _original: Tensor | ref[Tensor] | None = None  # a leaf or constant itself

    def __init__(self, tensor: Tensor | None = None, node: TapeNode | None = None) -> None:
        """Saves ``tensor`` for ``node``, the node of the saving call (None if there is none)."""
        if tensor is None:
            raise AutogradError(
                "SavedTensor: trying to create one from Python is forbidden. It is made by the call that "
                "saves a tensor. Read grad_fn._raw_saved_tensors."
            )
        storage = self._storage = tensor._storage
        self._array, self._version, self._trace = storage.array, storage.version, tensor._trace
        made_by: Any = tensor._grad_fn
        if made_by is None:
            self._original = tensor
        else:
            self._original = ref(tensor)
            self._output_nr = tensor._output_nr
            self._is_own = made_by is node
            if not self._is_own:
                self._edge = made_by, tensor._output_nr
        state = modes.state
        self._tangent_slot = tensor._tangent_slot if state.dual_level is None else claim_slot(tensor)
        if state.hook_pairs:
            self.pack(active_pairs(), tensor)

    @classmethod
    def of_value(cls, value: Any, storage: Storage, version: int | None = None) -> SavedTensor:
        """Makes a SavedTensor for a node that knows the edges of its values.

        Args:
            value: the array.
            storage: the storage that it was read from.
            version: the version of the storage then; by default the current one.
        """
        made: SavedTensor = object.__new__(cls)
        made._array, made._storage = value, storage
        made._version = storage.version if version is None else version
        return made

    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        """Replaces the value of this one tensor by the result of ``pack_hook``.

        Args:
            pack_hook: called at once with a detached Tensor and grad mode off.
            unpack_hook: called with the packed object whenever the tensor is read. It must return a Tensor.

        Raises:
            AutogradError: there are hooks already, the tensor is freed, or ``pack_hook`` writes into it.
            GradientTypeError: a hook is not callable.
        """
        pair = make_pair(pack_hook, unpack_hook, caller="register_hooks")
        if self._pairs:
            raise AutogradError(
                "register_hooks: the hooks of this saved tensor have already been set. Only one pair is "
                "allowed at a time. Let one pair do the work of both, or leave the block of "
                "saved_tensors_hooks first."
            )
        if self._pairs is not None:
            raise SavedTensorError(
                "register_hooks: it was called on a saved tensor after it has been freed. The backward pass "
                "that read it frees it. Give retain_graph=True to that pass, or register hooks before it."
            )
        check_version("register_hooks", self._storage, self._version)
        detached = box(self._array)
        detached._trace = self._trace
        self.pack((pair,), detached)

    def pack(self, pairs: tuple[HookPair, ...], tensor: Tensor) -> None:
        """Replaces the value by the object that hooks make of ``tensor``."""
        array = tensor._storage.array
        self._type = getattr(array, "aval", array)  # the array itself, if it is no array of JAX
        self._packed = pack_through(pairs, tensor)
        self._pairs = pairs
        region = modes.state.region
        if (
            region is not None and pairs[0] is not KEEP_VALUES
        ):  # entered in the body of a control flow function
            region.packed.append(self)
        if self._array is None:  # a new slot
            return
        self._array = None
        self._storage = NOBODY  # the storage would keep the old value alive
        if isinstance(self._original, Tensor):
            self._edge = gradient_edge(self._original)  # of a leaf: keep its edge and not the leaf
        self._original = None

    @property
    def is_packed(self) -> bool:
        """Whether hooks have packed the value."""
        return bool(self._pairs)

    @property
    def storage(self) -> Storage:
        """The storage that the value was read from. A packed value has none."""
        return NOBODY if self._pairs else self._storage

    def move(self, storage: Storage, version: int) -> None:
        """Sets the storage of the value and its version."""
        self._storage = storage
        self._version = version

    def read(self, node_name: str) -> Any:
        """Returns the array.

        Args:
            node_name: the node that saved it, for errors.

        Raises:
            SavedTensorError: the value is freed, or has been written in place since it was saved.
            GradientTypeError: an unpack hook returned an object that is not a Tensor.
        """
        if self._pairs is None:
            check_version(node_name, self._storage, self._version)
            return self._array
        if not self._pairs:
            raise second_pass_error(node_name)
        return unpack_through(self._pairs, self._packed)._storage.array

    def read_residual(self, node_name: str) -> Any:
        """Returns the array in the dtype and shape in which it was saved, which a formula of JAX needs.

        Raises:
            SavedTensorError: as :meth:`read`.
            GradientTypeError: an unpack hook returned another kind of dtype than that of the packed value, or
                a shape that does not broadcast to that of the packed value.
        """
        pairs, known = self._pairs, self._type
        array = unpack_through(pairs, self._packed)._storage.array if pairs else self.read(node_name)
        if known is None or getattr(array, "aval", None) is known or not hasattr(known, "dtype"):
            return array
        dtype, shape = known.dtype, known.shape
        kind = jnp.complexfloating if jnp.issubdtype(dtype, jnp.complexfloating) else jnp.floating
        if array.dtype == dtype or (jnp.issubdtype(array.dtype, kind) and jnp.issubdtype(dtype, kind)):
            with suppress(ValueError):
                return jnp.broadcast_to(array, shape).astype(dtype)
        raise GradientTypeError(
            f"saved_tensors_hooks: {node_name} saved {dtype}{list(shape)}, and the unpack_hook returned "
            f"{array.dtype}{list(array.shape)}. Return a Tensor equal to the one that was packed."
        )

    def unpack(self, node: TapeNode) -> Tensor:
        """Returns the tensor with its history. It is the saved object if that is unchanged.

        Args:
            node: the node that saved it.

        Raises:
            SavedTensorError: the value is freed, or has been written in place since it was saved.
            GradientTypeError: an unpack hook returned an object that is not a Tensor.
        """
        original: Any = self._original
        if original.__class__ is ref:
            original = None if self._is_own else original()
        if (
            original is not None
            and original._storage is self._storage
            and self._storage.version == self._version
        ):
            return original
        tensor = box(self.read(node.name()))
        if self._pairs is None:
            tensor._storage = self._storage
        tensor._trace = self._trace
        tensor._tangent_slot = self._tangent_slot
        edge = (node, self._output_nr) if self._is_own else self._edge
        if edge is not None:
            link(tensor, edge)
        return tensor

    def free(self) -> None:
        """Drops the value, or the packed object."""
        self.__dict__ = {"_pairs": ()}  # at once, among threads


def link(tensor: Tensor, edge: Edge) -> None:
    """Gives a tensor an edge. A leaf's edge gives it the accumulator of this leaf."""
    tensor._requires_grad = True
    node, slot = edge
    if isinstance(node, AccumulateGrad):
        tensor._accumulator = lambda: (
            node
        )  # not weak: the edge of a call may be made when the leaf has lost it
    else:
        tensor._grad_fn, tensor._output_nr = node, slot
