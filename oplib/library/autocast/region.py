"""``oplib.autocast``: a region in which ops choose their dtypes."""

from __future__ import annotations

from typing import Any

from oplib.autograd.mode_decorator import Mode
from oplib.modes import enter_block, leave_block, modes
from oplib.tensor.dtypes.rules import find_dtype
from oplib.tracebacks import warn_user

from .settings import DEFAULTS, LOW, AutocastScope, find_device_type, read_settings


class autocast(Mode):  # noqa: N801  torch's name
    """Lets ops choose their dtype in a block: matrix products low precision, sums of many items float32.

    The arguments of an op of low precision are cast to ``dtype``, those of an op of float32 to float32, and
    those of some ops to the widest of their dtypes. Only floating arguments on the device type change, and
    float64 never does. Other ops run in the dtypes of their arguments. Gradients have the dtypes of the
    tensors that they belong to. It works on Tensors and on arrays, and is part of the keys of ``oplib.jit``
    and ``jax.jit``. It is also a decorator. Traced values count as on JAX's default device.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
        dtype: bfloat16 or float16; by default the setting of the device type (:func:`get_autocast_dtype`).
            Another one gives a warning, and turns autocast off.
        enabled: False leaves an enclosing region.
        cache_enabled: torch's; it changes nothing, because no cast is kept.

    Raises:
        ArgumentTypeError: ``device_type`` is no text.
        ArgumentValueError: the device type does not support autocast.
        DtypeError: ``dtype`` is no dtype.

    Gradient:
        Casts are recorded.

    Source:
        ``torch.autocast``

    Example:
        >>> import oplib
        >>> x = oplib.ones(2, 2)
        >>> with oplib.autocast("cpu", dtype=oplib.bfloat16):
        ...     y = x @ x
        ...     z = oplib.mse_loss(y, x)
        >>> y.dtype, z.dtype
        (dtype(bfloat16), dtype('float32'))
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        super().__init__()
        settings = read_settings()
        self.device = find_device_type(device_type, subject="autocast")
        self.fast_dtype = settings.dtype_of(self.device) if dtype is None else find_dtype(dtype)
        del cache_enabled
        self.enabled = bool(enabled)
        if self.enabled and self.fast_dtype not in LOW:
            warn_user(
                f"autocast: {self.device} has no autocast with {self.fast_dtype}, so it is off. Choose "
                "bfloat16 or float16."
            )
            self.enabled = False

    def clone(self) -> autocast:
        """Returns a new manager with the same settings."""
        return autocast(self.device, self.fast_dtype, self.enabled)

    def __enter__(self) -> None:
        scope = AutocastScope(read_settings().with_device(self.device, self.fast_dtype, enabled=self.enabled))
        state = enter_block()
        self._before.append((scope, state, modes.autocast_block))
        modes.autocast_block = state
        scope.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        scope, state, modes.autocast_block = self._before.pop()
        scope.__exit__(*exc_info)
        leave_block(state)


def is_autocast_available(device_type: str) -> bool:
    """Returns whether a device type supports autocast.

    Args:
        device_type: its name.

    Source:
        ``torch.amp.is_autocast_available``

    Example:
        >>> from oplib.amp import is_autocast_available
        >>> is_autocast_available("cpu"), is_autocast_available("mps")
        (True, False)
    """
    return device_type in {*DEFAULTS, "gpu"}


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Returns whether autocast is on for a device type in this thread.

    Args:
        device_type: its name.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: it does not support autocast.

    Source:
        ``torch.is_autocast_enabled``

    Example:
        >>> import oplib
        >>> with oplib.autocast("cpu"):
        ...     oplib.is_autocast_enabled("cpu")
        True
    """
    return find_device_type(device_type, subject="is_autocast_enabled") in read_settings().enabled


def get_autocast_dtype(device_type: str) -> Any:
    """Returns the dtype of ops of low precision on a device type in this thread, also outside a region.

    Args:
        device_type: its name.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: it does not support autocast.

    Source:
        ``torch.get_autocast_dtype``

    Example:
        >>> import oplib
        >>> oplib.get_autocast_dtype("cpu"), oplib.get_autocast_dtype("cuda")
        (dtype(bfloat16), dtype('float16'))
    """
    return read_settings().dtype_of(find_device_type(device_type, subject="get_autocast_dtype"))
