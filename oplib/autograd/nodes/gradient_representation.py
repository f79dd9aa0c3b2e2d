"""What gradients are while they travel through the engine: bare arrays, or Tensors that record.

With ``create_graph=False`` nobody differentiates the backward pass, so boxes would be wasted: gradients are
``jax.Array``s (or tracers) and are boxed only where Python code of a user sees them. With
``create_graph=True`` they are Tensors, and every sum and formula is recorded; in an open dual level they are
Tensors too, which carry tangents.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.autograd.tangents import carries_tangents
from oplib.tensor import Tensor, box, upcalls


class _TracerClasses(dict[type, bool]):
    """Tells of a class of arrays whether it is one of tracers, at a tenth of what ``isinstance`` costs."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = issubclass(kind, Tracer)
        return found


class _ArrayClasses(dict[type, bool]):
    """Tells of a class whether it is one of arrays, tracers among them."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = issubclass(kind, (jax.Array, Tracer))
        return found


is_tracer_class = _TracerClasses()
is_array_class = _ArrayClasses()


class GradientRepresentation(Protocol):
    """What nodes and the engine may do with gradients without knowing what they are.

    Attributes:
        tensor_mode: gradients are Tensors.
    """

    tensor_mode: bool

    def add(self, a: Any, b: Any) -> Any:
        """Returns the sum of two gradients of one slot."""
        ...

    def box(self, grad: Any) -> Tensor:
        """Returns a gradient as a Tensor, to look at."""
        ...

    def own(self, grad: Any) -> Tensor:
        """Returns a gradient as a Tensor that nobody else holds, to keep."""
        ...

    def unbox(self, tensor: Tensor) -> Any:
        """Returns a Tensor as a gradient."""
        ...

    def array(self, grad: Any) -> Any:
        """Returns the ``jax.Array`` (or tracer) of a gradient."""
        ...


class _Arrays:
    """Gradients are ``jax.Array``s."""

    tensor_mode = False

    def add(self, a: Any, b: Any) -> Any:
        return upcalls.add_arrays(a, b)

    def box(self, grad: Any) -> Tensor:
        tensor = box(grad)
        if is_tracer_class[type(grad)]:
            tensor._trace = get_opaque_trace_state()
        return tensor

    own = box

    def unbox(self, tensor: Tensor) -> Any:
        return tensor._storage.array

    def array(self, grad: Any) -> Any:
        return grad


class _Tensors:
    """Gradients are Tensors, and what is done with them is recorded."""

    tensor_mode = True

    def add(self, a: Any, b: Any) -> Any:
        return upcalls.add(a, b)

    def box(self, grad: Any) -> Tensor:
        return grad

    def own(self, grad: Any) -> Tensor:
        """One gradient can be on its way to several leaves: each gets a box of its own at the same edge."""
        tensor = ARRAYS.box(grad._storage.array)
        tensor._tangent_slot = grad._tangent_slot
        if grad._requires_grad:
            tensor._requires_grad = True
            tensor._grad_fn = grad._grad_fn
            tensor._output_nr = grad._output_nr
        return tensor

    def unbox(self, tensor: Tensor) -> Any:
        return tensor

    def array(self, grad: Any) -> Any:
        return grad._storage.array


ARRAYS: GradientRepresentation = _Arrays()
TENSORS: GradientRepresentation = _Tensors()


def choose_representation(*, create_graph: bool) -> GradientRepresentation:
    """Returns what the gradients of a run are; tangents travel with Tensors only."""
    return TENSORS if create_graph or carries_tangents() else ARRAYS
