"""Runs of the user's function and gradients of its outputs. With ``strict``, independent ones raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.engine.backward_and_grad import grad
from oplib.errors import AutogradError
from oplib.tensor import Tensor, box
from oplib.tensor.devices.placement import find_whole_placement
from oplib.tensor.shapes.filling import fill

from .arguments import OUTPUTS, Function, Group, Tensors, take_tuple

Found = tuple[Tensor | None, ...]

# Error texts for independent results, by kind, and for results that are not recorded.
INDEPENDENT = {
    "jacobian": "The output of the user-provided function is independent of input {index}.",
    "tangent": (
        "The gradient with respect to the input is independent of entry {index} in the grad_outputs when "
        "using the double backward trick to compute forward mode gradients."
    ),
    "hessian": "The jacobian of the user-provided function is independent of input {index}.",
    "hessian tangent": (
        "The hessian of the user-provided function is independent of entry {index} in the grad_jacobian, "
        "which prevents from using the double backward trick to replace forward mode AD."
    ),
}
UNRECORDED = {
    "outputs": (
        "Output {index} of the user-provided function does not require gradients. The outputs must be "
        "computed in a differentiable manner from the input."
    ),
    "gradients": (
        "The gradient with respect to input {index} is independent of the inputs of the user-provided "
        "function."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to "
        "input {index} is independent of the input. The function must be twice differentiable and the "
        "jacobian depend on the inputs (this would be violated by a linear function for example)."
    ),
}


def evaluate(func: Function, at: Tensors, caller: str, *, strict: bool) -> Group:
    """Runs the user's function.

    Raises:
        AutogradError: an output is independent, with ``strict``.
        GradientTypeError: the function returned another type.
    """
    is_tuple, outputs = take_tuple(func(*at), OUTPUTS, caller)
    if strict:
        require_recorded(outputs, "outputs", caller)
    return Group(is_tuple, outputs, "what the user-provided function returns")


def find_gradients(outputs: Found, inputs: Tensors, grads: Sequence[Tensor] | None, **options: Any) -> Found:
    """Returns the gradients of those outputs that have one; None for an input that no output depends on.

    Args:
        outputs: the outputs to differentiate; None for one that does not exist.
        inputs: the inputs to differentiate with respect to.
        grads: the gradient of each output; None for a single 1.
        **options: the options of ``oplib.autograd.grad``.
    """
    pairs = zip(outputs, grads or (None,) * len(outputs), strict=True)
    recorded = [pair for pair in pairs if pair[0] is not None and pair[0]._requires_grad]
    if not recorded:
        return (None,) * len(inputs)
    roots, root_gradients = zip(*recorded, strict=True)
    return grad(roots, inputs, root_gradients, allow_unused=True, **options)


def require_recorded(tensors: Sequence[Tensor | None], kind: str, caller: str) -> None:
    """Raises if a tensor is independent of the inputs, for ``strict=True``.

    Raises:
        AutogradError: a tensor is independent.
    """
    for index, tensor in enumerate(tensors):
        if tensor is None:
            raise _refuse(caller, INDEPENDENT["jacobian"], index)
        if not tensor._requires_grad:
            raise _refuse(caller, UNRECORDED[kind], index)


def fill_zeros(
    gradients: Found, like: Tensors, kind: str, caller: str, *, strict: bool, create_graph: bool
) -> Tensors:
    """Replaces None by zeros, or raises.

    Raises:
        AutogradError: a gradient is independent of the input, with ``strict``.
    """
    for index, result in enumerate(gradients) if strict else ():
        if result is None:
            raise _refuse(caller, INDEPENDENT[kind], index)
        if create_graph and not result._requires_grad:
            raise refuse_constant(caller, "hessian" if "hessian" in kind else "jacobian", index)
    return tuple(
        make_zeros_like(tensor) if gradient is None else gradient
        for gradient, tensor in zip(gradients, like, strict=True)
    )


def make_zeros_like(like: Tensor, lead: tuple[int, ...] = ()) -> Tensor:
    """Returns zeros of a tensor's shape and dtype, with additional leading dimensions."""
    array = like._storage.array
    return box(fill((*lead, *array.shape), 0, array.dtype, find_whole_placement(array)))


def refuse_constant(caller: str, what: str, index: int) -> AutogradError:
    """Returns the error for a derivative that must be differentiated again and depends on nothing."""
    return AutogradError(
        f"{caller}: The {what} of the user-provided function is independent of input {index}. This is not "
        "allowed in strict mode when create_graph=True. Set strict=False for zeros."
    )


def _refuse(caller: str, text: str, index: int) -> AutogradError:
    return AutogradError(
        f"{caller}: {text.format(index=index)} This is not allowed in strict mode. Set strict=False for "
        "zeros."
    )
