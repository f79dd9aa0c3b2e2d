"""``out=``: the result of an op is written into a tensor that is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer

from oplib.autograd.grad_mode import recording_off
from oplib.autograd.recording.in_place import check_may_write, has_required_grad, refuse_cast
from oplib.autograd.recording.rebase import note_write
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.library.arguments.recording import refuse_out_gradient
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.storage.cut import fit_written
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.views import ViewStorage
from oplib.tensor.views.view_storage import refuse_shared_memory, refuse_writes
from oplib.tracebacks import warn_user

from .resizing import refuse_shared


def write_out(name: str, call: Callable[[], Any], out: Any, values: Sequence[Any], exact: bool) -> Any:
    """Computes a result and writes it into ``out``.

    Args:
        name: of the op.
        call: computes the result.
        out: a Tensor; for several results a tuple of these. Where its shape differs it takes that of the
            result, with a warning if it had items.
        values: the arguments of the op, where it has a gradient.
        exact: whether ``out`` must have the dtype of the result.

    Raises:
        ArgumentTypeError: ``out`` is no Tensor, or there are too many or too few.
        ArgumentError: ``out`` is a view of another shape, or would get one while other tensors share its
            memory, or its dtype cannot hold the result.
        AutogradError: an argument or ``out`` requires grad, while grad mode is on.
    """
    outs: tuple[Any, ...] = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for target in outs:
        if not isinstance(target, Tensor):
            raise ArgumentTypeError(
                f"{name}: argument 'out' is written, and only a Tensor can be. Got {describe(target)}. "
                "Pass oplib.empty(0) to have one made that fits."
            )
    if modes.grad_enabled and any(map(has_required_grad, (*values, *outs))):
        raise refuse_out_gradient(f"{name}()")
    with recording_off():
        result = call()
        results = tuple(result) if isinstance(result, tuple) else (result,)
        if len(results) != len(outs):
            raise ArgumentTypeError(
                f"{name}: argument 'out' has one tensor for each result. Got {len(outs)} for {len(results)}. "
                "Give a tuple of as many."
            )
        for target, made in zip(outs, results, strict=True):
            if exact and target.dtype != made.dtype:
                raise ArgumentError(
                    f"{name}: expected out tensor to have dtype {made.dtype}. Got {describe(target)}. Give "
                    "one of this dtype, or oplib.empty(0, dtype=...)."
                )
        arrays = [_fit(name, target, made) for target, made in zip(outs, results, strict=True)]
        refuse_shared_memory(outs, name)
        for target, array in zip(outs, arrays, strict=True):
            target._storage.write(fit_written(target._storage, array))
            note_write(target)
    return out


def _fit(name: str, out: Tensor, made: Any) -> Any:
    """Returns what is written into ``out``. Raises if it may not be, before anything is written."""
    array = made._storage.array if isinstance(made, Tensor) else jnp.asarray(made)
    spec = out._storage.spec
    refuse_cast(name, array.dtype, spec.dtype)
    check_may_write(out, name)
    refuse_writes((out,), name)
    refuse_escape(array, out, name)
    if array.shape != spec.shape:
        _resize(name, out, array)
    return array.astype(spec.dtype)


def _resize(name: str, out: Tensor, array: Any) -> None:
    """Warns, as torch does, where a tensor with items gets another shape."""
    spec = out._storage.spec
    if isinstance(spec, ViewStorage):
        raise ArgumentError(
            f"{name}: argument 'out' is a view and cannot get another shape. Got {describe(spec)} for "
            f"{describe(array)}. Give a view of the shape of the result."
        )
    refuse_shared(out, name, array.shape, held=None if isinstance(array, Tracer) else 0)
    if spec.size:
        warn_user(
            f"{name}: An output with one or more elements was resized since it had shape {list(spec.shape)}, "
            f"which does not match the required output shape {list(array.shape)}. Give out= a tensor of that "
            "shape, or one without items."
        )
