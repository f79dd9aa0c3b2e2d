"""``out=``: the result of an op is written into a tensor that is there already."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from oplib.autograd.grad_mode import no_grad
from oplib.autograd.recording.in_place import check_may_write, has_required_grad, refuse_cast
from oplib.autograd.recording.rebase import note_write
from oplib.builtin.rows.docstring import add_to_arguments
from oplib.builtin.rows.parameters import takes_further_names
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.generated_code import define_function
from oplib.library.arguments.recording import refuse_out_gradient
from oplib.library.calls.fusion import fuse, list_branches
from oplib.library.calls.spelling import spell_parameters
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.views import ViewStorage

Function = Callable[..., Any]
_KINDS = inspect.Parameter
_OUT = "out: a tensor that the result is written into and that is returned, or a tuple; by default None."


def add_out(function: Function, name: str, *, has_gradient: bool = True) -> Function:
    """Makes the function of an op with one more argument, ``out``.

    It is written out as text, so that a call without ``out`` costs no more than one more frame of Python.

    Args:
        function: of the op.
        name: of the op.
        has_gradient: whether the op has one, which would be lost: it is refused where an argument requires
            grad.
    """
    parameters = list(inspect.signature(function).parameters.values())
    spelling = spell_parameters(parameters)
    namespace: dict[str, Any] = {"__function": function, "__write": write_out, "__name": name}
    namespace |= spelling.namespace
    star = [] if "*" in spelling.declared else ["*"]
    call = f"__function({', '.join(spelling.given)})"
    watched = [one for one in parameters if has_gradient and one.kind is not _KINDS.VAR_KEYWORD]
    values = "".join(f"{one.name}, " for one in watched)
    lines = [
        f"def {name}({', '.join([*spelling.declared, *star, 'out=None', *spelling.rest])}):",
        f"    if out is None: return {call}",
        f"    return __write(__name, lambda: {call}, out, ({values}))",
    ]
    define_function("\n".join(lines), name, f"<oplib.{name} with out>", namespace)
    made = namespace[name]
    made.__doc__ = add_to_arguments(function.__doc__, _OUT)
    branches = list_branches(function)
    return fuse(made, *branches) if branches else made


def takes_out(function: Function) -> bool:
    """Whether all arguments of a function can be handed on by name."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {one.kind for one in parameters if not takes_further_names(one)}
    return kinds <= {_KINDS.POSITIONAL_OR_KEYWORD, _KINDS.KEYWORD_ONLY}


def write_out(name: str, call: Callable[[], Any], out: Any, values: Sequence[Any]) -> Any:
    """Computes a result and writes it into ``out``.

    Args:
        name: of the op.
        call: computes the result.
        out: a Tensor; for several results a tuple of these. Where its shape differs it takes that of the
            result, with a warning if it had items.
        values: the arguments of the op, where it has a gradient.

    Returns:
        ``out``.

    Raises:
        ArgumentTypeError: ``out`` is no Tensor, or there are too many or too few.
        ArgumentError: ``out`` is a view of another shape, or its dtype cannot hold the result.
        AutogradError: an argument or ``out`` requires grad, while grad mode is on.
    """
    outs: tuple[Any, ...] = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for one in outs:
        if not isinstance(one, Tensor):
            raise ArgumentTypeError(
                f"{name}: argument 'out' is written, and only a Tensor can be. Got {describe(one)}. "
                "Pass oplib.empty(0) to have one made that fits."
            )
    if modes.grad_enabled and any(map(has_required_grad, (*values, *outs))):
        raise refuse_out_gradient(f"{name}()")
    with no_grad():
        result = call()
        results = tuple(result) if isinstance(result, tuple) else (result,)
        if len(results) != len(outs):
            raise ArgumentTypeError(
                f"{name}: argument 'out' has one tensor for each result. Got {len(outs)} for {len(results)}. "
                "Give a tuple of as many."
            )
        for one, made in zip(outs, results, strict=True):
            _write(name, one, made)
    return out


def _write(name: str, out: Tensor, made: Any) -> None:
    array = made._storage.array if isinstance(made, Tensor) else jnp.asarray(made)
    spec = out._storage.spec
    refuse_cast(name, array.dtype, spec.dtype)
    check_may_write(out, name)
    refuse_escape(array, out, name)
    if array.shape != spec.shape:
        _resize(name, out, array)
    out._storage.write(array.astype(spec.dtype))
    note_write(out)


def _resize(name: str, out: Tensor, array: Any) -> None:
    """Warns, as torch does, where a tensor with items gets another shape."""
    spec = out._storage.spec
    if isinstance(spec, ViewStorage):
        raise ArgumentError(
            f"{name}: argument 'out' is a view and cannot get another shape. Got {describe(spec)} for "
            f"{describe(array)}. Give a view of the shape of the result."
        )
    if spec.size:
        warnings.warn(
            f"{name}: An output with one or more elements was resized since it had shape {list(spec.shape)}, "
            f"which does not match the required output shape {list(array.shape)}. Give out= a tensor of that "
            "shape, or one without items.",
            stacklevel=5,
        )
