"""Operations for JAX, written once with their rules, for an eager tape and every transformation."""

# Only this file imports every floor. It imports the floors in order, fills the table of upcalls
# through which the tensor floor calls the ops and the engine, and lists the public names.

from __future__ import annotations

import typing as _typing
from collections import ChainMap as _ChainMap
from math import e, inf, nan, pi

from .command_line import start  # first of all
from .importing import LateImports as _LateImports, collecting_later, import_together

with collecting_later():
    from . import (
        amp,
        autograd,
        errors,
        fft,
        library,
        linalg,
        nn,
        ops,
        pytree,
        special,
        tensor as _tensor,  # before the function of this name replaces it
    )
    from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
    from .autograd.engine.backward_and_grad import run_tensor_backward
    from .autograd.grad_mode import is_grad_enabled, is_inference_mode_enabled
    from .autograd.recording.view import fit_gradients, share_requires_grad, view_alike
    from .builtin.argument_checks.conditions import (
        _check as _check,
        _check_index as _check_index,
        _check_not_implemented as _check_not_implemented,
        _check_type as _check_type,
        _check_value as _check_value,
    )
    from .builtin.public_functions import registry as _registry
    from .config import config
    from .library import Tag, custom_op
    from .library.autocast.region import (
        autocast,
        get_autocast_dtype,
        is_autocast_enabled,
    )
    from .tensor import *
    from .tensor import Device, MemoryFormat, MemoryLayout, upcalls
    from .tensor.dtypes import names as _dtypes
    from .tensor.dtypes.names import *
    from .tensor.dtypes.rules import default_int_dtype as _default_int_dtype
    from .tensor.inference import mark_inference
    from .tensor.methods.op_methods import add_op_methods
    from .torch_names import make_dir as _make_dir, make_missing_error as _make_missing_error

if _typing.TYPE_CHECKING:
    from . import array_api, compiler, masked, optim, random, signal, testing, transforms, utils, visual
    from .builtin.public_functions.placement import with_sharding_constraint
    from .builtin.public_functions.registry import *
    from .tensor.dtypes.names import int64 as long
    from .tensor.saving import load, save
    from .transforms.control_flow import cond, scan, while_loop
    from .transforms.jit.function import jit
    from .transforms.vmap.vmap import vmap

__version__ = "0.1.0.dev0"
device = Device  # torch's names
layout = MemoryLayout
memory_format = MemoryFormat
newaxis = None

_late_upcalls = _LateImports(
    __name__,
    {
        "array_api": "array_api",
        "apply_as_op": "library.function_op",
        "apply_in_map": "transforms.vmap.spliced_node",
        "copy_to_device": "builtin.public_functions.placement",
        "execute_compiled": "autograd.compiled_autograd.deferred",
        "map_examples": "transforms.vmap.vmap",
        "read_annotations": "library.array_function",
    },
)
upcalls.fill(
    {
        "fit_gradients": fit_gradients,
        "mark_inference": mark_inference,
        "refresh": library.refresh,
        "run_backward": run_tensor_backward,
        "share_requires_grad": share_requires_grad,
        "view_alike": view_alike,
    },
    made_when_asked=_ChainMap(_registry.UPCALLS, _late_upcalls),  # pyright: ignore[reportArgumentType]  it is only read
)
add_op_methods(_registry.METHODS)
import_together("einops._backends", f"{__name__}.einops_backend")
del (
    add_op_methods,
    collecting_later,
    fit_gradients,
    import_together,
    mark_inference,
    run_tensor_backward,
    share_requires_grad,
    start,
    upcalls,
    view_alike,
)

__all__ = [
    "Tag",
    "__version__",
    "amp",
    "array_api",
    "autocast",
    "autograd",
    "compiler",
    "cond",
    "config",
    "custom_op",
    "device",
    "e",
    "enable_grad",
    "errors",
    "fft",
    "get_autocast_dtype",
    "inf",
    "inference_mode",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jit",
    "layout",
    "library",
    "linalg",
    "load",
    "long",
    "masked",
    "memory_format",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "pi",
    "pytree",
    "random",
    "save",
    "scan",
    "set_grad_enabled",
    "signal",
    "special",
    "testing",
    "transforms",
    "utils",
    "visual",
    "vmap",
    "while_loop",
    "with_sharding_constraint",
]
__all__ += _tensor.__all__
__all__ += _dtypes.__all__
__all__ += _registry.__all__

_late = _LateImports(
    __name__,
    {
        "_dynamo": "_dynamo",
        "array_api": "array_api",
        "compiler": "compiler",
        "cond": "transforms.control_flow",
        "fx": "fx",
        "jit": "transforms.jit.function",
        "load": "tensor.saving",
        "masked": "masked",
        "optim": "optim",
        "random": "random",
        "save": "tensor.saving",
        "scan": "transforms.control_flow",
        "signal": "signal",
        "testing": "testing",
        "transforms": "transforms",
        "types": "types",
        "utils": "utils",
        "visual": "visual",
        "vmap": "transforms.vmap.vmap",
        "while_loop": "transforms.control_flow",
        "with_sharding_constraint": "builtin.public_functions.placement",
    },
)


def __getattr__(name: str) -> _typing.Any:
    """Makes the function of an op, such as ``oplib.exp``, at its first use; imports rarely used modules.

    ``long`` is the default integer dtype of the moment: it follows JAX's x64.
    """
    if name == "long":
        return _default_int_dtype()
    if name in _late:
        value = _late[name]
    elif name in _registry.FUNCTIONS:
        value = _registry.FUNCTIONS[name]
    else:
        raise _make_missing_error(__name__, name)
    globals()[name] = value
    return value


__dir__ = _make_dir(globals())
