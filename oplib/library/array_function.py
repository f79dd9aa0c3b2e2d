"""Functions whose ``forward`` is annotated ``jax.Array``: their methods get arrays, and ``apply`` is an op.

Forward, backward and the rules are compiled once per signature, as the kernel and rules of an op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.masks import mask_given
from oplib.autograd.function import Function
from oplib.errors import SchemaInferenceError
from oplib.protocols import Values

from .derivatives.formula_context import SetupContext
from .infer_schema import infer_function_schema, infer_kind
from .op_records.record import Derivative, JvpRule
from .registration.custom_op import make_function_op

Rule = Callable[..., Any]

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
    # The class holds the op as apply. A caller may hold this function: clip = Softclip.apply.
    if not isinstance(cls.apply, MethodType):
        return cls.apply(*args, **kwargs)
    op = _make_op(cls)
    result = op(*args, **kwargs)
    cls._backward_cls._check_backward(len(result) if isinstance(result, tuple) else 1)
    cls.apply = op
    return result


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


def select_rules(cls: Any, derivative: Derivative, jvp: Rule, batch: Rule) -> dict[str, Any]:
    """Returns, by their slots, the rules that a Function has."""
    own: Any = cls.backward if cls.backward is not cls._root.backward else cls.vjp
    has_backward = own is not cls._root.vjp
    backward: Any = derivative.backward
    backward.is_once_differentiable = getattr(own, "is_once_differentiable", False)
    return {
        "derivative": derivative if has_backward else None,
        "jvp": JvpRule(jvp, symbolic_zeros=True) if cls.jvp is not Function.jvp else None,
        "vmap": batch if cls.vmap is not Function.vmap else None,
    }


def _make_op(cls: Any) -> Any:
    cls._binding()  # refuses methods that cannot be called
    parameters = inspect.signature(cls.forward).parameters.values()
    if not _has_setup(cls) and "Array" in str([parameter.annotation for parameter in parameters][:1]):
        raise SchemaInferenceError(
            f"{cls.__name__}: its forward has no ctx, and the class has no setup_context. Got forward("
            f"{', '.join([parameter.name for parameter in parameters])}). Write forward(ctx, ...), or define "
            "setup_context(ctx, inputs, output)."
        )
    kernel = _take_forward(cls)
    schema = infer_function_schema(
        kernel, mutates_args=(), name=f"local::{cls.__name__}", overload_name="", tags=()
    )
    count = len(schema.returns)

    def setup_context(ctx: Any, inputs: Values, output: Any, **keyword_only: Any) -> None:
        cls.setup_context(ctx, inputs, output, **keyword_only)

    def backward(ctx: Any, *grads: Any) -> Any:
        if count == 1 and isinstance(grads[0], tuple):  # several results without an annotation
            (grads,) = grads
        return (cls.backward if cls.backward is not Function.backward else cls.vjp)(ctx, *grads)

    if _has_setup(cls):
        derivative = Derivative(backward, setup_context=setup_context)
    else:
        derivative = Derivative(backward, forward=cls.forward)
    rules = select_rules(cls, derivative, _bind_jvp(cls, kernel), cls.vmap)
    return make_function_op(kernel, schema, compiled=True, **rules)


def _bind_jvp(cls: Any, kernel: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    parameters = kernel.__signature__.parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is _KEYWORD_ONLY]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        ctx = _ForwardContext(mask_given(tangents))
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
