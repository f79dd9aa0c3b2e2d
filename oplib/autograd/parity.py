"""Names kept for parity with torch. They have no behaviour of their own."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

from oplib.errors import AutogradError, RegistrationError
from oplib.modes import modes
from oplib.tensor import Tensor

from .variable import Variable


def variable(*args: object, **kwargs: object) -> NoReturn:  # noqa: ARG001  every call is refused
    """Raises AutogradError, because the function is deprecated."""
    raise AutogradError(
        "variable: autograd.variable(...) is deprecated. It makes no tensor. Use oplib.tensor(...)."
    )


variable.Variable = Variable  # type: ignore[attr-defined]  generated code uses autograd.variable.Variable


def is_view_replay_enabled() -> bool:
    """Returns the flag of view replay in this thread. It has no effect."""
    return modes.state.view_replay


@contextmanager
def force_original_view_tracking(mode: bool) -> Generator[None]:
    """Sets the flag of :func:`is_view_replay_enabled` for a block."""
    state = modes.state
    before, state.view_replay = state.view_replay, mode
    try:
        yield
    finally:
        state.view_replay = before


@contextmanager
def preserve_version_counter(tensors: Tensor | tuple[Tensor, ...]) -> Generator[None]:
    """Restores the versions of tensors at the end of a block, so that writes inside it go unnoticed.

    Args:
        tensors: a tensor, or a tuple of tensors. Gradients of values saved before the block may then be
            wrong, and no check reports it.
    """
    listed = (tensors,) if isinstance(tensors, Tensor) else tensors
    before = [(tensor._storage, tensor._version) for tensor in listed]
    try:
        yield
    finally:
        for storage, version in before:
            storage.version = version


_tensor_classes: dict[Any, type[Any]] = {}


def register_py_tensor_class_for_device(device: Any, cls: Any) -> None:
    """Stores a tensor class for a device. Nothing reads it.

    Raises:
        RegistrationError: ``cls`` is not a class.
    """
    if not isinstance(cls, type):
        raise RegistrationError(
            f"_register_py_tensor_class_for_device: 'cls' has no typeinfo. Got {cls!r}, which is no class. "
            "Give a class."
        )
    _tensor_classes[device] = cls


def next_sequence_nr() -> int:
    """Returns the number that the next recorded node of this thread gets."""
    return modes.sequence_nr


def init() -> bool:
    """Returns True. The engine needs no initialisation."""
    return True


def kineto_available() -> bool:
    """Returns False. Use ``jax.profiler``."""
    return False


def refuse_profiling(*args: object, **kwargs: object) -> NoReturn:  # noqa: ARG001  every call is refused
    """Raises AutogradError, which names what measures a step."""
    raise AutogradError(
        "profiler: oplib profiles a function, and not a block. Use oplib.visual.profile(step), or "
        "jax.profiler for compiled programs."
    )


OptionalTensor: TypeAlias = Tensor | None
ShapeOrNestedShape: TypeAlias = tuple[int, ...]

_add_metadata_json = _disable_profiler = _disable_profiler_legacy = refuse_profiling
_enable_profiler = _enable_profiler_legacy = _enable_record_function = refuse_profiling
_kineto_step = _prepare_profiler = _profiler_enabled = refuse_profiling
_record_function_with_args_enter = _record_function_with_args_exit = refuse_profiling
_set_empty_test_observer = _supported_activities = refuse_profiling


class _ProfilerName:
    """A class without behaviour."""


_KinetoEvent = _ProfilerResult = DeviceType = ProfilerEvent = _ProfilerName
ProfilerActivity = ProfilerConfig = ProfilerState = _ProfilerName

PROFILER_NAMES = [
    name
    for name, value in vars().items()
    if value in (refuse_profiling, _ProfilerName) and value.__name__ != name
]
"""The names of torch's profiler, which programs may import."""


class DefaultDeviceType:
    """torch's fallback type of device for checkpoints. It is stored and has no effect.

    Example:
        >>> DefaultDeviceType.get_device_type()
        'cuda'
    """

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets the type."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Returns the type that was set."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:  # noqa: ARG001  no device has a state
    """Returns no devices and no states. One Generator serves all devices, and checkpoints preserve it."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Does nothing."""
