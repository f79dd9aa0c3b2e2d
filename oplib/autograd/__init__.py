"""Automatic differentiation of Tensors: a tape, and an engine that runs it backwards.

The only change to user code is ``requires_grad=True``. Floating dtypes (half, bfloat16, float, double) and
complex ones are differentiated.

Example:
    >>> import oplib
    >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
    >>> oplib.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
"""

# ruff: noqa: F401  torch's private names can be imported from here too
# pyright: reportUnusedImport=false

import typing as _typing

from oplib.errors import AutogradError
from oplib.importing import LateImports as _LateImports
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from . import anomaly_mode, grad_mode
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .engine.backward_and_grad import (
    backward,
    grad,
    tensor_or_tensors_to_tuple as _tensor_or_tensors_to_tuple,
)
from .engine.engine import (
    _EngineBase,
    _ImperativeEngine,
    current_autograd_node as _current_autograd_node,
    current_graph_task_execution_order as _current_graph_task_execution_order,
    current_graph_task_id as _current_graph_task_id,
    get_python_engine,
    will_engine_execute_node as _will_engine_execute_node,
)
from .engine.root_gradients import calculate_shape as _calculate_shape, make_root_gradients as _make_grads
from .engine.run import is_checkpoint_valid as _is_checkpoint_valid
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .parity import (
    PROFILER_NAMES as _PROFILER_NAMES,
    DeviceType,
    OptionalTensor as _OptionalTensor,
    ProfilerActivity,
    ProfilerConfig,
    ProfilerEvent,
    ProfilerState,
    ShapeOrNestedShape as _ShapeorNestedShape,
    Variable,
    force_original_view_tracking as _force_original_view_tracking,
    init,
    is_view_replay_enabled,
    kineto_available,
    next_sequence_nr as _get_sequence_nr,
    preserve_version_counter as _unsafe_preserve_version_counter,
    register_py_tensor_class_for_device as _register_py_tensor_class_for_device,
    variable,
)
from .saved_tensors.hooks import (
    pop_hooks as _pop_saved_tensors_default_hooks,
    push_hooks as _push_saved_tensors_default_hooks,
)
from .saved_tensors.saved_tensor import SavedTensor

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

if _typing.TYPE_CHECKING:
    from . import compiled_autograd, forward_ad, function, functional, graph, profiler
    from .engine.engine import engine_run_backward as _engine_run_backward
    from .function import Function, NestedIOFunction
    from .gradcheck import gradcheck, gradgradcheck
else:
    from . import gradcheck

    # The first import of a package binds its name here. The name must lead to the function, by __getattr__.
    del gradcheck

_late = _LateImports(
    __name__,
    {
        "Function": "function",
        "NestedIOFunction": "function",
        "_engine_run_backward": "graph",
        "compiled_autograd": "compiled_autograd",
        "forward_ad": "forward_ad",
        "function": "function",
        "functional": "functional",
        "gradcheck": "gradcheck.check",
        "gradgradcheck": "gradcheck.second",
        "graph": "graph",
        "profiler": "profiler",
        **dict.fromkeys(_PROFILER_NAMES, "parity"),
    },
)
__getattr__ = _make_getattr(globals(), _late)
__dir__ = _make_dir(
    globals(),
    "anomaly_mode",
    "compiled_autograd",
    "forward_ad",
    "function",
    "functional",
    "grad_mode",
    "graph",
)


if not init():
    raise AutogradError(
        "oplib.autograd: autograd could not be initialised. Its engine did not start. Reinstall oplib."
    )
