"""``custom_fwd`` and ``custom_bwd``: what a ``Function`` does under autocast."""

from __future__ import annotations

import functools
from typing import Any

from oplib.errors import AutogradError
from oplib.protocols import AnyFunction
from oplib.tensor.dtypes.rules import find_dtype

from .casts import cast_tree
from .region import autocast
from .settings import find_device_type, read_settings

Method = AnyFunction


def custom_fwd(fwd: Method | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Marks the ``forward`` of a Function, so that :func:`custom_bwd` runs in the same autocast state.

    Args:
        fwd: ``forward(ctx, *args)``; None makes the call a decorator.
        device_type: the device type of its tensors.
        cast_inputs: in a region of autocast, floating arguments are cast to this dtype, and ``forward`` runs
            with autocast off; None changes nothing.

    Raises:
        ArgumentTypeError: ``device_type`` is no text.
        ArgumentValueError: the device type does not support autocast.
        DtypeError: ``cast_inputs`` is no dtype.
        AutogradError: at a call, ``forward`` takes no ctx, because the Function has a ``setup_context``.

    Source:
        ``torch.amp.custom_fwd``

    Example:
        >>> import oplib
        >>> class Product(oplib.autograd.Function):
        ...     @staticmethod
        ...     @oplib.amp.custom_fwd(device_type="cpu", cast_inputs=oplib.float32)
        ...     def forward(ctx, x, y):
        ...         ctx.save_for_backward(x, y)
        ...         return x @ y
        ...
        ...     @staticmethod
        ...     @oplib.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         x, y = ctx.saved_tensors
        ...         return g @ y.mT, x.mT @ g
        >>> x = oplib.ones(2, 2, dtype=oplib.bfloat16)
        >>> with oplib.autocast("cpu"):
        ...     Product.apply(x, x).dtype
        dtype('float32')
    """
    device = find_device_type(device_type, subject="custom_fwd")
    dtype = None if cast_inputs is None else find_dtype(cast_inputs)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device, cast_inputs=dtype)

    @functools.wraps(fwd)
    def run(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(ctx, "save_for_backward"):
            raise AutogradError(
                "custom_fwd: it marks a forward without ctx, on which it keeps the state of autocast for "
                f"custom_bwd. Got {type(ctx).__name__} as the first argument. Write forward(ctx, *args), "
                "without a setup_context."
            )
        settings = read_settings()
        ctx._dtype = settings.dtype_of(device)
        is_on = device in settings.enabled
        ctx._fwd_used_autocast = is_on and dtype is None
        if not is_on or dtype is None:
            return fwd(ctx, *args, **kwargs)
        args, kwargs = cast_tree((args, kwargs), device, dtype)
        with autocast(device, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return run


def custom_bwd(bwd: Method | None = None, *, device_type: str) -> Any:
    """Marks the ``backward`` of a Function, so that it runs in the autocast state of its forward.

    Args:
        bwd: ``backward(ctx, *grads)``; None makes the call a decorator.
        device_type: as for :func:`custom_fwd`, which must mark ``forward``.

    Raises:
        ArgumentTypeError: ``device_type`` is no text.
        ArgumentValueError: the device type does not support autocast.

    Source:
        ``torch.amp.custom_bwd``

    Example:
        >>> import oplib
        >>> @oplib.amp.custom_bwd(device_type="cpu")
        ... def backward(ctx, g):
        ...     return g * ctx.scale
    """
    device = find_device_type(device_type, subject="custom_bwd")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device)

    @functools.wraps(bwd)
    def run(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device, ctx._dtype, ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return run
