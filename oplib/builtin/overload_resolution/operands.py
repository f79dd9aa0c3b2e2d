"""Functions of ops that take a tensor or a number in one place: which overload a call means.

The common cases are told by the class of one operand, since these functions stand on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from jax.core import Tracer

from oplib.builtin.argument_checks.stored_numbers import LEAST, check_factor, check_fits, check_numbers_fit
from oplib.builtin.composed.data_dependent import find_indices
from oplib.builtin.rows.choice import OverloadChoice
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.library import OpOverload
from oplib.library.arguments.recording import unbox
from oplib.library.arguments.scalars import is_narrow
from oplib.library.dispatch.inlined_overloads import Branch, when_number, when_tensor
from oplib.tensor import Tensor
from oplib.tensor.devices.layout import replicate_on_mesh
from oplib.tensor.storage.fresh import get_owner_array
from oplib.tensor.storage.ingestion import to_array

Overloads = Mapping[str, OpOverload]
Chooser = Callable[[Overloads], OverloadChoice]
NUMBERS = (float, int, complex)
_OF_NUMPY = (np.generic, np.ndarray)


def take_operand(value: Any) -> Any:
    """Returns numpy's numbers as Python's, as torch counts them, and numpy's arrays as JAX's, checked."""
    if not isinstance(value, _OF_NUMPY):
        return value
    return value.item() if isinstance(value, np.generic) else to_array(value, None, None)


def take_quotient_operand(value: Any) -> Any:
    """Returns the operand of a division for a value, see :func:`take_operand`."""
    operand = take_operand(value)
    return float(operand) if is_wide(operand) else operand


def when_small(index: int) -> str:
    """Returns the test of whether a parameter is a Python number that every dtype holds."""
    return f"{when_number(index)} and {-LEAST} < {{{index}}} < {LEAST}"


def choose_comparison(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``f(input, other)`` of a comparison, where ``other`` may be a number, however large."""
    on_tensor, on_number = overloads[f"{name}.Tensor"], overloads[f"{name}.Scalar"]
    always = {True: overloads["eq.Tensor"], False: overloads["ne.Tensor"]}  # of an item with itself

    def function(input: Any, other: Any) -> Any:
        other = take_operand(other)
        if not isinstance(other, NUMBERS):
            return on_tensor.call(input, other)
        answer = compare_with_wide(name, input, other) if is_wide(other) else None
        return on_number.call(input, other) if answer is None else always[answer].call(input, input)

    return OverloadChoice(function, Branch(when_number(1), on_number), Branch("", on_tensor))


