"""Conversion of parameters to one vector and back, for optimizers that work on vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.tensor import Tensor, upcalls
from oplib.tracebacks import entry_point

__all__ = ["parameters_to_vector", "vector_to_parameters"]


@entry_point
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Joins the items of parameters to one vector.

    Args:
        parameters: tensors of any shapes.

    Returns:
        A vector, in the order of the parameters.

    Raises:
        ArgumentError: there are no parameters.

    Gradient:
        Each parameter gets the gradient of its part.

    Source:
        ``torch.nn.utils.parameters_to_vector`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> parameters_to_vector([oplib.ones(2), oplib.zeros(1, 1)])
        tensor([1., 1., 0.])
    """
    return upcalls.cat([upcalls.reshape(parameter, (-1,)) for parameter in parameters])


@entry_point
def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Writes the items of a vector into parameters, as new data.

    Args:
        vec: a Tensor, as :func:`parameters_to_vector` returns it; surplus items are ignored.
        parameters: tensors of any shapes.

    Raises:
        ArgumentTypeError: the vector is no Tensor.
        ArgumentError: the vector has too few items; nothing is written then.

    Gradient:
        None: data are written without history.

    Source:
        ``torch.nn.utils.vector_to_parameters`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> w = oplib.zeros(1, 2, requires_grad=True)
        >>> vector_to_parameters(oplib.tensor([1.0, 2.0]), [w])
        >>> w
        tensor([[1., 2.]], requires_grad=True)
    """
    if not isinstance(vec, Tensor):
        raise ArgumentTypeError(
            f"vector_to_parameters: argument 'vec' is a Tensor. Got {describe(vec)}. Use oplib.tensor(...)."
        )
    listed = list(parameters)
    count = sum(parameter.numel() for parameter in listed)
    if vec.ndim != 1 or vec.shape[0] < count:
        raise ArgumentError(
            f"vector_to_parameters: the parameters have {count} items together. Got {describe(vec)}. Give a "
            "vector with an item for each."
        )
    start = 0
    for parameter in listed:
        parameter.data = vec[start : start + parameter.numel()].reshape(parameter.shape).data
        start += parameter.numel()
