"""``get_kernel``: the kernel in force, for a call from another kernel that replaces it."""

from __future__ import annotations

from typing import Any, cast

from oplib.errors import MissingRuleError, RegistrationError
from oplib.library.objects.overload import Op, resolve_existing_op
from oplib.library.records.contribution import KERNEL_SLOTS, Contribution, KernelSlot, find_newest
from oplib.library.records.platforms import find_device_slot, list_slots
from oplib.library.records.qualname import Qualname
from oplib.tracebacks import entry_point

from .registry import registry


class KernelHandle:
    """The kernel that was in force when the handle was made; a call of the handle calls the kernel.

    The handle stays valid when another kernel replaces this one. It ends with the library of the kernel.
    """

    def __init__(self, qualname: Qualname, piece: Contribution) -> None:
        self._qualname = qualname
        self._piece = piece

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the kernel.

        Raises:
            RegistrationError: the library of the kernel has been destroyed.
        """
        if not self.is_valid:
            raise RegistrationError(
                f"{self._qualname}: this handle on its kernel has been invalidated. The kernel was "
                f"registered at {self._piece.site}, and its library has been destroyed since. Call "
                "get_kernel again."
            )
        return self._piece.value.function(*args, **kwargs)

    @property
    def is_valid(self) -> bool:
        """Whether the library of the kernel still exists."""
        return any(piece is self._piece for piece in registry.read(self._qualname))

    def __repr__(self) -> str:
        state = f"registered at {self._piece.site}" if self.is_valid else "invalidated"
        return f"<KernelHandle({self._qualname}, {self._piece.slot}, {state})>"


@entry_point
def get_kernel(op: Op, device_type: str) -> KernelHandle:
    """Returns the kernel that would run for an op on a device.

    A new kernel for the device can call it in certain cases. The handle calls the function as it was
    registered, so it takes the arguments of the op's kernels: arrays, numpy arrays or Tensors.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        device_type: ``cpu``, ``cuda``, ``rocm``, ``gpu``, ``tpu``, or ``default``.

    Returns:
        A handle on the kernel.

    Raises:
        RegistrationValueError: an unknown device type, or ``op`` is another object.
        RegistrationError: nothing is registered under the name; a call of the handle raises it if the library
            of the kernel has been destroyed.
        MissingRuleError: the op has no kernel for this device.

    Source:
        ``torch.library.get_kernel``, with a device in place of a dispatch key.

    Example:
        >>> import jax
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::double")
        ... def double(x: jax.Array) -> jax.Array:
        ...     return x * 2
        >>> get_kernel("docs::double", "cpu")(4)
        8
    """
    slot = find_device_slot(device_type, subject="get_kernel")
    qualname = resolve_existing_op(op, subject="get_kernel")._qualname
    pieces = registry.read(qualname)
    for candidate in (*cast("tuple[KernelSlot, ...]", list_slots(slot)), "composite"):
        piece = find_newest(pieces, candidate)
        if piece is not None:
            return KernelHandle(qualname, piece)
    known = sorted({piece.slot for piece in pieces if piece.slot in KERNEL_SLOTS})
    raise MissingRuleError(
        f"get_kernel: {qualname} has no kernel for {device_type}. Its kernels are for "
        f"{', '.join(known) or 'no device'}. Register one by register_kernel."
    )