def choose_scaled(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``f(input, other, *, alpha=1)`` of ``add`` and ``sub``."""
    on_tensor, on_number, scaled = (overloads[f"{name}.{kind}"] for kind in ("Tensor", "Scalar", "scaled"))

    def function(input: Any, other: Any, *, alpha: Any = 1) -> Any:
        other = take_operand(other)
        is_one = isinstance(alpha, NUMBERS) and alpha == 1  # a traced number has no value to compare
        if isinstance(other, NUMBERS):
            if not is_one:
                check_factor(name, alpha, input, other)
            return on_number.call(input, other if is_one else other * alpha)
        return on_tensor.call(input, other) if is_one else scaled.call(input, other, alpha=alpha)

    return OverloadChoice(
        function,
        Branch(when_number(1), on_number, (0, 1)),
        Branch("", on_tensor, (0, 1)),
        Branch(f"{when_tensor(1)} and {when_number(2)}", scaled),
    )


def choose_combined(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``f(input, tensor1, tensor2, *, value=1)`` of ``addcmul`` and ``addcdiv``."""
    unscaled, scaled = overloads[f"{name}.unscaled"], overloads[name]

    def function(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        if value.__class__ is int and value == 1:
            return unscaled.call(input, tensor1, tensor2)
        return scaled.call(input, tensor1, tensor2, value=value)

    return OverloadChoice(function, Branch("", unscaled, (0, 1, 2)), Branch(when_number(3), scaled))


def choose_div(overloads: Overloads) -> OverloadChoice:
    """Makes ``div(input, other, *, rounding_mode=None)``."""
    exact = {True: overloads["div.Scalar"], False: overloads["div.Tensor"]}
    rounded = {True: overloads["div.Scalar_mode"], False: overloads["div.Tensor_mode"]}

    def function(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
        other = take_quotient_operand(other) if rounding_mode is None else take_operand(other)
        is_number = isinstance(other, NUMBERS)
        if rounding_mode is None:
            return exact[is_number].call(input, other)
        return rounded[is_number].call(input, other, rounding_mode=rounding_mode)

    return OverloadChoice(
        function,
        Branch(when_number(1), exact[True], (0, 1)),
        Branch("", exact[False], (0, 1)),
        Branch(when_tensor(1), rounded[False]),
        Branch(when_number(1), rounded[True]),
    )


def choose_clamp(overloads: Overloads) -> OverloadChoice:
    """Makes ``clamp(input, min=None, max=None)``, where the bounds are two numbers or two tensors."""
    by_kind = {
        kind == "Scalar": tuple(overloads[f"{name}.{kind}"] for name in ("clamp", "clamp_min", "clamp_max"))
        for kind in ("Scalar", "Tensor")
    }

    def function(input: Any, min: Any = None, max: Any = None) -> Any:
        low, high = take_operand(min), take_operand(max)
        if low is None and high is None:
            raise ArgumentError(
                f"clamp: at least one of 'min' or 'max' must not be None. Got {describe(input)} and neither. "
                f"Give a bound."
            )
        check_numbers_fit("clamp", input, low, high)
        is_number = isinstance(high if low is None else low, NUMBERS)
        both, at_least, at_most = by_kind[is_number]
        if high is None:
            return at_least.call(input, low)
        if low is None:
            return at_most.call(input, high)
        if isinstance(high, NUMBERS) is not is_number:
            raise ArgumentTypeError(
                f"clamp: the bounds are two numbers or two tensors. Got {describe(min)} and {describe(max)}. "
                f"Make the number a tensor: oplib.tensor(number)."
            )
        return both.call(input, low, high)

    numbers, tensors = by_kind[True], by_kind[False]
    return OverloadChoice(
        function,
        Branch(f"{when_small(1)} and {when_small(2)}", numbers[0]),
        Branch(when_small(1), numbers[1], (0, 1)),
        Branch(when_small(2), numbers[2], (0, 2)),
        Branch(f"{when_tensor(1)} and {when_tensor(2)}", tensors[0]),
    )


def choose_reversed(
    name: str, of: str, overloads: Overloads, *, read: Function = take_operand
) -> OverloadChoice:
    """Makes ``f(input, other)`` which computes ``other op input``, by the function of the op ``of``."""
    on_number = overloads[f"{name}.Scalar"]

    def function(input: Any, other: Any) -> Any:
        other = read(other)
        on_tensor = getattr(ops, of)
        return on_number.call(input, other) if isinstance(other, NUMBERS) else on_tensor(other, input)

    return OverloadChoice(function, Branch(when_number(1), on_number))


_SMALL = frozenset({-2, -1, 0, 1, 2, 3, 4})


def choose_pow(overloads: Overloads) -> OverloadChoice:
    """Makes ``pow(input, exponent)``: small integers are static, since multiplying is faster than a power."""
    on_tensors, on_scalar = overloads["pow.Tensor_Tensor"], overloads["pow.Tensor_Scalar"]
    on_int, of_number = overloads["pow.Tensor_int"], overloads["pow.Scalar"]

    def function(input: Any, exponent: Any) -> Any:
        input = take_operand(input)  # noqa: A001
        exponent = take_operand(exponent)
        if isinstance(input, NUMBERS):
            return of_number.call(input, exponent)
        if not isinstance(exponent, NUMBERS):
            return on_tensors.call(input, exponent)
        check_numbers_fit("pow", input, exponent)
        if isinstance(exponent, complex):
            return on_scalar.call(input, exponent)
        is_floating = input.dtype.kind not in "iub"
        whole = exponent.__class__ is int or (is_floating and exponent.__class__ is float)
        if whole and (exponent in _SMALL or (exponent < 0 and not is_floating)):
            return on_int.call(input, int(exponent))
        return on_scalar.call(input, exponent)

    small = f"({', '.join(map(str, sorted(_SMALL)))})"
    return OverloadChoice(
        function,
        Branch(f"{{1}}.__class__ is int and {{1}} in {small}", on_int),
        Branch(f"{{1}}.__class__ is float and {when_small(1)} and {{1}} not in {small}", on_scalar),
        Branch(f"{when_number(0)} and {when_tensor(1)}", of_number),
        Branch(when_tensor(1), on_tensors),
    )


def choose_where(overloads: Overloads) -> OverloadChoice:
    """Makes ``where(condition, input, other)``, where the last two may be numbers, or both left out."""
    by_numbers = {
        (False, False): overloads["where.self"],
        (False, True): overloads["where.ScalarOther"],
        (True, False): overloads["where.ScalarSelf"],
        (True, True): overloads["where.Scalar"],
    }

    def function(condition: Any, input: Any = None, other: Any = None) -> Any:
        if other is None and input is None:
            return find_indices(condition)
        condition, first, second = map(take_operand, (condition, input, other))
        check_numbers_fit("where", second, first)
        check_numbers_fit("where", first, second)
        are_numbers = isinstance(first, NUMBERS), isinstance(second, NUMBERS)
        return by_numbers[are_numbers].call(condition, first, second)

    return OverloadChoice(
        function,
        Branch(f"{when_number(1)} and {when_number(2)}", by_numbers[True, True]),
        Branch(when_small(1), by_numbers[True, False]),
        Branch(when_small(2), by_numbers[False, True]),
        Branch("", by_numbers[False, False]),
    )


def choose_fill(overloads: Overloads) -> OverloadChoice:
    """Makes ``fill(input, value)``, where the value may be a tensor without dimensions."""
    on_tensor, on_number = overloads["fill.Tensor"], overloads["fill.Scalar"]

    def function(input: Any, value: Any) -> Any:
        if getattr(value, "ndim", 0):
            raise ArgumentError(
                f"fill: only supports 0-dimension value tensor. Got {describe(value)}. Use copy_ for a "
                "tensor."
            )
        check_fits("fill", input, value)
        value = take_operand(value)
        return (on_number if isinstance(value, NUMBERS) else on_tensor).call(input, value)

    return OverloadChoice(function, Branch(when_small(1), on_number))


def choose_copy(overloads: Overloads) -> OverloadChoice:
    """Makes ``copy(input, src)``, where the source may be a number."""
    copy, fill = overloads["copy"], overloads["fill.Scalar"]

    def function(input: Any, src: Any, non_blocking: bool = False) -> Any:  # noqa: ARG001  JAX waits for none
        src = take_operand(src)
        if isinstance(src, Tensor):
            src = bring_over(src, input)
        return (fill if isinstance(src, NUMBERS) else copy).call(input, src)

    array = "{1}._storage.array"  # it may have to come over if it is committed
    is_free = f"{when_tensor(1)} and not (__isinstance({array}, __Tracer) or {array}.committed)"
    return OverloadChoice(function, Branch(when_number(1), fill), Branch(is_free, copy))


def bring_over(source: Tensor, target: Any) -> Tensor:
    """Returns a tensor on the devices of another one, if both are committed to different ones."""
    here = get_owner_array(source._storage)  # a read would give up a fresh buffer
    there = get_owner_array(target._storage) if isinstance(target, Tensor) else unbox(target)
    if isinstance(here, Tracer) or isinstance(there, Tracer) or not (here.committed and there.committed):
        return source
    sharding = there.sharding
    if here.sharding is sharding or here.sharding.device_set == sharding.device_set:
        return source
    return source.to(sharding if source.shape == there.shape else replicate_on_mesh(sharding) or sharding)


def choose_scatter(overloads: Overloads) -> OverloadChoice:
    """Makes ``scatter(input, dim, index, src)``, where ``src`` may be a number."""
    by_items, by_number = overloads["scatter.src"], overloads["scatter.value"]

    def function(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None) -> Any:
        items = take_operand(value if src is None else src)
        overload = by_number if isinstance(items, NUMBERS) else by_items
        check_fits("scatter", input, items)
        return overload.call(input, dim, index, items)

    return OverloadChoice(function)


OF_OPERANDS: dict[str, Chooser] = {
    "add": partial(choose_scaled, "add"),
    "sub": partial(choose_scaled, "sub"),
    "addcmul": partial(choose_combined, "addcmul"),
    "addcdiv": partial(choose_combined, "addcdiv"),
    "rsub": partial(choose_reversed, "rsub", "sub"),
    "div": choose_div,
    "rdiv": partial(choose_reversed, "rdiv", "div", read=take_quotient_operand),
    "pow": choose_pow,
    **{name: partial(choose_comparison, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "copy": choose_copy,
    "scatter": choose_scatter,
    "clamp": choose_clamp,
    "where": choose_where,
    "fill": choose_fill,
}


# Python integers that JAX's widest dtype does not hold ------------------------------------------------------

# Torch always has 64-bit integers. JAX has none without x64. A comparison still has an answer, and a division
# has the quotient as a float. The other ops refuse such integers when arguments are bound.
_LIMIT = 2**63  # torch has no larger integers


def is_wide(value: Any) -> TypeGuard[int]:
    """Tells whether a value is a 64-bit integer for which no dtype is available."""
    return value.__class__ is int and not is_narrow(value) and -_LIMIT <= value < _LIMIT


def compare_with_wide(name: str, tensor: Any, other: int) -> bool | None:
    """Returns the common result of comparing every item with a wide integer.

    Returns:
        The result; None if it depends on the item, as for floats or unsigned integers.
    """
    dtype: Any = np.dtype(getattr(tensor, "dtype", float))
    if dtype.kind not in "iub" or (dtype.kind != "b" and np.iinfo(dtype).min <= other <= np.iinfo(dtype).max):
        return None
    return {"eq": False, "ne": True, "lt": other > 0, "le": other > 0}.get(name, other < 0)
