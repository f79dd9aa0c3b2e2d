"""The representation of gradients in the engine: bare arrays, or Tensors that record.

With ``create_graph=False`` the backward pass is not differentiated, so Tensors would be wasteful. Gradients
are ``jax.Array``s (or tracers), and become Tensors only for the user's Python code. With
``create_graph=True`` gradients are Tensors, and every sum and formula is recorded. In an open dual level they
are Tensors too, because only Tensors carry tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.tangents import carries_tangents
from oplib.modes import call_in_grad_mode, modes
from oplib.tensor import Tensor, box, upcalls
from oplib.tensor.devices.placement import Placement, find_other_device
from oplib.tensor.shapes.filling import fill
from oplib.tensor.storage.escape import is_inside_trace, note_trace


class _ClassTest(dict[type, bool]):
    """Whether a class inherits from others. The look-up costs a tenth of ``isinstance``."""

    def __init__(self, *bases: type) -> None:
        super().__init__()
        self._bases = bases

    def __missing__(self, kind: type) -> bool:
        self[kind] = is_subclass = issubclass(kind, self._bases)
        return is_subclass


is_tracer_class = _ClassTest(Tracer)
is_array_class = _ClassTest(jax.Array, Tracer)


class GradientRepresentation:
    """The operations on gradients that nodes and the engine need. Here gradients are ``jax.Array``s.

    Attributes:
        tensor_mode: gradients are Tensors.
    """

    tensor_mode = False

    def add(self, a: Any, b: Any) -> Any:
        """Returns the sum of two gradients of one slot."""
        return upcalls.add_arrays(a, b)

    def box(self, grad: Any) -> Tensor:
        """Returns a gradient as a Tensor, to be read."""
        tensor = box(grad)
        if is_tracer_class[type(grad)]:
            tensor._trace = note_trace(modes.state)
        return tensor

    own = box  # to be stored

    def unbox(self, tensor: Tensor) -> Any:
        """Returns a Tensor as a gradient."""
        return tensor._storage.array

    def array(self, grad: Any) -> Any:
        """Returns the ``jax.Array`` (or tracer) of a gradient."""
        return grad

    def fill(self, grads: Sequence[Any], metadata: Sequence[Any]) -> list[Any]:
        """Replaces absent gradients by zeros on the device of the others, unless they have no metadata."""
        present = pick_given(grads)
        if len(present) == len(grads):
            return present
        device = find_other_device(self.array(present[0])) if present else None
        pairs = zip(grads, metadata, strict=True)
        return [self.zeros(due, device) if grad is None and due is not None else grad for grad, due in pairs]

    def zeros(self, due: Any, device: Placement) -> Any:
        """Returns zeros of a shape and dtype, as a gradient."""
        shape, dtype = due.shape, due.dtype
        is_traced = is_inside_trace()
        made = jnp.zeros(shape, dtype, device=device) if is_traced else fill(shape, 0, dtype, device)
        return self.unbox(ARRAYS.box(made))


class _Tensors(GradientRepresentation):
    """Gradients as Tensors. Operations on them are recorded."""

    tensor_mode = True

    def add(self, a: Any, b: Any) -> Any:
        return upcalls.add(a, b)

    def box(self, grad: Any) -> Tensor:
        return grad

    def own(self, grad: Any) -> Tensor:
        """Several leaves may receive one gradient, so each gets a new Tensor at the same edge."""
        if grad._requires_grad and grad._grad_fn is None:
            return call_in_grad_mode(True, grad.clone)  # only a recorded op leads back to the leaf
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


ARRAYS = GradientRepresentation()
TENSORS = _Tensors()


def choose_representation(*, create_graph: bool) -> GradientRepresentation:
    """Returns the representation for a run. Tangents need Tensors."""
    return TENSORS if create_graph or carries_tangents() else ARRAYS
