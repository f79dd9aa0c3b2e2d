"""Forward mode on Tensors: dual levels, and tensors that carry a tangent through every op.

Example:
    >>> import oplib
    >>> from oplib.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 0.0]))
    ...     y = forward_ad.unpack_dual(x * x)
    >>> y.tangent
    tensor([2., 0.])
"""

from __future__ import annotations

from typing import NamedTuple

from oplib.errors import AutogradError, DataTypeError, GradientValueError, describe, describe_dtype
from oplib.modes import ModeState, modes
from oplib.tensor import Tensor, upcalls
from oplib.torch_names import make_dir as _make_dir

from .array_functions.array_function import has_gradient
from .mode_decorator import Flag, Mode
from .tangents import DualLevel, check_tangent, find_tangent, set_tangent, switch_forward_mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
__dir__ = _make_dir(globals())


class UnpackedDualTensor(NamedTuple):
    """The result of :func:`unpack_dual`.

    Attributes:
        primal: the value, without a tangent.
        tangent: the tangent, or None.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a dual level in this thread, in which tensors can carry tangents.

    Returns:
        Its number, which is always 0: as in torch, only one level can be open.

    Raises:
        AutogradError: a level is already open.

    Source:
        torch.autograd.forward_ad.enter_dual_level; a level of torch belongs to the process.
    """
    state = modes.state
    if state.dual_level is not None:
        raise AutogradError(
            "enter_dual_level: Nested forward mode AD is not supported at the moment. A level is open in "
            "this thread. Leave it first, or take jax.jvp of the array-level function for higher orders."
        )
    state.dual_level = DualLevel()
    state.watchers += state.forward_enabled
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the dual level of this thread. All tangents made in it are dropped.

    Args:
        level: the number of the level; by default the open one.

    Raises:
        AutogradError: no level is open, or ``level`` is not the open one.
    """
    state = modes.state
    opened = state.dual_level
    if level is not None and level != _current_level():
        raise AutogradError(
            "exit_dual_level: Trying to exit a forward AD level that was not the last one that was created. "
            f"This is not supported. Got level {level}, open is {_current_level()}. Leave the argument out."
        )
    if not isinstance(opened, DualLevel):
        raise AutogradError(
            "exit_dual_level: Dual level must be a positive number. No level is open in this thread. Call "
            "enter_dual_level() first, or use `with dual_level():`."
        )
    state.dual_level = None
    state.watchers -= state.forward_enabled
    opened.close()


class dual_level(Mode):  # noqa: N801  users call it like a function
    """Opens a dual level for a block, or for each call of a decorated function.

    Tangents exist only inside the block; they are dropped at its end.

    Raises:
        AutogradError: a level is already open.

    Source:
        torch.autograd.forward_ad.dual_level

    Example:
        >>> import oplib
        >>> from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
        >>> with dual_level():
        ...     x = make_dual(oplib.tensor([3.0]), oplib.tensor([1.0]))
        ...     tangent = unpack_dual(x.exp() * 0 + x).tangent
        >>> tangent, unpack_dual(x).tangent
        (tensor([1.]), None)
    """

    def __enter__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  only this mode has a number
        return enter_dual_level()

    def __exit__(self, *exc_info: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Returns a tensor that carries a tangent.

    Args:
        tensor: the value, any shape, floating or complex.
        tangent: a tensor of the same shape, complex only if ``tensor`` is. It is not copied: in-place writes
            into the result also write the tangent.
        level: the number of the level; by default the open one.

    Returns:
        A new tensor that shares the storage and the history of ``tensor``.

    Raises:
        AutogradError: no level is open, ``level`` is not the open one, ``tensor`` or ``tangent`` already has
            a tangent, or the tangent does not fit.
        GradientValueError: ``tensor`` or ``tangent`` is neither floating nor complex.
        DataTypeError: ``tensor`` or ``tangent`` is not a Tensor.

    Gradient:
        The identity with respect to ``tensor``. Tangents of results are differentiable with respect to
        ``tangent``.

    Source:
        torch.autograd.forward_ad.make_dual

    Example:
        >>> import oplib
        >>> from oplib.autograd.forward_ad import dual_level, make_dual
        >>> with dual_level():
        ...     make_dual(oplib.tensor([1.0]), oplib.tensor([2.0]))
        tensor([1.], tangent=tensor([2.]))
    """
    wanted = _current_level() if level is None else level
    if wanted < 0:
        raise AutogradError(
            "make_dual: Trying to create a dual Tensor for forward AD but no level exists. Tangents live in "
            "a level. Make sure to enter_dual_level() first, or use `with dual_level():`."
        )
    _check_level(wanted, "make_dual")
    for name, value in (("primal", tensor), ("tangent", tangent)):
        _check_operand(name, value)
    with _set_fwd_grad_enabled(True):
        if find_tangent(tensor) is not None:
            raise AutogradError(
                "make_dual: Making a dual Tensor based on a Tensor that already has a forward gradient at "
                f"the same level {wanted} is not supported. Got {describe(tensor)}. Give "
                "unpack_dual(tensor).primal."
            )
        check_tangent(tensor, tangent)
    dual = _alias(tensor)
    set_tangent(dual, tangent)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Returns the value and the tangent of a tensor.

    Args:
        tensor: any Tensor.
        level: the number of the level; by default the open one.

    Returns:
        ``(primal, tangent)``. The primal is a new tensor on the same storage, without the tangent; outside of
        a level it is ``tensor`` itself. The tangent is the object that was given to :func:`make_dual`, or a
        tangent that ops have computed. It is None if there is no tangent, or forward mode is off.

    Raises:
        AutogradError: ``level`` is not open.
        DataTypeError: ``tensor`` is not a Tensor.

    Gradient:
        The identity, for both.

    Source:
        torch.autograd.forward_ad.unpack_dual
    """
    _check_tensor("unpack_dual", "tensor", tensor)
    wanted = _current_level() if level is None else level
    if wanted < 0:
        return UnpackedDualTensor(tensor, None)
    if wanted > 0:
        raise _invalid_level(wanted, "unpack_dual")
    return UnpackedDualTensor(_alias(tensor), find_tangent(tensor))


class _set_fwd_grad_enabled(Flag):  # noqa: N801  users call it like a function
    """Switches forward mode on or off, at once or for a ``with`` block.

    While forward mode is off, tensors show no tangent and ops compute none.

    Args:
        mode: whether forward mode is on.
    """

    name = "forward_enabled"

    def _set(self, state: ModeState, value: bool) -> None:
        switch_forward_mode(state, value)


def _is_fwd_grad_enabled() -> bool:  # pyright: ignore[reportUnusedFunction]  torch's name
    """Returns whether forward mode is on in this thread."""
    return modes.forward_enabled


def _current_level() -> int:
    return -1 if modes.dual_level is None else 0


def _check_level(level: int, caller: str) -> None:
    if level != 0:
        raise _invalid_level(level, caller)
    if modes.dual_level is None:
        raise AutogradError(
            f"{caller}: Trying to access a forward AD level with an invalid index. Level {level} was either "
            "not created or is already deleted. Call enter_dual_level() first."
        )


def _invalid_level(level: int, caller: str) -> AutogradError:
    return AutogradError(
        f"{caller}: Invalid level given. Got {level}, and there is one level at a time, of number 0. Leave "
        "the argument out."
    )


def _check_operand(name: str, value: object) -> None:
    tensor = _check_tensor("make_dual", name, value)
    dtype = tensor._storage.array.dtype
    if not has_gradient(dtype):
        raise GradientValueError(
            f"make_dual: Expected {name} to be floating point or complex, but got: {describe_dtype(dtype)}. "
            f"It is {describe(tensor)}. Convert it first: tensor.to(oplib.float32)."
        )


def _check_tensor(caller: str, name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise DataTypeError(
            f"{caller}: '{name}' must be a Tensor. Got {type(value).__name__}. Use oplib.tensor(data)."
        )
    return value


def _alias(tensor: Tensor) -> Tensor:
    """Returns a new tensor on the same storage with the same history, with its own tangent or none."""
    if not (tensor._requires_grad and modes.grad_enabled):
        return tensor._share()
    alias = upcalls.alias(tensor)
    alias._tangent_source = ()
    return alias
