"""Operations for JAX, written once with their rules, for an eager tape and every transformation."""

# Only this file imports every floor. It imports the floors in order, fills the table of upcalls
# through which the tensor floor calls the ops and the engine, and lists the public names.

from __future__ import annotations

import typing as _typing
from collections import ChainMap as _ChainMap
from math import e, inf, nan, pi

from .importing import LateImports as _LateImports
from .importing import collecting_later

with collecting_later():
    from . import amp, autograd, errors, fft, library, linalg, nn, ops, pytree, special
    from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
    from .autograd.engine.tensor_backward import run_tensor_backward
    from .autograd.grad_mode import is_grad_enabled, is_inference_mode_enabled
    from .autograd.recording.view import view_alike
    from .builtin.functions import registry as _registry
    from .config import config
    from .library import Tag, custom_op
    from .library.autocast.region import (
        autocast,
        clear_autocast_cache,
        get_autocast_dtype,
        is_autocast_cache_enabled,
        is_autocast_enabled,
    )
    from .tensor import (
        Device,
        Generator,
        MemoryFormat,
        MemoryLayout,
        Size,
        Tensor,
        allclose,
        arange,
        as_tensor,
        can_cast,
        channels_last,
        channels_last_3d,
        contiguous_format,
        default_generator,
        empty,
        empty_like,
        equal,
        eye,
        finfo,
        from_dlpack,
        from_numpy,
        full,
        full_like,
        get_default_dtype,
        get_rng_state,
        iinfo,
        initial_seed,
        is_tensor,
        linspace,
        logspace,
        manual_seed,
        ones,
        ones_like,
        preserve_format,
        promote_types,
        rand,
        rand_like,
        randint,
        randint_like,
        randn,
        randn_like,
        randperm,
        result_type,
        seed,
        set_default_dtype,
        set_printoptions,
        set_rng_state,
        strided,
        tensor,
        upcalls,
        zeros,
        zeros_like,
    )
    from .tensor.dtypes import names as _dtypes
    from .tensor.dtypes.names import *
    from .tensor.dtypes.rules import default_int_dtype as _default_int_dtype
    from .tensor.inference import mark_inference
    from .tensor.methods.op_methods import add_op_methods
    from .torch_names import describe_missing as _describe_missing

if _typing.TYPE_CHECKING:
    from . import masked, optim, random, signal, transforms, utils, visual
    from .builtin.functions.registry import *
    from .tensor.archive import load, save
    from .tensor.dtypes.names import int64 as long
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
        "apply_in_map": "transforms.vmap.mapped_function",
        "copy_to_device": "builtin.functions.placement",
        "execute_compiled": "autograd.compiled_autograd.execution",
        "map_examples": "transforms.vmap.vmap",
    },
)
upcalls.fill(
    {
        "mark_inference": mark_inference,
        "refresh": library.refresh,
        "run_backward": run_tensor_backward,
        "view_alike": view_alike,
    },
    made_when_asked=_ChainMap(_registry.UPCALLS, _late_upcalls),  # pyright: ignore[reportArgumentType]  it is only read
)
add_op_methods(_registry.METHODS)
del (
    add_op_methods,
    collecting_later,
    mark_inference,
    run_tensor_backward,
    upcalls,
    view_alike,
)

__all__ = [
    "Device",
    "Generator",
    "MemoryFormat",
    "MemoryLayout",
    "Size",
    "Tag",
    "Tensor",
    "__version__",
    "allclose",
    "amp",
    "arange",
    "as_tensor",
    "autocast",
    "autograd",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "clear_autocast_cache",
    "cond",
    "config",
    "contiguous_format",
    "custom_op",
    "default_generator",
    "device",
    "e",
    "empty",
    "empty_like",
    "enable_grad",
    "equal",
    "errors",
    "eye",
    "fft",
    "finfo",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "get_autocast_dtype",
    "get_default_dtype",
    "get_rng_state",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "jit",
    "layout",
    "library",
    "linalg",
    "linspace",
    "load",
    "logspace",
    "long",
    "manual_seed",
    "masked",
    "memory_format",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "pi",
    "preserve_format",
    "promote_types",
    "pytree",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "result_type",
    "save",
    "scan",
    "seed",
    "set_default_dtype",
    "set_grad_enabled",
    "set_printoptions",
    "set_rng_state",
    "signal",
    "special",
    "strided",
    "tensor",
    "transforms",
    "utils",
    "visual",
    "vmap",
    "while_loop",
    "zeros",
    "zeros_like",
]
__all__ += _dtypes.__all__
__all__ += _registry.__all__

_late = _LateImports(
    __name__,
    {
        "cond": "transforms.control_flow",
        "jit": "transforms.jit.function",
        "load": "tensor.archive",
        "masked": "masked",
        "optim": "optim",
        "random": "random",
        "save": "tensor.archive",
        "scan": "transforms.control_flow",
        "signal": "signal",
        "transforms": "transforms",
        "utils": "utils",
        "visual": "visual",
        "vmap": "transforms.vmap.vmap",
        "while_loop": "transforms.control_flow",
    },
)


def __getattr__(name: str) -> _typing.Any:
    """Makes the function of an op, such as ``oplib.exp``, at its first use; imports rarely used modules.

    ``long`` is the default integer dtype of the moment: it follows JAX's x64.
    """
    if name == "long":
        return _default_int_dtype()
    if name in _late:
        found = _late[name]
    elif name in _registry.FUNCTIONS:
        found = _registry.FUNCTIONS[name]
    else:
        raise AttributeError(_describe_missing(__name__, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
