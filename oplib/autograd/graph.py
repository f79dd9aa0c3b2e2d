"""torch's path ``autograd.graph``: nodes, edges, hooks and saved tensors of a graph.

Example:
    >>> import oplib
    >>> from oplib.autograd.graph import get_gradient_edge
    >>> x = oplib.tensor([3.0], requires_grad=True)
    >>> oplib.autograd.grad((x * x).sum(), get_gradient_edge(x))
    (tensor([6.]),)
"""

# ruff: noqa: F401  torch's private names can be imported from here too
# pyright: reportUnusedImport=false

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from oplib.errors import AutogradError
from oplib.tensor import Tensor
from oplib.torch_names import make_dir as _make_dir

from .engine.engine import engine_run_backward as _engine_run_backward
from .engine.multi_grad_hook import MultiHandle as _MultiHandle, register_multi_grad_hook
from .engine.node_logging import log, register_logging_hooks as _register_logging_hooks_on_whole_graph
from .nodes.creation import node_creation_hook
from .nodes.edges import GradientEdge, find_node as _get_grad_fn_or_grad_acc, get_gradient_edge
from .nodes.locations import are_locations_recorded, node_location, record_locations
from .nodes.node import Node
from .saved_tensors.hooks import disable_saved_tensors_hooks, saved_tensors_hooks
from .saved_tensors.mutation import (
    AllowMutationOnSavedContext as _AllowMutationOnSavedContext,
    CloneArgBeforeMutateMode as _CloneArgBeforeMutateMode,
    Handle as _Handle,
    SwapWithCloned as _swap_with_cloned,  # noqa: N813  torch's name
    allow_mutation_on_saved_tensors,
    get_sid as _get_sid,
    get_tid as _get_tid,
    is_mutation_allowed,
)
from .saved_tensors.on_host import save_on_cpu

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "node_creation_hook",
    "record_locations",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
__dir__ = _make_dir(globals())


if not TYPE_CHECKING:  # a type checker then reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name == "_allow_mutation_on_saved_tensors_enabled":
            return is_mutation_allowed()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts an in-place write that oplib cannot see. A backward that needs the old value then raises.

    Args:
        tensor: the tensor that was written, or several. A tensor that is given twice counts twice.

    Raises:
        AutogradError: the argument is neither a Tensor nor an iterable of Tensors.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0])
        >>> increment_version(x)
        >>> x._version
        1
    """
    for member in _listed(tensor):
        member._storage.version += 1


def _listed(tensor: object) -> list[Tensor]:
    if isinstance(tensor, Tensor):
        return [tensor]
    if not isinstance(tensor, Iterable):
        raise AutogradError(
            f"increment_version: expected a Tensor or an iterable of Tensors. Got {type(tensor).__name__}. "
            f"Give the tensors that have been written into."
        )
    listed = list(cast("Iterable[Any]", tensor))
    for position, member in enumerate(listed):
        if not isinstance(member, Tensor):
            raise AutogradError(
                f"increment_version: expected each element to be a Tensor. Got {type(member).__name__} at "
                f"position {position}. Give the tensors that have been written into."
            )
    return listed
