"""The library floor: registering ops, and calling them. The names are those of ``torch.library``."""

import typing as _typing

from oplib.importing import LateImports as _LateImports
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from .derivatives.formula_context import Context
from .infer_schema import infer_schema
from .jax_primitives.shape_evaluation import eval_shape
from .op_objects.namespace import OpNamespace, OpOverloadPacket, OpsNamespaces, ops
from .op_objects.overload import OpOverload
from .op_records.record import Derivative, Record, Tag
from .registration.absent import fallthrough_kernel, get_ctx, load_library, register_torch_dispatch
from .registration.custom_op import custom_op
from .registration.custom_op_def import CustomOpDef
from .registration.definition import define, impl
from .registration.kernel_registration import (
    KernelHandle,
    get_kernel,
    impl_abstract,
    register_fake,
    register_kernel,
)
from .registration.library import Library, _scoped_library
from .registration.registry import refresh
from .registration.rule_registration import (
    register_autocast,
    register_autograd,
    register_jvp,
    register_sharding,
    register_vmap,
)
from .schema import FunctionSchema, parse_schema

__all__ = [
    "Context",
    "CustomOpDef",
    "Derivative",
    "FunctionSchema",
    "KernelHandle",
    "Library",
    "OpNamespace",
    "OpOverload",
    "OpOverloadPacket",
    "OpsNamespaces",
    "Record",
    "Tag",
    "_scoped_library",
    "custom_op",
    "define",
    "eval_shape",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "load_library",
    "opcheck",
    "ops",
    "parse_schema",
    "refresh",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_sharding",
    "register_torch_dispatch",
    "register_vmap",
]

if _typing.TYPE_CHECKING:
    from .opcheck import opcheck
else:
    from . import opcheck

    # The first import of a package binds its name here. The name must lead to the function, by __getattr__.
    del opcheck

_late = _LateImports(__name__, {"autograd": "autograd", "opcheck": "opcheck.check"})
__getattr__ = _make_getattr(globals(), _late)
__dir__ = _make_dir(globals())
