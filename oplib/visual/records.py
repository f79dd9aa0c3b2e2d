"""Records of nodes: what a node of a graph is, saves and comes from, without an attribute of the tape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

from jax.tree_util import keystr

from oplib.autograd.graph import Node
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.locations import Location, locate_line
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor
from oplib.autograd.saved_tensors.slots import SavedSlots
from oplib.autograd.user_functions.function_node import BackwardCFunction
from oplib.errors import AutogradError, describe
from oplib.frozen import frozen
from oplib.importing import collecting_later
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .traversal import collect_edges, list_leaves, list_tensors, require_tensors, sort_as_engine

_NAMESPACE = "oplib::"


@frozen
class SavedRecord:
    """A value that a node keeps for its backward.

    Attributes:
        name: of the argument or result; ``intermediate`` for a value between them.
        shape: shape and dtype, as ``f32[2, 2]``; ``packed by hooks`` where hooks keep the value.
        nbytes: its size in bytes.
        key: equal for one array that several nodes save.
    """

    name: str
    shape: str
    nbytes: int
    key: int


@frozen
class NodeRecord:
    """The facts about a node of a graph.

    Attributes:
        number: its place among the records, which are in the order in which the engine runs nodes.
        op: the op that recorded it, such as ``mul`` or ``mylib::linear``; for a leaf the name.
        name: of the node, such as ``MulBackward0``.
        kind: ``built-in``, ``custom``, ``parameter`` for a named leaf, or ``leaf``.
        shapes: shape and dtype of each gradient that it receives, as ``f32[2, 2]``.
        edges: for each input the number of the node that receives its gradient and the slot; None and 0
            where no gradient is needed.
        saved: the values that it keeps.
        is_freed: whether a backward has freed what it kept.
        hooks: how many hooks run with it.
        sequence_nr: its place among the nodes of its thread; None for a leaf.
        location: the code object and the offset of the instruction that recorded it; None if unknown.
    """

    number: int
    op: str
    name: str
    kind: str
    shapes: tuple[str, ...]
    edges: tuple[tuple[int | None, int], ...]
    saved: tuple[SavedRecord, ...]
    is_freed: bool
    hooks: int
    sequence_nr: int | None
    location: Location | None

    @property
    def is_leaf(self) -> bool:
        """Whether the node adds gradients to a leaf."""
        return self.sequence_nr is None

    @property
    def code(self) -> CodeType | None:
        """The code of the user's function that recorded the node."""
        return None if self.location is None else self.location[0]

    @property
    def line(self) -> int | None:
        """The line of the program that recorded the node; None if lines are not recorded."""
        return None if self.location is None else locate_line(self.location)[1]

    @property
    def place(self) -> str:
        """File and line, as ``step.py:20``; empty if they are not known."""
        return name_place(self.code, self.line)

    @property
    def nbytes(self) -> int:
        """The bytes that the node keeps, without those that it keeps twice."""
        return count_saved([self])


def name_place(code: CodeType | None, line: int | None = None) -> str:
    """Returns file and line, by default the first of the code; empty if there is no code."""
    return "" if code is None else f"{Path(code.co_filename).name}:{line or code.co_firstlineno}"


def count_saved(nodes: Iterable[NodeRecord]) -> int:
    """Returns the bytes that nodes keep; an array that several of them keep counts once."""
    return sum({value.key: value.nbytes for node in nodes for value in node.saved}.values())


@entry_point
def read_nodes(tensor_or_tensors: Tensor | Sequence[Tensor], *, params: Any = None) -> list[NodeRecord]:
    """Returns the records of all nodes behind tensors, in the order in which the engine would run them.

    No value is read, and nothing about the graph changes.

    Args:
        tensor_or_tensors: the roots, usually a loss.
        params: names for leaves: Tensors in containers, an iterator, or an object with ``named_parameters``.

    Returns:
        The records; the leaves are among them.

    Raises:
        AutogradError: a tensor has no history.
        GradientTypeError: an argument is no Tensor.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> for node in oplib.visual.read_nodes((w * w).sum(), params={"w": w}):
        ...     print(node.op, node.shapes, [(value.name, value.nbytes) for value in node.saved])
        sum ('f32[]',) []
        mul ('f32[2]',) [('self', 8), ('other', 8)]
        w ('f32[2]',) []
    """
    tensors = list_tensors(tensor_or_tensors, "read_nodes")
    return make_records(find_nodes(tensors, "read_nodes"), name_parameters(params, "read_nodes"))


def find_nodes(tensors: Sequence[Tensor], caller: str) -> list[Node]:
    """Returns the nodes behind tensors in the order of the engine.

    Raises:
        AutogradError: a tensor has no history.
    """
    roots: list[Any] = [tensor._grad_fn for tensor in tensors]
    for tensor, root in zip(tensors, roots, strict=True):
        if root is None:
            reason = "is a leaf" if tensor.requires_grad else "does not require grad"
            raise AutogradError(
                f"{caller}: the tensor has no history. Got {describe(tensor)}, which {reason}. Pass the "
                "result of recorded calls: set requires_grad=True on an input, and leave no_grad()."
            )
    return sort_as_engine(collect_edges(roots))


