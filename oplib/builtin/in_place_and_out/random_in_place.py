"""Filling tensors with random numbers, in place: each form looks at its parameters, and then runs its op.

The gradient of what was there is zero: the numbers do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from oplib.autograd.recording.in_place import check_may_write, write_in_place
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.overload_resolution.random_calls import check_deviation, check_probability
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError, describe
from oplib.library.op_objects.namespace import ops as namespaces
from oplib.tensor import Generator, box
from oplib.tensor.dtypes.rules import COMPLEX
from oplib.tensor.random.sampling import draw_integers, find_last_integer


def _fill(op: Function, name: str, input: Any, numbers: Sequence[Any], *, generator: Any) -> Any:
    require_tensor_to_write(input, name)
    check_may_write(input, name, numbers)
    return write_in_place(input, op(input, *numbers, generator=generator), name)


def uniform_(input: Any, *bounds: float, generator: Generator | None = None, **named: float) -> Any:
    """Fills a tensor with numbers drawn uniformly from ``[from, to)``, by default ``[0, 1)``.

    Args:
        input: the tensor, of a floating or complex dtype; it is returned.
        *bounds: ``from`` and ``to``.
        generator: where the randomness comes from; by default the global Generator.
        **named: the same by name.

    Raises:
        ArgumentError: ``to`` is less than ``from``, or the dtype has no such finite numbers.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> (oplib.zeros(2).uniform_(1, 2) >= 1).all()
        tensor(True)
    """
    low, high = _read_pair({"from": 0.0, "to": 1.0}, bounds, named)
    require_tensor_to_write(input, "uniform_")
    largest = float(jnp.finfo(input.dtype).max) if jnp.issubdtype(input.dtype, jnp.inexact) else math.inf
    if not all(abs(number) <= largest for number in (low, high, high - low)):
        raise ArgumentError(
            f"expects from, to and to - from to be finite in {input.dtype}, but found from={low}, to={high}",
            "Give bounds that are.",
        )
    if low > high:
        raise ArgumentError(
            f"expects to return a [from, to) range, but found from={low} > to={high}", "Exchange them."
        )
    return _fill(ops.uniform, "uniform_", input, (low, high), generator=generator)


def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with numbers of a normal distribution.

    Args:
        input: the tensor, of a floating or complex dtype; it is returned.
        mean: of the distribution.
        std: its standard deviation.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: a negative ``std``.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> oplib.zeros(2).normal_(3.0, 1e-9)
        tensor([3., 3.])
    """
    check_deviation(std)
    return _fill(ops.normal_functional, "normal_", input, (mean, std), generator=generator)


