"""Functions whose backward may be traced: ``is_traceable = True``.

Compiled autograd makes the backward of such a Function a part of its program, instead of running it as Python
each time. The saved tensors are operands. Everything else that the backward reads from ctx is static.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.array_functions.masks import mask_given, pick_given
from oplib.autograd.engine.validation import validate_gradients
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import TapeNode
from oplib.frozen import freeze
from oplib.protocols import Values
from oplib.pytree import tree_leaves
from oplib.tensor import Tensor

_new: Any = object.__new__
_STRUCTURE = (
    "_argument_count", "_output_count", "_tensor_flags", "materialize_grads", "needs_input_grad",
)  # fmt: skip
"""The attributes of a ctx that say how its backward is called."""

_RUN: Any = SimpleNamespace(representation=ARRAYS, create_graph=False)


class _Target(TapeNode):
    """Stands for the node that gets a gradient; it knows only its shape and dtype."""


def describe_backward(node: Any, operands: list[Any]) -> Any:
    """Adds the saved arrays of a Function that is traceable, and returns a key of its backward.

    Returns:
        The key; None if the backward cannot be traced: it reads containers of Tensors, packed values, or an
        attribute that has no hash.
    """
    saved = node._saved or ()
    if (
        node.output_grad_dtypes is not None
        or any(edge is not None and edge[0].free_slots for edge in node.edges)
        or node._argument_specs
        or node._output_specs
        or any(slot is not None and slot.is_packed for slot in saved)
    ):
        return None
    attributes = _attributes(node)
    values = tuple(attributes.values())
    if any(isinstance(leaf, (Tensor, jax.Array)) for leaf in tree_leaves(values)):
        return None
    try:
        hash(values)  # what has no hash may change
        static = *attributes, *map(freeze, values)
    except TypeError:
        return None
    arrays = [None if slot is None else slot.read(node.name()) for slot in saved]
    operands += pick_given(arrays)
    values = [getattr(node, name) for name in _STRUCTURE]
    structure = tuple([tuple(value) if isinstance(value, list) else value for value in values])
    specs = [None if edge is None else edge[0].input_metadata[edge[1]] for edge in node.edges]
    return node.class_token, static, structure, *map(_shapes, (arrays, node.input_metadata, specs))


def trace_backward(node: Any, present: Mask) -> ArrayFunction:
    """Returns the backward of a Function as a function of the saved arrays and the given gradients.

    It holds the static attributes of the node, and not the node.
    """
    ctx = _new(type(node))
    vars(ctx).update(_attributes(node))
    for name in (*_STRUCTURE, "_argument_specs", "_output_specs"):
        setattr(ctx, name, getattr(node, name))
    ctx.input_metadata = node.input_metadata
    ctx.edges = tuple([None if edge is None else (_make_target(edge), 0) for edge in node.edges])
    is_saved = mask_given(node._saved or ())

    def backward(*arrays: Any) -> Any:
        rest = iter(arrays)
        run = _new(type(ctx))  # what backward sets on its ctx must not stay
        vars(run).update(vars(ctx))
        run._saved_for_jvp = tuple([ARRAYS.box(next(rest)) if has else None for has in is_saved])
        grads = [next(rest) if has else None for has in present]
        results = validate_gradients(run.apply(grads, _RUN), run.edges, run.name, ARRAYS)
        return tuple(results[: len(run.edges)])

    return ArrayFunction(backward, node.name())


def _attributes(node: Any) -> dict[str, Any]:
    """Returns what the user, or a mark such as ``custom_fwd``, has set on a ctx."""
    own = type(node)
    return {name: value for name, value in vars(node).items() if not hasattr(own, name)}


def _shapes(values: Sequence[Any]) -> Values:
    return tuple([None if value is None else (value.shape, value.dtype) for value in values])


def _make_target(edge: Any) -> _Target:
    spec = edge[0].input_metadata[edge[1]]
    target = _new(_Target)
    target.input_metadata = (jax.ShapeDtypeStruct(spec.shape, spec.dtype),)
    return target
