"""Functions whose ``forward`` is annotated ``jax.Array``: their methods get arrays, and ``apply`` is an op.

Forward, backward and the rules are compiled once per signature, as the kernel and rules of an op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.engine.validation import is_expandable, sum_to
from oplib.autograd.function import Function
from oplib.autograd.user_functions.vmap import uses_own_rule
from oplib.errors import MissingRuleError, SchemaInferenceError
from oplib.tensor import Tensor

from .derivatives.formula_context import SetupContext
from .infer_schema import infer_kind
from .registration.custom_op import custom_op

_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def read_annotations(cls: Any) -> None:
    """Makes ``apply`` of a Function the call of its op, if its forward is annotated ``jax.Array``.

    Raises:
        SchemaInferenceError: one parameter is annotated so, and another is not.
    """
    forward = _take_forward(cls)
    hints = str([parameter.annotation for parameter in forward.__signature__.parameters.values()])
    try:
        cls._takes_arrays = infer_kind(forward) == "array"
    except SchemaInferenceError as error:
        if "jax" not in hints and "jnp" not in hints:
            return  # an annotation of another library
        raise SchemaInferenceError(
            f"{cls.__name__}: its forward has annotations of two kinds. {error}"
        ) from None
    if not cls._takes_arrays:
        cls.apply = vars(Function)["apply"]
        return
    for name, parameter in forward.__signature__.parameters.items():
        if parameter.annotation is inspect.Parameter.empty:
            raise SchemaInferenceError(
                f"{cls.__name__}: parameter '{name}' of forward has no annotation, and another is annotated "
                "jax.Array. The methods of a Function get arrays or Tensors, not both. Annotate every "
                "parameter, or none."
            )
    cls.apply = classmethod(_apply_first)


def _apply_first(cls: Any, *args: Any, **kwargs: Any) -> Any:
    cls.apply = op = _make_op(cls)
    return op(*args, **kwargs)


def _take_forward(cls: Any) -> Any:
    """Returns the forward of a Function as a kernel: without ctx, and with its annotations."""
    has_setup = _has_setup(cls)
    signature = inspect.signature(cls.forward)
    parameters = list(signature.parameters.values())[0 if has_setup else 1 :]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if has_setup:
            return cls.forward(*args, **kwargs)
        return cls.forward(SetupContext((False,) * len(parameters)), *args, **kwargs)

    kernel.__name__, kernel.__doc__ = cls.__name__, cls.__doc__
    target: Any = kernel
    target.__wrapped__ = cls.forward
    returned = Any if signature.return_annotation is signature.empty else signature.return_annotation
    target.__signature__ = inspect.Signature(parameters, return_annotation=returned)
    return target


def _has_setup(cls: Any) -> bool:
    return cls.setup_context is not Function.setup_context


def _make_op(cls: Any) -> Any:
    kernel = _take_forward(cls)
    op: Any = custom_op(kernel)
    has_backward = cls.backward is not Function.backward or cls.vjp is not Function.vjp
    if has_backward or cls.jvp is Function.jvp:
        run = {"setup_context": _bind_setup(cls)} if _has_setup(cls) else {"forward": _bind_forward(cls)}
        op.register_autograd(_bind_backward(cls, len(op._schema.returns)), **run)
    if cls.jvp is not Function.jvp:
        op.register_jvp(_bind_jvp(cls, kernel), symbolic_zeros=True)
    if cls.vmap is not Function.vmap:
        uses_own_rule(cls)
        op.register_vmap(cls.vmap)
    return op


def _bind_setup(cls: Any) -> Callable[..., None]:
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any, **keyword_only: Any) -> None:
        ctx._input_shapes = jax.tree_util.tree_map(_describe, inputs)
        cls.setup_context(ctx, inputs, output, **keyword_only)

    return setup_context


def _bind_forward(cls: Any) -> Callable[..., Any]:
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._input_shapes = jax.tree_util.tree_map(_describe, args)
        return cls.forward(ctx, *args, **kwargs)

    return forward


def _bind_backward(cls: Any, count: int) -> Callable[..., Any]:
    """Returns the backward, whose gradients are summed as on the tape where forward broadcasts."""
    rule = cls.backward if cls.backward is not Function.backward else cls.vjp

    def backward(ctx: Any, *grads: Any) -> Any:
        if rule is Function.vjp:
            raise MissingRuleError(
                f"{cls.__name__}: it has no backward. A gradient must pass through it. Define a static "
                "backward(ctx, *grads), or vjp."
            )
        if count == 1 and isinstance(grads[0], tuple):  # several results without an annotation
            (grads,) = grads
        results = rule(ctx, *grads)
        listed = results if isinstance(results, tuple) else (results,)
        shapes = ctx._input_shapes
        return (*map(_fit, listed, shapes), *listed[len(shapes) :])

    return backward


def _bind_jvp(cls: Any, kernel: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    parameters = kernel.__signature__.parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is _KEYWORD_ONLY]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        ctx = _ForwardContext(tuple(tangent is not None for tangent in tangents))
        first = len(primals) - len(names)
        args, keywords = tuple(primals[:first]), dict(zip(names, primals[first:], strict=True))
        if _has_setup(cls):
            result = cls.forward(*args, **keywords)
            cls.setup_context(ctx, args, result, **({"keyword_only_inputs": keywords} if names else {}))
        else:
            result = cls.forward(ctx, *args, **keywords)
        fills = ctx._materialize
        filled = [
            _zeros(value) if one is None and fills else one
            for one, value in zip(tangents, primals, strict=True)
        ]
        return result, cls.jvp(ctx, *filled)

    return jvp


class _ForwardContext(SetupContext):
    @property
    def saved_tensors(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  as in jvp of torch
        """The arguments of ``save_for_forward``."""
        return self._saved_for_forward


def _zeros(value: Any) -> Any:
    return jnp.zeros_like(value) if isinstance(value, jax.Array) and has_gradient(value.dtype) else None


def _describe(value: Any) -> Any:
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if isinstance(value, (jax.Array, Tensor)) else None


def _fit(grad: Any, target: Any) -> Any:
    """Sums a gradient over the axes along which its input was broadcast."""
    if isinstance(grad, list) and isinstance(target, list):
        return list(map(_fit, grad, target))
    if not (isinstance(grad, jax.Array) and isinstance(target, jax.ShapeDtypeStruct)):
        return grad
    fits = grad.shape == target.shape or not is_expandable(target.shape, grad.shape)
    return grad if fits else sum_to(grad, target.shape)
