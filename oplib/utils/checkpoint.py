"""``torch.utils.checkpoint`` under torch's path; the implementation is in ``oplib.transforms``."""

from oplib.autograd.parity import DefaultDeviceType, get_device_states, set_device_states
from oplib.errors import CheckpointError
from oplib.transforms.checkpoint.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from oplib.transforms.checkpoint.policy import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from oplib.transforms.checkpoint.recompute import GraphExecGroup
from oplib.transforms.checkpoint.reentrant import CheckpointFunction, check_backward_validity, detach_variable

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
