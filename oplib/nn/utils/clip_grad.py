"""Gradient clipping in place: by the norm of all gradients, or item by item."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import GeneratorType
from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd.grad_mode import recording_off
from oplib.autograd.recording.in_place import check_may_write, write_in_place
from oplib.config import config
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.modes import modes
from oplib.tensor import Tensor, box, upcalls
from oplib.tensor.factories.from_data import tensor
from oplib.tracebacks import entry_point, warn_user

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]
_LEAST = 1e-6  # torch's constant: added to the norm, so that gradients of 0 stay 0


def _list(where: str, tensors: Any) -> list[Tensor]:
    """Returns tensors as a list.

    Raises:
        ArgumentTypeError: they are no Tensors.
    """
    listed = [tensors] if isinstance(tensors, Tensor) or not isinstance(tensors, Iterable) else list(tensors)
    wrong = [value for value in listed if not isinstance(value, Tensor)]
    if wrong:
        raise ArgumentTypeError(
            f"{where} holds no Tensors. Got {describe(wrong[0])}. Give a Tensor or several."
        )
    return listed


def _list_gradients(parameters: list[Tensor]) -> list[Any]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _read_number(where: str, value: Any) -> float:
    """Returns a number as a float.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{where} is no number. Got {describe(value)}. Give a float.") from None


def _read_threshold(where: str, value: Any, dtype: Any) -> Any:
    """Returns a threshold as a float, or as a Tensor without axes if it is a Tensor or array.

    A Tensor stays one, so that it may be an operand of a compiled function.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it has not exactly one item.
    """
    if isinstance(value, jax.Array):
        value = Tensor.from_array(value)
    if not isinstance(value, Tensor):
        return _read_number(where, value)
    if value.numel() != 1:
        raise ArgumentError(
            f"{where} is one number for all gradients. Got {describe(value)}. Give a float, or a Tensor with "
            "one item."
        )
    return value.detach().reshape(()).to(dtype)


def _are_plain(tensors: list[Tensor]) -> bool:
    """Returns whether calls on tensors may be compiled together, because no mode looks at each of them."""
    state = modes.state
    is_special = state.watchers or state.region or not config.uses_fast_path
    return not is_special and all(type(tensor) is Tensor for tensor in tensors)


@partial(jax.jit, static_argnums=1)
def _compute_norm(arrays: list[Any], order: float) -> Any:
    norms = [upcalls.linalg_vector_norm(array, order) for array in arrays]
    return upcalls.linalg_vector_norm(upcalls.stack(norms), order)


def _find_norm(tensors: list[Tensor], order: float) -> Tensor:
    """Returns the norm of all items of tensors, with one compiled call where that is possible."""
    if _are_plain(tensors):
        with suppress(ValueError):  # arrays on several devices have no program in common
            return box(_compute_norm([tensor._storage.array for tensor in tensors], order))
    norms = [upcalls.linalg_vector_norm(tensor, order) for tensor in tensors]
    return upcalls.linalg_vector_norm(upcalls.stack([_move(norm, norms[0]) for norm in norms]), order)


def _move(number: Tensor, other: Tensor) -> Tensor:
    """Returns a number where another tensor is, if that is one device and another one."""
    mine, theirs = number._storage.array, other._storage.array
    if isinstance(mine, Tracer) or isinstance(theirs, Tracer) or not theirs.committed:
        return number
    if len(theirs.devices()) > 1 or mine.devices() == theirs.devices():
        return number
    return box(jax.device_put(mine, theirs.sharding))


@jax.jit
def _compute_products(arrays: list[Any], factor: Any) -> list[Any]:
    return [upcalls.mul(array, factor) for array in arrays]


def _scale(gradients: list[Tensor], factor: Tensor) -> None:
    """Multiplies gradients in place, with one compiled call for all of them where that is possible."""
    products: list[Any] = [None] * len(gradients)
    seen = [tensor._storage.owner.array for tensor in gradients]
    if gradients and _are_plain([*gradients, factor]):
        arrays = [tensor._storage.array for tensor in gradients]
        with suppress(ValueError):  # arrays on several devices have no program in common
            products = _compute_products(arrays, factor._storage.array)
    for gradient, old, product in zip(gradients, seen, products, strict=True):
        check_may_write(gradient, "mul_")
        # A gradient that stands twice in the list, or that another thread has written, is read again.
        if product is None or write_in_place(gradient, box(product), "mul_", old) is None:
            gradient.mul_(_move(factor, gradient))


@entry_point
def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,  # noqa: ARG001  torch's signature; it has no effect here
) -> Tensor:
    """Computes the norm of all items of several tensors, as of one vector.

    Args:
        tensors: one or several floating or complex tensors of any shapes.
        norm_type: the order of the norm; ``inf`` means the largest absolute value.
        error_if_nonfinite: whether a norm that is nan or infinite raises an error.
        foreach: accepted for parity and ignored.

    Returns:
        A Tensor without axes; 0 for no tensors. It is on the device of the first tensor.

    Raises:
        ArgumentError: the norm is not finite and ``error_if_nonfinite`` is True.
        ArgumentTypeError: a parameter is no Tensor, or ``norm_type`` is no number.

    Gradient:
        None: the function runs without grad mode.

    Source:
        ``torch.nn.utils.get_total_norm`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> get_total_norm([oplib.tensor([3.0]), oplib.tensor([[4.0]])])
        tensor(5.)
    """
    listed = _list("get_total_norm: argument 'tensors'", tensors)
    return _compute_total("get_total_norm", listed, norm_type, error_if_nonfinite)


