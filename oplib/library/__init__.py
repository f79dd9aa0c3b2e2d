"""The library floor: registering ops, and calling them. The names are those of ``torch.library``."""

from .absent import fallthrough_kernel, get_ctx, load_library, register_torch_dispatch
from .custom_op import custom_op
from .custom_op_def import CustomOpDef
from .definition import define, impl
from .infer_schema import infer_schema
from .kernel_handle import KernelHandle, get_kernel
from .kernel_registration import impl_abstract, register_fake, register_kernel
from .library import Library, _scoped_library
from .namespace import OpNamespace, OpOverloadPacket, OpsNamespaces, ops
from .opcheck import opcheck
from .overload import OpOverload
from .record import Derivative, Record, Tag
from .registry import refresh
from .rule_registration import register_autograd, register_jvp, register_sharding, register_vmap
from .schema import FunctionSchema, parse_schema
from .shape_evaluation import eval_shape

__all__ = [
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
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_sharding",
    "register_torch_dispatch",
    "register_vmap",
]
