"""A row of the tables: one overload of a built-in op, with everything that is registered for it."""

from __future__ import annotations

import re
from typing import Any

from oplib.frozen import frozen
from oplib.library import Derivative, Tag
from oplib.protocols import AnyFunction

Function = AnyFunction
_CALLED = {
    "stored": "setitem",
    "quantiles": "quantile",
    "slopes": "gradient",
    "im2col": "unfold",
    "col2im": "fold",
}
_PACKAGE = re.compile("^(linalg|fft|special)_")

DERIVED = Derivative(derive=True, recompute=True)
SELECTED = Derivative(derive=True, recompute=True, selects=True)
"""Of an op whose values decide which items get the gradient."""


def name_in_torch(op: str) -> str:
    """Returns the path of torch's function with the name of an op or of a composed function."""
    package, _, name = op.partition("_")
    return f"torch.{package}.{name}" if package in ("linalg", "fft", "special") else f"torch.{op}"


def name_publicly(op: str) -> str:
    """Returns the name that errors have for an op: ``linalg.inv``."""
    name = _PACKAGE.sub(r"\1.", op).removesuffix("_with_indices")
    return _CALLED.get(name, name)


@frozen
class Row:
    """One overload of a built-in op.

    Attributes:
        schema: without the namespace, ``exp(Tensor self) -> Tensor``.
        kernel: a function of arrays; compiled.
        doc: what the op computes, in one line.
        derivative: how it differentiates; by default as JAX differentiates the kernel.
        operand: number arguments that may change at every call without compiling anew.
        in_place: there is a form that writes the result into the first argument, ``exp_``.
        enlarges: the in-place form gives its argument the shape of the result, to which it broadcasts.
        is_uniform: all items of the result are equal; the in-place form may write items that share memory.
        view: for an op whose result is a view of its argument, the rule that gives its frame, see
            ``kernels/view_rules``; a rule may give None where a copy is needed. Tensors then never reach the
            kernel.
        kernels: for some platforms, pairs of these and a kernel; ``kernel`` serves the others.
        jvp: how it differentiates forwards, where that does not follow from ``derivative``.
        sharding: which axes may be spread over devices together, where XLA cannot find that out by itself.
        node: what the node of the view is called, less "Backward0"; by default after the op.
        autocast: what :class:`oplib.autocast` does to the floating arguments: "low" for its dtype, "float32",
            "widest" for the widest of their dtypes; "result" for an op that ends in a product, whose result
            alone is cast to the low dtype; empty for nothing. "cpu low, cuda float32" tells device
            types apart; a TPU follows "cuda".
        dtypes: the classes of dtypes that it takes, see ``kernels/dtype_classes``; its kernel refuses the
            others.
        source: what it follows where that is not torch's function of the same name, see ``origin``.
        may_copy: a view op that copies where memory does not allow a view.

    The others describe the op. They stand on its first row:

    Attributes:
        result: what is known of the result of all calls. "shape": it has the shape of the first tensor.
            "items": each item is computed from those at its place, in the dtype in which the tensors meet;
            "floats": the same, and integers give floats; "bools": the same, and the items are bools;
            "mixed": the same, with a dtype that follows several rules.
        out: the function, not the method, takes ``out=``. All functions of linalg, fft and special do.
        exact_out: the same, but ``out=`` must have the dtype of the result, where other ops convert it.
        is_internal: no function of this name is public; methods and lower floors call it.
        aliases: further names of torch for the function and the method.
        in_place_functions: which names of in-place forms are functions too, as in torch: "exp_" at the root,
            "nn.functional.relu_" there. An op that has some has an in-place form.
        network_name: of the function in ``nn.functional``, where ``origin`` does not tell.
        inplace_at: the position of ``inplace`` in the function of ``nn.functional``, which then writes its
            argument; 0 if there is none. Parameters from there on are not taken.
        variadic: a parameter that the method also takes as several positional arguments.
    """

    schema: str
    kernel: Function
    doc: str
    derivative: Derivative = DERIVED
    operand: tuple[str, ...] = ()
    in_place: bool = False
    enlarges: bool = False
    is_uniform: bool = False
    view: Function | None = None
    kernels: tuple[tuple[str, Function], ...] = ()
    jvp: Function | None = None
    sharding: str | None = None
    node: str = ""
    dtypes: str = "bihfc"
    autocast: str = ""
    source: str = ""
    may_copy: bool = False
    result: str = ""
    out: bool = False
    exact_out: bool = False
    is_internal: bool = False
    aliases: tuple[str, ...] = ()
    in_place_functions: tuple[str, ...] = ()
    variadic: str = ""
    network_name: str = ""
    inplace_at: int = 0

    @property
    def name(self) -> str:
        """The op's name with the overload: ``add.Tensor``."""
        return self.schema.partition("(")[0]

    @property
    def public_name(self) -> str:
        """The name that errors have: ``linalg.inv``."""
        return name_publicly(self.op)

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments."""
        inside = self.schema.partition("(")[2].rpartition(") ->")[0]
        return [
            text.partition("=")[0].split()[-1] for text in re.split(r", (?![\d-])", inside) if text != "*"
        ]

    @property
    def autocasts(self) -> dict[str, str]:
        """The policy of autocast for floating arguments, by device type."""
        if " " not in self.autocast:
            return dict.fromkeys(("cpu", "cuda", "tpu"), self.autocast) if self.autocast else {}
        policies = dict(policy.split() for policy in self.autocast.split(", "))
        return policies | ({"tpu": policies["cuda"]} if "cuda" in policies else {})

    @property
    def op(self) -> str:
        """The op's name without the overload."""
        return self.name.partition(".")[0]

    @property
    def node_name(self) -> str:
        """The name of the node of a view, without "Backward0"."""
        return self.node or "".join(map(str.capitalize, self.op.split("_")))

    @property
    def origin(self) -> str:
        """The function whose contract the op follows; by default torch's function of this name."""
        return self.source or name_in_torch(self.op)

    @property
    def name_in_networks(self) -> str:
        """The name of the public function in ``nn.functional``; empty if there is none."""
        is_there = self.origin.startswith("torch.nn.functional.") and not self.is_internal
        return self.network_name or (self.op if is_there else "")

    @property
    def has_in_place_form(self) -> bool:
        """Whether there is a form that writes the first argument."""
        return self.in_place or bool(self.in_place_functions)

    @property
    def tags(self) -> tuple[Tag, ...]:
        """The tags it is registered with."""
        return (Tag.view,) if self.is_view else ()

    @property
    def is_view(self) -> bool:
        """Whether the result always shares memory with the argument."""
        return self.view is not None and not self.may_copy


