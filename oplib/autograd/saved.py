"""Values saved for the backward pass, and the two ways in which they can be gone."""

from __future__ import annotations

from typing import Any

from oplib.errors import SavedTensorError, describe
from oplib.tensor import Storage, Tensor

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
            f"{node_name}: a tensor needed for gradient computation has been modified by an inplace operation. "
            f"Got {describe(storage.array)} at version {storage.version}, expected version {version}. "
            f"Write into a clone(), or do so before the tensor is used."
        )


def second_pass_error(node_name: str) -> SavedTensorError:
    """Returns the error for a node whose saved values are freed."""
    return SavedTensorError(
        f"{node_name}: the graph cannot be used for a backward pass a second time. Its saved values were freed by "
        f"the first. Give retain_graph=True to the first backward() or grad()."
    )


class SavedTensor:
    """One tensor as a user's Function saved it: its array, what it was read from, and its place in the graph.

    An output of the node that saves it is kept without that node, or both would hold each other for ever.
    """

    __slots__ = ("_array", "_edge", "_output_nr", "_requires_grad", "_storage", "_trace", "_version")

    def __init__(self, tensor: Tensor, node: TapeNode | None) -> None:
        self._storage = tensor._storage
        self._array = tensor._storage.array
        self._version = tensor._storage.version
        self._requires_grad = tensor._requires_grad
        self._trace = tensor._trace
        self._output_nr = tensor._output_nr
        is_output = node is not None and tensor._grad_fn is node
        self._edge: Edge | None = None if is_output else gradient_edge(tensor)

    def unpack(self, node: TapeNode) -> Tensor:
        """Returns the tensor with its history, after checking that nobody has written into it.

        Args:
            node: the node that saved it.

        Raises:
            SavedTensorError: it has been written in place since it was saved.
        """
        raise NotImplementedError
