"""Registration of what autocast does to the arguments of an op."""

from __future__ import annotations

from typing import Any

from oplib.library.autocast.settings import find_device_type
from oplib.library.objects.overload import Op, OpOverload, resolve_op
from oplib.library.records.contribution import AUTOCAST_SLOTS, FOREVER, Contribution, Owner
from oplib.library.records.sites import find_site
from oplib.tensor.dtypes.rules import find_dtype
from oplib.tracebacks import entry_point

from .definition import find_owner
from .library import Library
from .registry import registry


@entry_point
def register_autocast(op: Op, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Registers the dtype to which :class:`oplib.autocast` casts the floating arguments of an op.

    In a region of autocast for the device type, floating tensors and arrays on it are cast, float64 ones
    excepted, and the kernel runs with autocast off. Other arguments stay. An op without a registration runs
    in the dtypes of its arguments; autocast applies to the ops that its kernel calls.

    Args:
        op: the op, as its qualified name, its overload, or the result of ``custom_op``.
        device_type: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
        cast_inputs: the dtype.
        lib: the library with which the registration ends; without it the registration is permanent.

    Raises:
        ArgumentTypeError: ``device_type`` is no text.
        ArgumentValueError: the device type does not support autocast.
        DtypeError: ``cast_inputs`` is no dtype.
        RegistrationValueError: ``op`` is another object.
        UnknownOperatorError: nothing is registered under the name.

    Gradient:
        The casts are recorded, so gradients have the dtypes of the arguments.

    Source:
        ``torch.library.register_autocast``

    Example:
        >>> import jax, oplib
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::cosh_sum", autograd="derive")
        ... def cosh_sum(x: jax.Array) -> jax.Array:
        ...     return jax.numpy.cosh(x).sum()
        >>> cosh_sum.register_autocast("cpu", oplib.float16)
        >>> with oplib.autocast("cpu"):
        ...     cosh_sum(oplib.ones(3)).dtype
        dtype('float16')
    """
    overload = resolve_op(op, subject="register_autocast")
    found = find_device_type(device_type, subject="register_autocast")
    owner = find_owner(overload._qualname, lib, subject="register_autocast")
    add_autocast(overload, found, find_dtype(cast_inputs), owner)


def add_autocast(overload: OpOverload, device_type: str, policy: Any, owner: Owner = FOREVER) -> None:
    """Adds the policy of an op for a device type: a dtype, or a word of the rows."""
    slot = AUTOCAST_SLOTS[device_type]
    registry.add(overload._qualname, Contribution(slot, policy, owner, find_site()))