def bernoulli_(input: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with ones, with probability ``p``, and zeros.

    Args:
        input: the tensor; it is returned.
        p: a number, or a floating tensor of probabilities that broadcasts to the shape.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: what is no probability, or does not broadcast.
        UnsupportedDtypeError: a complex tensor, or probabilities that are not floating.

    Example:
        >>> import oplib
        >>> oplib.zeros(3).bernoulli_(1.0)
        tensor([1., 1., 1.])
    """
    check_probability(p)
    bernoulli = namespaces.oplib.bernoulli
    op = bernoulli.p if isinstance(p, (int, float)) else bernoulli.Tensor
    return _fill(op, "bernoulli_", input, (p,), generator=generator)


def exponential_(input: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with numbers, all more than 0, of an exponential distribution of rate ``lambd``.

    Args:
        input: the tensor, of a floating dtype; it is returned.
        lambd: the rate, one through the mean.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: a rate that is not more than 0.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> (oplib.zeros(2).exponential_() >= 0).all()
        tensor(True)
    """
    _check_positive("lambda", lambd)
    return _fill(ops.exponential, "exponential_", input, (lambd,), generator=generator)


def log_normal_(
    input: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Any:
    """Fills a tensor with numbers whose logarithms are normally distributed.

    Args:
        input: the tensor, of a floating dtype; it is returned.
        mean: of the logarithms.
        std: their standard deviation.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: a ``std`` that is not more than 0.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> (oplib.zeros(2).log_normal_() > 0).all()
        tensor(True)
    """
    _check_positive("std", std)
    return _fill(ops.log_normal, "log_normal_", input, (mean, std), generator=generator)


def geometric_(input: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with how many throws it takes until one succeeds, each with probability ``p``.

    Args:
        input: the tensor, of an integer or floating dtype; it is returned.
        p: more than 0 and less than 1.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: another ``p``.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> (oplib.zeros(2).geometric_(0.5) >= 1).all()
        tensor(True)
    """
    if not 0 < p < 1:
        raise ArgumentError(f"expects p to be in (0, 1), but got p={p}", "Give one between.")
    return _fill(ops.geometric, "geometric_", input, (p,), generator=generator)


def cauchy_(
    input: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Any:
    """Fills a tensor with numbers of Cauchy's distribution.

    Args:
        input: the tensor, of a floating dtype; it is returned.
        median: of the distribution.
        sigma: half of its width at half of its height.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: a ``sigma`` that is not more than 0.
        UnsupportedDtypeError: another dtype.

    Example:
        >>> import oplib
        >>> oplib.zeros(2).cauchy_().shape
        (2,)
    """
    _check_positive("sigma", sigma)
    return _fill(ops.cauchy, "cauchy_", input, (median, sigma), generator=generator)


def random_(input: Any, *bounds: int | None, generator: Generator | None = None, **named: int | None) -> Any:
    """Fills a tensor with integers: ``random_()``, ``random_(to)`` or ``random_(from, to)``.

    Args:
        input: the tensor, of any dtype that is not complex; it is returned.
        *bounds: the lowest number (0 if left out), and the first that is too high; None, or leaving it out,
            stands for as far as the dtype tells integers apart.
        generator: where the randomness comes from; by default the global Generator.
        **named: ``from`` and ``to``.

    Raises:
        ArgumentTypeError: bounds that are no integers.
        ArgumentError: no number lies between them, or the dtype does not hold them.
        UnsupportedDtypeError: a complex dtype.

    Example:
        >>> import oplib
        >>> (oplib.zeros(2).random_(3) < 3).all()
        tensor(True)
    """
    is_upper = len(bounds) == 1 and "to" not in named
    defaults = {"to": None, "from": 0} if is_upper else {"from": 0, "to": None}
    pair = _read_pair(defaults, bounds, named)
    low, high = reversed(pair) if is_upper else pair
    if not all(bound is None or isinstance(bound, int) for bound in (low, high)):
        raise ArgumentTypeError(f"bounds are integers, but found {low} and {high}", "Convert them.")
    require_tensor_to_write(input, "random_")
    check_may_write(input, "random_")
    spec = input._storage.spec
    if spec.dtype in COMPLEX:
        raise UnsupportedDtypeError("not implemented for complex numbers", "Use normal_ or uniform_.")
    high = find_last_integer(spec.dtype) + 1 if high is None else high
    drawn = draw_integers("random_", tuple(spec.shape), (low or 0, high), spec.dtype, generator=generator)
    return input.copy_(box(drawn))


def _read_pair(defaults: dict[str, Any], given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Any]:
    """Reads two numbers of which one has a name that is no name in Python."""
    values = dict(zip(defaults, given, strict=False)) | dict(named)
    if len(given) > 2 or not set(values) <= set(defaults):
        raise ArgumentTypeError(
            f"it takes {' and '.join(defaults)}, but got {describe(list(given))} and {describe(dict(named))}",
            "Give these two, by place or by name.",
        )
    first, second = (defaults | values).values()
    return first, second


def _check_positive(name: str, number: float) -> None:
    if not number > 0:
        raise ArgumentError(
            f"expects {name} > 0.0, but found {name}={number}", "Give one that is more than 0."
        )


FILLING = {
    function.__name__: function
    for function in (bernoulli_, cauchy_, exponential_, geometric_, log_normal_, normal_, random_, uniform_)
}
