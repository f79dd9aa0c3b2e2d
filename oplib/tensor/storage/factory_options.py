"""The options that all factories take: they are read here, and described here for the docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from oplib.docstrings import complete_docstring
from oplib.errors import ArgumentTypeError, UnsupportedArgumentError, describe
from oplib.tensor.devices.placement import Placement, find_placement, placement_like
from oplib.tensor.dtypes.rules import get_default_dtype, normalize_dtype
from oplib.tracebacks import entry_point

from .memory_format import check_format, strided

P = ParamSpec("P")
R = TypeVar("R")


class FactoryOptions(TypedDict, total=False):
    """The options of a factory. Those about memory change nothing.

    Attributes:
        dtype: the dtype of the result.
        device: a Device or its spelling, a ``jax.Device`` or a ``Sharding``.
        requires_grad: whether the result collects gradients.
        layout: ``oplib.strided``.
        pin_memory: False.
        memory_format: any format that fits the number of dimensions.
    """

    dtype: Any
    device: Any
    requires_grad: bool
    layout: Any
    pin_memory: bool
    memory_format: Any


ReadOptions: TypeAlias = tuple[np.dtype[Any], Placement, bool]  # dtype, placement, requires_grad
_PARAMETERS = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=False if kind is bool else None, annotation=kind.__name__)
    for name, kind in get_type_hints(FactoryOptions).items()
]
_COMMON = frozenset({"dtype", "device", "requires_grad"})
_SIZES = {
    "*sizes": "the shape, as integers or as one sequence.",
    "size": "the shape as one sequence, by keyword.",
}
_MODEL = {"input": "the tensor or array to copy them from. Its history does not matter."}
_GENERATOR = {
    "generator": "the source of random numbers, a Generator or a key; by default the global Generator."
}
_OPTIONS = {
    "dtype": "by default the default dtype.",
    "device": "a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.",
    "requires_grad": "whether the result collects gradients.",
    "layout, pin_memory, memory_format": "torch's options of memory, which change nothing.",
}
_OPTIONS_LIKE = {
    "dtype": "by default the dtype of ``input``.",
    "device": "by default the device of ``input``.",
}


def list_options(function: Callable[P, R]) -> Callable[P, R]:
    """Gives a function a signature with the options by name, in place of its ``**options``."""
    signature = inspect.signature(function)
    *own, _ = signature.parameters.values()
    function.__signature__ = signature.replace(parameters=[*own, *_PARAMETERS])
    return function


def factory(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a factory as an entry point, and completes its docstring.

    Args:
        function: the factory, with its public name. Its docstring describes the parameters and errors that
            other factories do not have.
    """
    parameters = inspect.signature(function).parameters
    is_like, is_random = "input" in parameters, "generator" in parameters
    raised = ["DtypeError: the dtype is not available.", "DeviceError: the device does not exist."]
    arguments = _OPTIONS | _OPTIONS_LIKE | _MODEL if is_like else dict(_OPTIONS)
    if "sizes" in parameters:
        arguments |= _SIZES
        wrong = "the size has a value that is not an integer or is negative, or is given twice."
        raised.insert(0, f"ArgumentError: {wrong}")
    if is_like:
        raised.insert(0, "ArgumentTypeError: ``input`` is neither a tensor nor an array.")
    if is_random:
        arguments |= _GENERATOR
        raised.append("TracingError: the Generator was made outside the current trace.")
    lacks = "the result does not depend on ``input``" if is_like else "no input is differentiable"
    function.__doc__ = complete_docstring(
        function.__doc__ or "",
        arguments,
        order=(*parameters, *_OPTIONS),
        Returns="A new leaf.",
        Raises="\n".join(raised),
        Gradient=f"None: {lacks}.",
        Source=f"torch.{function.__name__}" + ("; the numbers are JAX's." if is_random else ""),
    )
    return entry_point(list_options(function))


def check_options(op: str, options: FactoryOptions, rank: int) -> None:
    """Checks the names of the options of a factory, and those about memory.

    Raises:
        ArgumentTypeError: it does not take an option, or an option has another type.
        UnsupportedArgumentError: pinned memory is asked for.
        ArgumentError: the format needs another number of dimensions.
    """
    if options.keys() <= _COMMON:
        return
    for name in options.keys() - FactoryOptions.__annotations__.keys():
        advice = "Write generator=" if name in ("key", "rng") else "Leave it out"
        raise ArgumentTypeError(
            f"{op}() got an unexpected keyword argument {name!r}. Got {describe(options[name])}. {advice}."
        )
    layout = options.get("layout")
    if layout is not None and layout is not strided:
        raise ArgumentTypeError(
            f"{op}: argument 'layout' is oplib.strided. Got {describe(layout)}. There are no other tensors."
        )
    if options.get("pin_memory"):
        raise UnsupportedArgumentError(
            f"{op}: there is no pinned memory. Got pin_memory=True. Leave it out; jax.device_put copies "
            "asynchronously."
        )
    check_format(op, options.get("memory_format"), rank)


def read_options(
    op: str, options: FactoryOptions, rank: int, default: Callable[[], np.dtype[Any]] = get_default_dtype
) -> ReadOptions:
    """Returns the dtype and placement of the result of a factory, and whether it requires grad.

    Raises:
        ArgumentTypeError: there is no such option, or it has another type.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.
    """
    if not options:
        return default(), None, False
    check_options(op, options, rank)
    dtype, device = options.get("dtype"), options.get("device")
    normalized = default() if dtype is None else normalize_dtype(dtype)
    return normalized, None if device is None else find_placement(device), options.get("requires_grad", False)


def read_options_like(op: str, input: Any, options: FactoryOptions) -> tuple[Any, ReadOptions]:  # noqa: A002  torch's name
    """Returns the array of a tensor, and the options of a factory that makes another like it.

    Raises:
        ArgumentTypeError: ``input`` is neither a tensor nor an array, or an option does not exist.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.
    """
    array = input._storage.array if hasattr(input, "_storage") else input
    if not hasattr(array, "dtype"):
        raise ArgumentTypeError(
            f"{op}: argument 'input' is a Tensor or an array. Got {describe(input)}. Make one of it: "
            f"oplib.tensor(...), or call {op.removesuffix('_like')}."
        )
    check_options(op, options, array.ndim)
    dtype = options.get("dtype")
    array = array if isinstance(array, jax.Array) else jnp.asarray(array)
    normalized = array.dtype if dtype is None else normalize_dtype(dtype)
    placement = placement_like(array, options.get("device"))
    return array, (normalized, placement, options.get("requires_grad", False))
