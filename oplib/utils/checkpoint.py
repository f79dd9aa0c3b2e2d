"""``torch.utils.checkpoint`` under torch's path; the implementation is in ``oplib.transforms``."""

import typing as _typing

from oplib.autograd.parity import DefaultDeviceType, get_device_states, set_device_states
from oplib.errors import CheckpointError
from oplib.torch_names import make_getattr as _make_getattr
from oplib.transforms.checkpoint.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_early_stop,
)
from oplib.transforms.checkpoint.policy import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from oplib.transforms.checkpoint.reentrant import CheckpointFunction, check_backward_validity, detach_variable

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_device_states",
]
