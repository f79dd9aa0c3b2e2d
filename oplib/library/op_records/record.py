"""The registration record: the frozen description of one overload."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

from oplib.frozen import frozen
from oplib.library.schema import FunctionSchema
from oplib.protocols import AnyFunction

Function = AnyFunction
KernelKind = Literal["array", "host", "tensor", "composite"]


class Tag(enum.Enum):
    """The promises of an op beyond its schema.

    Attributes:
        inplace: the op writes its first argument and returns that very object.
        out: the op writes its keyword-only tensors and returns them.
        pointwise: each element of the result depends only on the elements at the same position.
        view: the result shares memory with the first tensor. It is writable if the op only moves elements.
        ordered: the host kernel has side effects. Compiled code runs every call, and all such calls in the
            order of the program.
        pt2_compliant_tag: carried by every custom op for parity with torch; nothing reads it.
    """

    inplace = "inplace"
    out = "out"
    pointwise = "pointwise"
    view = "view"
    ordered = "ordered"
    pt2_compliant_tag = "pt2_compliant_tag"


@frozen
class Derivative:
    """How an op differentiates backwards. At most one kind is set; none means that nothing is registered.

    Attributes:
        backward: the user's formula ``backward(ctx, *grads)``, with ``setup_context`` beside it.
        setup_context: ``setup_context(ctx, inputs, output)``, which selects the values that the formula
            needs.
        forward: ``forward(ctx, *inputs)``, which computes the results and selects these values. It runs
            instead of the kernel where the call is recorded or differentiated.
        nonlinear: the formula is not linear in its gradients (clipping), so no jvp can be derived from it.
        surrogate: the formula is not the derivative of the kernel, so no check compares the two.
        linear: the op is linear in the arguments for which the formula gives gradients, and the formula is
            its adjoint.
        derive: JAX's own derivative of the kernel is used.
        recompute: a recorded call of a derived op saves inputs only, and its backward computes again what it
            needs of the kernel.
        selects: a value that the backward only compares, to decide which items get the gradient, has no part
            in the gradient: under ``create_graph`` the gradient does not require grad because of it.
        constant: the reason why the gradient is zero everywhere.
        missing: the reason why there is no gradient; a request for it raises an error with this reason.
    """

    backward: Function | None = None
    setup_context: Function | None = None
    forward: Function | None = None
    nonlinear: bool = False
    surrogate: bool = False
    linear: bool = False
    derive: bool = False
    recompute: bool = False
    selects: bool = False
    constant: str | None = None
    missing: str | None = None

    @property
    def saver(self) -> str:
        """The name of the part that saves values for the formula; empty if there is none."""
        if self.setup_context is not None:
            return "setup_context"
        return "" if self.forward is None else "forward"


@frozen
class JvpRule:
    """How an op differentiates forwards.

    Attributes:
        function: ``rule(primals, tangents) -> (outputs, output tangents)``, as for ``jax.custom_jvp``.
        symbolic_zeros: the tangent of a tensor that is not differentiated is None instead of zeros.
        nonlinear: the rule is not linear in its tangents, so no backward can be derived from it.
    """

    function: Function
    symbolic_zeros: bool = False
    nonlinear: bool = False


_NO_KERNELS: Mapping[str, Function] = MappingProxyType({})


@frozen
class Definition:
    """The facts that are fixed when an op is defined.

    Attributes:
        schema: the schema, with ``ns::name`` and the overload name.
        kind: how kernels run: ``array`` (compiled), ``host`` (numpy), ``tensor`` (eager code on Tensors) or
            ``composite`` (eager code that autograd looks into); None if the first kernel decides.
        compiled: False runs an ``array`` kernel as plain Python on every call (``compile=False``); None if
            the kind decides.
        operand: the names of number arguments that are operands instead of static.
        donates: the names of written arguments whose buffer the op may reuse.
        tags: the promises of the op beyond its schema.
        function: the decorated function of a ``custom_op``, which runs if a kernel is disabled. None for an
            op of ``define``, whose library alone may define it.
        is_function: the op is a ``Function``, whose gradients are summed to their inputs as on the tape. If
            it is not compiled, its parts are Python that boxes the arrays, and runs in each trace.
    """

    schema: FunctionSchema
    kind: KernelKind | None = None
    compiled: bool | None = None
    operand: frozenset[str] = frozenset()
    donates: frozenset[str] = frozenset()
    tags: tuple[Tag, ...] = ()
    function: Function | None = None
    is_function: bool = False


@frozen
class Record(Definition):
    """The registration of one overload: its definition, kernels and rules. Attaching a rule replaces it.

    Attributes:
        kind: as in the definition, or as the first kernel says.
        compiled: as in the definition, or as the kind says.
        kernels: the enabled kernels by platform (``cpu``, ``gpu``, ``tpu``) or ``default``.
        fake: the shape rule.
        derivative: how the op differentiates backwards.
        jvp: how the op differentiates forwards; None means that this follows from ``derivative``.
        vmap: the batching rule ``rule(info, in_dims, *args)``.
        sharding: the sharding rule.
        autocast: what autocast does to floating arguments, by device type: ``"low"``, ``"float32"``,
            ``"widest"``, or a dtype; ``"result"`` casts the floating results to the low dtype instead; a
            function takes the place of the call.
        where: ``file:line`` of the registration.
        version: a number that grows when the record of this op is replaced.
    """

    kind: KernelKind = "tensor"
    compiled: bool = True
    kernels: Mapping[str, Function] = field(default_factory=lambda: _NO_KERNELS)
    fake: Function | None = None
    derivative: Derivative = Derivative()
    jvp: JvpRule | None = None
    vmap: Function | None = None
    sharding: Any = None
    autocast: Mapping[str, Any] = field(default_factory=lambda: _NO_KERNELS)
    where: str = "?"
    version: int = 0

    @property
    def is_custom(self) -> bool:
        """Whether ``custom_op`` made the op, so that its contract applies.

        Each argument that the schema declares as written counts as written at every call, and no result
        aliases an argument. For an op of ``define``, the kernel is responsible for both.
        """
        return self.function is not None

    @property
    def draws(self) -> bool:
        """Whether a call draws a key from a Generator."""
        return any(argument.is_generator for argument in self.schema.arguments)

    @property
    def is_ordered(self) -> bool:
        """Whether the kernel has side effects, so that its calls are kept and ordered."""
        return Tag.ordered in self.tags

    @property
    def takes_tensors(self) -> bool:
        """Whether kernel and rules are eager code that receives Tensors."""
        return self.kind in {"tensor", "composite"}

    @property
    def is_untraced(self) -> bool:
        """Whether kernel and rules are Python on Tensors, which may read Tensors from outside of a trace."""
        return self.takes_tensors or self.runs_anew

    @property
    def runs_anew(self) -> bool:
        """Whether the op is a ``Function`` without annotations, whose code runs in each trace."""
        return self.is_function and not self.compiled

    @property
    def is_eager(self) -> bool:
        """Whether the tape runs the kernel on Tensors, and JAX does not differentiate it by request."""
        return self.takes_tensors and not self.derivative.derive

    @property
    def is_built_in(self) -> bool:
        """Whether the op is one of oplib's, which take and refuse what torch's do."""
        return self.schema.name.startswith("oplib::")

    @property
    def is_transparent(self) -> bool:
        """Whether JAX differentiates the kernel itself: by request or as a composite, and by no jvp rule."""
        return self.jvp is None and (self.derivative.derive or self.kind == "composite")

    @property
    def is_derived(self) -> bool:
        """Whether JAX's derivative serves as the backward: of the kernel, or of the op by its jvp rule."""
        has_rule = self.jvp is not None and not self.jvp.nonlinear
        return self.derivative.derive or (self.derivative.backward is None and has_rule)

    @property
    def is_linear(self) -> bool:
        """Whether forward mode applies the op to the tangents, because it is declared linear."""
        return self.derivative.linear and self.jvp is None

    @property
    def needs_kernel_derivative(self) -> bool:
        """Whether forward over reverse mode may need JAX's derivative of the kernel, and it may exist."""
        return self.derivative.backward is not None and self.jvp is None and self.kind != "host"

    @property
    def is_plain(self) -> bool:
        """Whether an array kernel and its rules run as plain Python: ``compile=False``."""
        return self.kind == "array" and not self.compiled

    @property
    def sole_kernel(self) -> Function | None:
        """The kernel for every platform; None if the platform decides."""
        return self.kernels.get("default") if len(self.kernels) == 1 else None

    @property
    def name(self) -> str:
        """The qualified name, with the overload if it is named: ``ns::op.overload``."""
        return self.schema.qualified_name

    @property
    def step_name(self) -> str:
        """Torch's name of the backward step without its suffix: ``GeneratedBackwardFor_ns_op_default``."""
        namespace, _, name = self.schema.name.partition("::")
        return f"GeneratedBackwardFor_{namespace}_{name}_{self.schema.overload_name or 'default'}"

    @property
    def node_name(self) -> str:
        """The name of the op's nodes: torch's long form, or ``MulBackward0`` for a built-in op."""
        namespace, _, name = self.schema.name.partition("::")
        if self.is_function:
            return f"{name}Backward"
        if namespace != "oplib":
            return f"{self.step_name}Backward"
        return "".join(part.capitalize() for part in name.strip("_").split("_")) + "Backward0"
