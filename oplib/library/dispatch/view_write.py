"""Recorded in-place calls on a view: one program reads the view, computes, and writes into the base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.core import Tracer

from oplib.autograd.recording.formula_node import FormulaNode, record
from oplib.autograd.recording.in_place import note_result
from oplib.library.jax_primitives.specialization import Specialization
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.devices.layout import are_single, place_like


def record_in_view(
    specialization: Specialization,
    node_class: type[FormulaNode],
    tensors: Sequence[Tensor | None],
    whole: Any,
    *others: Any,
) -> Tensor | None:
    """Makes and records an in-place call on a view of a tensor that has a history.

    Args:
        specialization: of the op out of place.
        node_class: the class of its node.
        tensors: the tensors of its arguments, the written one first; None for a number.
        whole: the array of the base of the view.
        *others: the arrays of the other arguments.

    Returns:
        The written tensor; None if the call must take the complete path: then nothing has happened.
    """
    written: Any = tensors[0]
    view = written._storage
    is_restricted = written._root._grad_fn is None or written._creation  # a leaf, for one
    if is_restricted or modes.state.hook_pairs or not are_single(whole, *others):
        return None
    wanted = tuple([tensor is not None and tensor._requires_grad for tensor in tensors])
    ran = specialization.run_in_view(view, wanted, whole, *others)
    if ran is None or isinstance(ran[0], Tracer):  # JAX may trace now
        return None
    new, part, recorded = ran
    (result,) = record(node_class, recorded, tensors, (part, *others))
    base = view.base
    if whole.committed:
        new = place_like(new, whole)
    if result is None or base.array is not whole:  # another thread has written since
        return None
    base.array = new
    base.version += 1
    view.array = result._storage.array
    note_result(written, result, result)
    return written