def _compute_total(caller: str, listed: list[Tensor], norm_type: float, is_strict: bool) -> Tensor:
    """Returns the norm of all items of tensors; strict means that it must be finite."""
    order = _read_number(f"{caller}: argument 'norm_type'", norm_type)
    if not listed:
        return tensor(0.0)
    with recording_off():
        total: Any = _find_norm(listed, order)
    if is_strict and not math.isfinite(total.item()):
        raise ArgumentError(
            f"{caller}: the total norm of order {order} is non-finite, so gradients cannot be clipped "
            f"by it. Got {total.item()} of {len(listed)} tensors, the first of them {describe(listed[0])}. "
            "Leave error_if_nonfinite out to scale by it nevertheless."
        )
    return total


@entry_point
def clip_grads_with_norm_(
    parameters: Tensors,
    max_norm: float | Tensor,
    total_norm: Tensor,
    foreach: bool | None = None,  # noqa: ARG001  torch's signature
) -> None:
    """Scales the gradients of parameters, in place, by ``max_norm / total_norm`` if this is below 1.

    Args:
        parameters: one or several tensors; those without a gradient are ignored.
        max_norm: the maximal norm of all gradients together: a number, or a Tensor with one item.
        total_norm: the norm of all gradients, as :func:`get_total_norm` returns it.
        foreach: accepted for parity and ignored.

    Raises:
        ArgumentError: ``max_norm`` is a Tensor of several items.
        ArgumentTypeError: ``max_norm`` is no number, or a parameter is no Tensor.

    Gradient:
        None: the function runs without grad mode.

    Source:
        ``torch.nn.utils.clip_grads_with_norm_`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([1.0], requires_grad=True)
        >>> (3.0 * w).sum().backward()
        >>> clip_grads_with_norm_(w, 1.0, oplib.tensor(6.0))
        >>> w.grad
        tensor([0.5000])
    """
    caller = "clip_grads_with_norm_"
    (total,) = _list(f"{caller}: argument 'total_norm'", [total_norm])
    _clip(caller, _list(f"{caller}: argument 'parameters'", parameters), max_norm, total)


def _clip(caller: str, parameters: list[Tensor], max_norm: float | Tensor, total: Tensor) -> None:
    with recording_off():
        most = _read_threshold(f"{caller}: argument 'max_norm'", max_norm, total.dtype)
        factor = upcalls.clamp_max(most / (total + _LEAST), 1.0)
        _scale(_list_gradients(parameters), factor)


@entry_point
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,  # noqa: ARG001  torch's signature
) -> Tensor:
    """Scales the gradients of parameters, in place, so that their joint norm is at most ``max_norm``.

    Args:
        parameters: one or several tensors; those without a gradient are ignored.
        max_norm: the maximal norm of all gradients together: a number, or a Tensor with one item.
        norm_type: the order of the norm; ``inf`` means the largest absolute value.
        error_if_nonfinite: whether a norm that is nan or infinite raises an error; nothing is written then.
        foreach: accepted for parity and ignored.

    Returns:
        The norm before clipping, a Tensor without axes.

    Raises:
        ArgumentError: the norm is not finite and ``error_if_nonfinite`` is True, or ``max_norm`` is a Tensor
            of several items.
        ArgumentTypeError: ``max_norm`` or ``norm_type`` is no number, or a parameter is no Tensor.

    Gradient:
        None: the function runs without grad mode.

    Source:
        ``torch.nn.utils.clip_grad_norm_`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([3.0, 4.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> clip_grad_norm_(w, 1.0)
        tensor(10.)
        >>> w.grad
        tensor([0.6000, 0.8000])
    """
    listed = _list("clip_grad_norm_: argument 'parameters'", parameters)
    if not listed and isinstance(parameters, GeneratorType):
        warn_user(
            "clip_grad_norm_: `parameters` is an empty generator, and no gradient is clipped. Give a list: a "
            "generator that was iterated before is empty."
        )
    total = _compute_total("clip_grad_norm_", _list_gradients(listed), norm_type, error_if_nonfinite)
    _clip("clip_grad_norm_", listed, max_norm, total)
    return total


@entry_point
def clip_grad_value_(
    parameters: Tensors,
    clip_value: float | Tensor,
    foreach: bool | None = None,  # noqa: ARG001  torch's signature
) -> None:
    """Limits each item of the gradients of parameters, in place.

    Args:
        parameters: one or several tensors; those without a gradient are ignored.
        clip_value: the bound: items are limited to the interval from its negative to itself. A number, or a
            Tensor with one item.
        foreach: accepted for parity and ignored.

    Raises:
        ArgumentError: ``clip_value`` is a Tensor of several items.
        ArgumentTypeError: ``clip_value`` is no number, or a parameter is no Tensor.

    Gradient:
        None: the function runs without grad mode.

    Source:
        ``torch.nn.utils.clip_grad_value_`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> w = oplib.tensor([1.0, -4.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> clip_grad_value_(w, 2.5)
        >>> w.grad
        tensor([ 2.0000, -2.5000])
    """
    with recording_off():
        for gradient in _list_gradients(_list("clip_grad_value_: argument 'parameters'", parameters)):
            bound = _read_threshold("clip_grad_value_: argument 'clip_value'", clip_value, gradient.dtype)
            gradient.clamp_(-bound, bound)