@frozen
class ItemRow(Row):
    """The row of an op that computes item by item and takes ``out=``."""

    result: str = "items"
    out: bool = True


@frozen
class NetworkRow(Row):
    """The row of an op that follows torch's function of its name in ``nn.functional``."""

    @property
    def origin(self) -> str:
        """The function of ``nn.functional``."""
        return f"torch.nn.functional.{self.op}"


@frozen
class LinalgRow(Row):
    """The row of an op on matrices of single precision or more."""

    dtypes: str = "fc"


@frozen
class DecompositionRow(LinalgRow):
    """The row of an op that decomposes matrices; autocast on the CPU computes it in float32."""

    autocast: str = "cpu float32"


@frozen
class ProductRow(Row):
    """The row of a product of matrices or vectors of one dtype, which takes ``out=`` of this dtype."""

    dtypes: str = "ihfc"
    exact_out: bool = True


@frozen
class LossRow(NetworkRow):
    """The row of a loss, which autocast computes in float32."""

    dtypes: str = "hf"
    autocast: str = "float32"


def constant(because: str) -> Derivative:
    """The gradient is zero everywhere, for this reason."""
    return Derivative(constant=because)


def from_output(formula: Function) -> Derivative:
    """A formula ``formula(g, y)`` that reads nothing but the output: the input need not be kept.

    Args:
        formula: from the gradient of the output, and the output, to the gradient of the first argument.
    """

    def backward(ctx: Any, g: Any) -> Any:
        return formula(g, *ctx.saved_tensors)

    return Derivative(backward=backward, setup_context=_save_output)


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    """Keeps all arguments for the backward: a ``setup_context`` of ops whose arguments are all tensors."""
    ctx.save_for_backward(*inputs)


def _save_output(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(output)