def name_parameters(params: Any, caller: str) -> dict[str, Tensor]:
    """Returns leaves by their names.

    Raises:
        GradientTypeError: one of them is no Tensor.
    """
    if hasattr(params, "named_parameters"):
        named: dict[str, Any] = dict(params.named_parameters())
    else:
        is_iterator = isinstance(params, Iterator)
        leaves = list_leaves(list(params) if is_iterator else params)
        names = [(keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]
        named = {name if name[:1].isidentifier() else f"param{name}": leaf for name, leaf in names}
    require_tensors(named.values(), caller, "params")
    return named


def make_records(nodes: Sequence[Node], params: Mapping[str, Tensor]) -> list[NodeRecord]:
    """Returns the records of nodes. Leaves that ``params`` does not name are numbered."""
    with collecting_later():  # collections through a million new objects would take most of the time
        return _make_records(nodes, params)


def _make_records(nodes: Sequence[Node], params: Mapping[str, Tensor]) -> list[NodeRecord]:
    numbers: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    names = {id(tensor): name for name, tensor in params.items()}
    records: list[NodeRecord] = []
    unnamed = 0
    for number, node in enumerate(nodes):
        if isinstance(node, AccumulateGrad):
            name = names.get(id(node.variable))
            unnamed += name is None
            label, kind = (f"leaf{unnamed}", "leaf") if name is None else (name, "parameter")
        else:
            label, kind = name_op_of(node)
        saved, is_freed = read_saved(node)
        edges = [(None if target is None else numbers[target], slot) for target, slot in node.next_functions]
        records.append(
            NodeRecord(
                number=number,
                op=label,
                name=name_node(node),
                kind=kind,
                shapes=tuple(["" if slot is None else _show(slot) for slot in node._input_metadata]),
                edges=tuple(edges),
                saved=tuple([_record_value(name, value) for name, value in saved]),
                is_freed=is_freed,
                hooks=_count_hooks(node),
                sequence_nr=None if isinstance(node, AccumulateGrad) else node._sequence_nr(),
                location=getattr(node, "_location", None),
            )
        )
    return records


def name_node(node: Any) -> str:
    """Returns the name of a node; of a subclass whose ``name`` fails, that of its class."""
    try:
        return str(node.name())
    except Exception:  # noqa: BLE001  it is a user's code, and a picture must not depend on it
        return type(node).__name__


def name_op_of(node: Any) -> tuple[str, str]:
    """Returns the name of the op of a node, and its kind."""
    op = node._forward_cls._op_name if isinstance(node, BackwardCFunction) else ""
    if not op and hasattr(node, "op_name"):
        op = node.op_name()
    if not op:
        name = name_node(node).rpartition("::")[2]
        kind = "custom" if isinstance(node, BackwardCFunction) else "built-in"
        return name.rstrip("0123456789").removesuffix("Backward") or name, kind
    return name_op(op)


def name_op(op: str) -> tuple[str, str]:
    """Returns the name of an op as pictures show it, and its kind: ``built-in`` or ``custom``."""
    is_builtin = op.startswith(_NAMESPACE)
    namespace, _, rest = op.removeprefix(_NAMESPACE).rpartition("::")
    name = rest.partition(".")[0]
    return (f"{namespace}::{name}" if namespace else name), "built-in" if is_builtin else "custom"


def _count_hooks(node: Any) -> int:
    own = [getattr(node, name, None) or () for name in ("_pre_hooks", "_post_hooks")]
    of_tensors = (getattr(node, "_tensor_pre_hooks", None) or {}).values()
    return sum(map(len, [*own, *of_tensors]))


# Saved values. They are read where they are: a look through slots would change the node.


def read_saved(node: Any) -> tuple[list[tuple[str, Any]], bool]:
    """Returns the names and arrays of the saved values of a node, and whether they are freed.

    A value that hooks keep is None.
    """
    if isinstance(node, AccumulateGrad):
        return [], False
    plan = getattr(node, "plan", None)
    saved = getattr(node, "saved", None)
    if plan is not None and hasattr(plan, "sources"):
        if saved is None:
            return [], bool(plan.sources)
        values = [slot._array for slot in saved.residuals] if isinstance(saved, SavedSlots) else saved
        names = [plan.names[n] if n < len(plan.names) else "intermediate" for n in plan.sources]
        pairs = list(zip(names, values, strict=False))
        is_freed = isinstance(saved, SavedSlots) and any(slot._pairs == () for slot in saved.residuals)
        return ([], True) if is_freed else (pairs, False)
    if hasattr(node, "_saved"):
        slots: Any = node._saved
        return [] if slots is None else list(_find_arrays("saved", slots)), slots is None
    return list(_find_arrays("saved", tuple(vars(node).values()) if hasattr(node, "__dict__") else ())), False


def _find_arrays(name: str, values: Iterable[Any], depth: int = 3) -> Iterable[tuple[str, Any]]:
    """Yields the arrays in tuples and lists, which nest no deeper than the tape makes them."""
    for value in values:
        if isinstance(value, SavedTensor):
            yield name, value._array
        elif isinstance(value, Tensor):
            yield name, value._storage.array
        elif isinstance(value, (tuple, list)) and depth:
            yield from _find_arrays(name, value, depth - 1)
        elif hasattr(value, "nbytes") and hasattr(value, "dtype") and hasattr(value, "shape"):
            yield name, value


def _record_value(name: str, value: Any) -> SavedRecord:
    if value is None:
        return SavedRecord(name, "packed by hooks", 0, 0)
    if not hasattr(value, "dtype"):
        return SavedRecord(name, "number", 0, 0)
    nbytes = math.prod(value.shape) * value.dtype.itemsize
    return SavedRecord(name, _show(value), nbytes, id(value))


def _show(value: Any) -> str:
    return describe(value).replace(",", ", ")
