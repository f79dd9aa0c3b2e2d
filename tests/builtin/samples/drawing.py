"""Building blocks of samples: arrays whose values are far from kinks and ties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES = [(), (3,), (2, 3), (2, 0)]


@dataclass(frozen=True)
class Sample:
    """The arguments of one call; numpy arrays and lists of them become tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [*map(show, self.args), *(f"{name}={show(value)}" for name, value in self.kwargs.items())]
        return ", ".join(given)


def show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.kind}{list(value.shape)}"
    return f"[{', '.join(map(show, value))}]" if isinstance(value, list) else str(value)


def draw(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Returns distinct values, at least a hundredth apart and away from 0, in a fixed order."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(count + len(shape))
    spread = np.linspace(low, high, count + 2)[1:-1] + 0.0137
    return np.asarray(rng.permutation(spread).reshape(shape))


def shift(array: np.ndarray) -> np.ndarray:
    """Returns other values in the same shape; an array without axes stays an array."""
    return np.asarray(array + 0.0031)


def draw_mask(*shape: int) -> np.ndarray:
    return draw(*shape) > 0.1


def draw_places(*shape: int, below: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, below, shape).astype(np.int32)


def unary(**limits: float) -> list[Sample]:
    return [Sample((draw(*shape, **limits),)) for shape in SHAPES]


PAIRS = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2,)),
    ((), ()),
    ((2, 3), (2, 1, 1)),
    ((0, 3), (3,)),
]


def binary(**limits: float) -> list[Sample]:
    """Returns pairs of shapes that broadcast; the second operand is shifted, so no two items are equal."""
    return [Sample((draw(*first, **limits), shift(draw(*second, **limits)))) for first, second in PAIRS]


def with_number(number: float = 1.7, **limits: float) -> list[Sample]:
    return [Sample((draw(*shape, **limits), number)) for shape in SHAPES]


POSITIVE = {"low": 0.2, "high": 3.0}
NOT_ZERO = {"low": 0.4, "high": 2.0}
X = draw(2, 3)


def list_arrays(sample: Sample) -> Iterator[np.ndarray]:
    """Yields the tensors of a sample, flat."""
    for value in (*sample.args, *sample.kwargs.values()):
        for member in value if isinstance(value, list) else [value]:
            if isinstance(member, np.ndarray):
                yield member


def to_complex(sample: Sample) -> Sample:
    """Returns the sample with complex numbers: the imaginary parts are the real parts in another order.

    Symmetric matrices become hermitian, as their ops require.
    """

    def turn(value: Any) -> Any:
        if isinstance(value, list):
            return [turn(member) for member in value]
        if isinstance(value, np.dtype) and value.kind == "f":
            return np.dtype(np.complex128)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return value
        other = shift(np.random.default_rng(11).permutation(value.ravel()).reshape(value.shape))
        if value.size == 1:
            other = other + 0.5  # a single number is drawn near 0, where many functions have a kink or a pole
        if value.ndim == 2 and value.size > 1 and np.array_equal(value, value.T):
            other = 0.2 * (other - other.T)
        turned = np.empty(value.shape, np.complex128)  # a product with 1j would turn infinity into nan
        turned.real, turned.imag = value, other
        return turned

    return Sample(tuple(map(turn, sample.args)), {name: turn(value) for name, value in sample.kwargs.items()})
