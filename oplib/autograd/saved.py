"""Values saved for the backward pass, and the two ways in which they can be gone."""

from __future__ import annotations

from oplib.errors import SavedTensorError, describe
from oplib.tensor import Storage, Tensor, box

from .accumulate import gradient_edge
from .node import Edge, TapeNode


def check_version(node_name: str, storage: Storage, version: int) -> None:
    """Raises if a saved tensor has been written in place since.

    Args:
        node_name: the node that saved it, for the message.
        storage: the storage it was saved from.
        version: the storage's version then.

    Raises:
        SavedTensorError: the storage's version is another one now.
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
        f"{node_name}: the graph cannot be used for a backward pass a second time. Its saved values were "
        "freed by the first. Give retain_graph=True to the first backward() or grad()."
    )


class SavedTensor:
    """One tensor as a user's Function saved it: its value, what it was read from, and its place on the tape.

    An output of the node that saves it is kept without that node, or the two would hold each other.
    """

    __slots__ = ("_array", "_edge", "_leaf", "_output_nr", "_storage", "_trace", "_version")

    def __init__(self, tensor: Tensor, node: TapeNode | None) -> None:
        """Saves ``tensor`` for ``node``, the node of the call that saves it (None where there is none)."""
        made_by = tensor._grad_fn
        self._leaf = tensor if made_by is None else None
        self._edge: Edge | None = None if made_by is None or made_by is node else gradient_edge(tensor)
        self._output_nr = tensor._output_nr
        self._storage = tensor._storage
        self._array = tensor._storage.array
        self._version = tensor._storage.version
        self._trace = tensor._trace

    def unpack(self, node: TapeNode) -> Tensor:
        """Returns the tensor with its history; a leaf is the very tensor that was saved.

        Args:
            node: the node that saved it.

        Raises:
            SavedTensorError: it has been written in place since it was saved.
        """
        check_version(node.name(), self._storage, self._version)
        if self._leaf is not None:
            return self._leaf
        tensor = box(self._array)
        tensor._storage = self._storage
        tensor._trace = self._trace
        tensor._requires_grad = True
        if self._edge is None:
            tensor._grad_fn, tensor._output_nr = node, self._output_nr
        else:
            tensor._grad_fn, tensor._output_nr = self._edge
        return tensor
