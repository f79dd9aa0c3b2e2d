"""The registration record: everything oplib knows about one op overload, frozen."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from oplib.library.schema import FunctionSchema

Function = Callable[..., Any]
KernelKind = Literal["array", "host", "tensor", "composite"]


class Tag(enum.Enum):
    """What an op promises beyond its schema.

    Attributes:
        inplace: writes its first argument and returns that very object.
        out: writes its keyword-only tensors and returns them.
        pointwise: each element of the result depends on the elements at the same place.
        view: the result shares memory with the first tensor; if it only moves items it can be written.
        pt2_compliant_tag: carried by every custom op, for parity; nothing reads it.
    """

    inplace = "inplace"
    out = "out"
    pointwise = "pointwise"
    view = "view"
    pt2_compliant_tag = "pt2_compliant_tag"


@dataclass(frozen=True, slots=True)
class Derivative:
    """How an op differentiates backwards. Exactly one of the fields is set, or none: nothing was said.

    Attributes:
        backward: the user's formula ``backward(ctx, *grads)``, with ``setup_context`` beside it.
        setup_context: ``setup_context(ctx, inputs, output)``, what to keep for the formula.
        nonlinear: the formula is not linear in its gradients (clipping), so no jvp can be derived from it.
        derive: JAX's own derivative of the kernel.
        constant: why the gradient is zero everywhere.
        missing: why there is none, raised when it is asked for.
    """

    backward: Function | None = None
    setup_context: Function | None = None
    nonlinear: bool = False
    derive: bool = False
    constant: str | None = None
    missing: str | None = None


_NO_KERNELS: Mapping[str, Function] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Record:
    """One op overload as registered. Attaching a rule makes a new record in its place.

    Attributes:
        schema: with ``ns::name`` and overload name.
        kind: how kernels run: ``array`` (compiled), ``host`` (numpy), ``tensor`` (eager code on Tensors) or
            ``composite`` (eager code that autograd looks into).
        kernels: by platform (``cpu``, ``gpu``, ``tpu``) or ``default``; only enabled ones.
        fake: the shape rule.
        derivative: how it differentiates backwards.
        jvp: how it differentiates forwards, written as for ``jax.custom_jvp``.
        vmap: the batching rule ``rule(info, in_dims, *args)``.
        sharding: the sharding rule.
        operand: names of number arguments that are operands instead of static.
        donates: names of written arguments whose buffer the op may take over.
        compiled: False runs an ``array`` kernel as plain Python on every call (``compile=False``).
        tags: promises beyond the schema.
        is_custom: made by ``custom_op``, and so held to its contract: what the schema declares is written
            counts as written at every call, and no result aliases an argument. With ``define`` the kernel
            answers for both.
        where: ``file:line`` of the registration.
        version: grows with every replacement of the record of this op.
    """

    schema: FunctionSchema
    kind: KernelKind = "tensor"
    kernels: Mapping[str, Function] = field(default_factory=lambda: _NO_KERNELS)
    fake: Function | None = None
    derivative: Derivative = Derivative()
    jvp: Function | None = None
    vmap: Function | None = None
    sharding: Any = None
    operand: frozenset[str] = frozenset()
    donates: frozenset[str] = frozenset()
    compiled: bool = True
    tags: tuple[Tag, ...] = ()
    is_custom: bool = False
    where: str = "?"
    version: int = 0

    @property
    def draws(self) -> bool:
        """Whether a call draws a key from a Generator."""
        return any(argument.is_generator for argument in self.schema.arguments)

    @property
    def takes_tensors(self) -> bool:
        """Whether kernel and rules are eager code that gets Tensors."""
        return self.kind in {"tensor", "composite"}

    @property
    def is_transparent(self) -> bool:
        """Whether JAX differentiates the kernel itself: it was asked to, or the op is composite."""
        return self.derivative.derive or self.kind == "composite"

    @property
    def is_plain(self) -> bool:
        """Whether an array kernel, and its rules with it, run as plain Python: ``compile=False``."""
        return self.kind == "array" and not self.compiled

    @property
    def sole_kernel(self) -> Function | None:
        """The kernel for every platform; None where the platform decides."""
        return self.kernels.get("default") if len(self.kernels) == 1 else None

    @property
    def name(self) -> str:
        """The qualified name, with the overload where it has one: ``ns::op.overload``."""
        return self.schema.qualified_name

    @property
    def step_name(self) -> str:
        """What torch calls the backward step, less its suffix: ``GeneratedBackwardFor_ns_op_default``."""
        namespace, _, name = self.schema.name.partition("::")
        return f"GeneratedBackwardFor_{namespace}_{name}_{self.schema.overload_name or 'default'}"

    @property
    def node_name(self) -> str:
        """The name of its nodes: torch's long form, or ``MulBackward0`` for a built-in op."""
        namespace, _, name = self.schema.name.partition("::")
        if namespace != "oplib":
            return f"{self.step_name}Backward"
        return "".join(part.capitalize() for part in name.strip("_").split("_")) + "Backward0"
