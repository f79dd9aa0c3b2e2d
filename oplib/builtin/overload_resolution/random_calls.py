"""The calls of random ops: the choice of the overload, and the errors of parameters out of range.

Parameters are checked here, where they are numbers: in a kernel they are operands. Traced values are not
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.builtin.rows.choice import OverloadChoice
from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError
from oplib.library import OpOverload
from oplib.library.arguments.recording import unbox
from oplib.tensor import Generator, randn
from oplib.tensor.dtypes.rules import COMPLEX, FLOATING

Overloads = Mapping[str, OpOverload]
_NUMBERS = (bool, int, float, np.number)


def check_probability(p: Any) -> None:
    """Raises where a number, or an item of a tensor, is no probability.

    Raises:
        ArgumentError: there is one.
        UnsupportedDtypeError: a tensor of probabilities is not floating.
    """
    if isinstance(p, _NUMBERS):
        if not 0 <= p <= 1:
            raise ArgumentError(f"expects p to be in [0, 1], but got p={p}", "Give a probability.")
        return
    if getattr(p, "dtype", None) not in FLOATING:
        raise UnsupportedDtypeError("probabilities are floating numbers", "Convert them: tensor.to(dtype).")
    values = _read(p)
    if values is not None and not bool(((values >= 0) & (values <= 1)).all()):
        raise ArgumentError(
            "Expected p_in >= 0 && p_in <= 1 for all probabilities, but got "
            f"{_find(values, ~((values >= 0) & (values <= 1)))}",
            "Give probabilities.",
        )


def _read(tensor: Any) -> Any:
    """The items of a floating tensor; None where they are traced, or of another dtype."""
    array = unbox(tensor)
    if isinstance(array, Tracer) or getattr(array, "dtype", None) not in FLOATING:
        return None
    return np.asarray(array)


def _find(values: Any, is_wrong: Any) -> Any:
    return values[is_wrong].flat[0]


def choose_bernoulli(overloads: Overloads) -> OverloadChoice:
    """Makes ``bernoulli(input)``, whose items are the probabilities, and ``bernoulli(input, p)``."""
    own, by_number = overloads["bernoulli"], overloads["bernoulli.p"]

    def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None) -> Any:
        check_probability(input if p is None else p)
        if p is None:
            return own.call(input, generator=generator)
        return by_number.call(input, p, generator=generator)

    return OverloadChoice(bernoulli)


def choose_multinomial(overloads: Overloads) -> OverloadChoice:
    """Makes ``multinomial(input, num_samples, replacement=False)``, which looks at the weights."""
    op = overloads["multinomial"]

    def multinomial(
        input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Any:
        _check_weights(input)
        return op.call(input, num_samples, replacement, generator=generator)

    return OverloadChoice(multinomial)


def _check_weights(weights: Any) -> None:
    values = _read(weights)
    if values is None or not values.size:
        return
    is_wrong = ~(np.isfinite(values) & (values >= 0))
    if is_wrong.any():
        raise ArgumentError(
            "probability tensor contains either `inf`, `nan` or element < 0, such as "
            f"{_find(values, is_wrong)}",
            "Weights are finite, and 0 or more.",
        )
    if values.ndim and not (values > 0).any(axis=-1).all():
        raise ArgumentError(
            "invalid multinomial distribution (sum of probabilities <= 0)",
            "Give each row a weight that is more than 0.",
        )


def choose_poisson(overloads: Overloads) -> OverloadChoice:
    """Makes ``poisson(input)``, which looks at the rates."""
    op = overloads["poisson"]

    def poisson(input: Any, generator: Generator | None = None) -> Any:
        values = _read(input)
        if values is not None and values.size and not (values >= 0).all():
            raise ArgumentError(
                "invalid Poisson rate, expected rate to be non-negative, but got "
                f"{_find(values, ~(values >= 0))}",
                "Give rates of 0 or more.",
            )
        return op.call(input, generator=generator)

    return OverloadChoice(poisson)


def choose_normal(overloads: Overloads) -> OverloadChoice:
    """Makes ``normal(mean, std)``, of which either may be a tensor, and ``normal(mean, std, size)``."""
    of_tensors, of_mean = overloads["normal.Tensor_Tensor"], overloads["normal.Tensor_float"]
    of_std = overloads["normal.float_Tensor"]

    def normal(
        mean: Any = 0.0,
        std: Any = 1.0,
        size: Any = None,
        *,
        generator: Generator | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        check_deviation(std)
        if isinstance(mean, _NUMBERS) and isinstance(std, _NUMBERS):
            drawn = randn(_require_size(size), generator=generator, dtype=dtype, device=device)
            return (drawn * float(std) + float(mean)).requires_grad_(requires_grad)
        if (size, dtype, device, requires_grad) != (None, None, None, False):
            raise ArgumentTypeError(
                "received an invalid combination of arguments: a tensor, and size, dtype, device or "
                "requires_grad",
                "Leave these out: they are those of the tensor.",
            )
        if isinstance(std, _NUMBERS):
            return of_mean.call(mean, float(std), generator=generator)
        if isinstance(mean, _NUMBERS):
            return of_std.call(float(mean), std, generator=generator)
        return of_tensors.call(mean, std, generator=generator)

    return OverloadChoice(normal)


def _require_size(size: Any) -> Any:
    if size is None:
        raise ArgumentTypeError(
            "received an invalid combination of arguments: two numbers, and no size", "Give one."
        )
    return size


def check_deviation(std: Any) -> None:
    """Raises where a number, or an item of a tensor, is no standard deviation.

    Raises:
        ArgumentError: there is one.
    """
    if isinstance(std, _NUMBERS):
        if not std >= 0:
            raise ArgumentError(f"expects std >= 0.0, but found std {std}", "Give the root of a variance.")
        return
    if getattr(std, "dtype", None) in COMPLEX:
        raise ArgumentError("expects standard deviation to be non-complex", "Take its real part.")
    values = _read(std)
    if values is not None and not (values >= 0).all():
        raise ArgumentError(
            f"expects all elements of std >= 0.0, but found {_find(values, ~(values >= 0))}",
            "Give the roots of variances.",
        )


OF_RANDOM: dict[str, Callable[[Overloads], OverloadChoice]] = {
    "bernoulli": choose_bernoulli,
    "multinomial": choose_multinomial,
    "normal": choose_normal,
    "poisson": choose_poisson,
}
