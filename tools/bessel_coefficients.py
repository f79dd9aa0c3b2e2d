"""Writes the polynomials that approximate Bessel and Airy functions: ``python -m tools.bessel_coefficients``.

mpmath evaluates each function in 40 digits at Chebyshev's points of an interval. The polynomial through these
points is cut where its Chebyshev coefficients fall below double precision, and is then written in powers of
t, which goes from -1 to 1 on the interval. The polynomials are chosen such that no large powers cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

PATH = Path("oplib/builtin/shared_kernels/bessel_coefficients.txt")
POINTS = 48
EDGE = 8
"""Where the expansions for large arguments of the ordinary Bessel functions begin."""

Function = Callable[[Any], Any]


def fit(function: Function, low: float, high: float) -> list[float]:
    """Returns the powers of t of a polynomial that approximates a function; the highest come first."""
    angles = [mp.pi * (2 * place + 1) / (2 * POINTS) for place in range(POINTS)]
    middle, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
    values = [function(middle + half * mp.cos(angle)) for angle in angles]
    pairs = list(zip(values, angles, strict=True))
    found = [2 * sum(value * mp.cos(k * angle) for value, angle in pairs) / POINTS for k in range(POINTS)]
    found[0] /= 2
    least = mp.mpf(2) ** -55 * max(map(abs, found))
    while abs(found[-1]) < least:
        found.pop()
    return [float(number) for number in reversed(to_powers(found))]


def to_powers(chebyshev: list[Any]) -> list[Any]:
    """Converts a sum of Chebyshev polynomials into powers, the lowest first."""
    powers = [mp.mpf(0)] * len(chebyshev)
    now, after = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for factor in chebyshev:
        for place, number in enumerate(now):
            powers[place] += factor * number
        shifted = [mp.mpf(0), *(2 * number for number in after)]
        now, after = after, [one - other for one, other in zip(shifted, [*now, 0, 0], strict=True)]
    return powers


def make_ordinary(order: int) -> dict[str, list[float]]:
    """Fits J and Y of an order below 8, and the slowly varying parts P and Q of both above it."""
    zeros = [mp.besseljzero(order, place) for place in (1, 2)]

    def first(square: Any) -> Any:
        x = mp.sqrt(square)
        return mp.besselj(order, x) / x**order / ((square - zeros[0] ** 2) * (square - zeros[1] ** 2))

    def second(square: Any) -> Any:
        x = mp.sqrt(square)
        pole = order / x
        part = mp.bessely(order, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(order, x) - pole)
        return part / x**order

    def wave(share: Any) -> tuple[Any, Any]:
        x = EDGE / mp.sqrt(share)
        angle, size = x - (2 * order + 1) * mp.pi / 4, mp.sqrt(mp.pi * x / 2)
        j, y = size * mp.besselj(order, x), size * mp.bessely(order, x)
        return j * mp.cos(angle) + y * mp.sin(angle), x * (y * mp.cos(angle) - j * mp.sin(angle))

    return {
        f"J{order}": fit(first, 0, EDGE**2),
        f"Y{order}": fit(second, 0, EDGE**2),
        f"P{order}": fit(lambda share: wave(share)[0], 0, 1),
        f"Q{order}": fit(lambda share: wave(share)[1], 0, 1),
        f"ZEROS{order}": [part for zero in zeros for part in split(zero)],
    }


def split(number: Any) -> tuple[float, float]:
    """Splits a number into one that single precision holds, and the rest."""
    high = float(mp.nint(number * 2**20) / 2**20)
    return high, float(number - high)


def make_modified(order: int) -> dict[str, list[float]]:
    """Fits K of an order below 2 and above it."""

    def near(square: Any) -> Any:
        x = mp.sqrt(square)
        if order:
            return (mp.besselk(1, x) - 1 / x - mp.log(x) * mp.besseli(1, x)) / x
        return mp.besselk(0, x) + mp.log(x) * mp.besseli(0, x)

    def far(share: Any) -> Any:
        x = 2 / share
        return mp.besselk(order, x) * mp.exp(x) * mp.sqrt(x)

    return {f"K{order}_NEAR": fit(near, 0, 4), f"K{order}_FAR": fit(far, 0, 1)}


def make_airy() -> dict[str, list[float]]:
    """Fits Ai from -4 to -1.5, from there to 1.5, and its slowly varying parts outside."""
    zeros = [mp.airyaizero(place) for place in (1, 2)]

    def find_size(phase: Any) -> Any:
        return (phase * 3 / 2) ** (mp.mpf(2) / 3)

    def high(share: Any) -> Any:
        phase = mp.mpf(1.5) ** 1.5 * 2 / 3 / share
        x = find_size(phase)
        return mp.airyai(x) * mp.exp(phase) * mp.root(x, 4)

    def low(share: Any) -> tuple[Any, Any]:
        phase = mp.mpf(16) / 3 / mp.sqrt(share)
        x, angle = find_size(phase), phase - mp.pi / 4
        a, b = (mp.root(x, 4) * value for value in (mp.airyai(-x), mp.airybi(-x)))
        return a * mp.cos(angle) - b * mp.sin(angle), phase * (a * mp.sin(angle) + b * mp.cos(angle))

    return {
        "AI_BELOW": fit(lambda x: mp.airyai(x) / ((x - zeros[0]) * (x - zeros[1])), -4, -1.5),
        "AI_NEAR": fit(mp.airyai, -1.5, 1.5),
        "AI_HIGH": fit(high, 0, 1),
        "AI_P": fit(lambda share: low(share)[0], 0, 1),
        "AI_Q": fit(lambda share: low(share)[1], 0, 1),
        "AI_ZEROS": [part for zero in zeros for part in split(zero)],
    }


def make_text() -> str:
    """Returns the text of the file: each name, and below it its numbers, the highest power first."""
    tables: dict[str, list[float]] = {}
    with mp.workdps(40):
        for order in (0, 1):
            tables |= make_ordinary(order) | make_modified(order)
        tables |= make_airy()
    return "".join(f"{name}\n{_list(numbers)}\n" for name, numbers in sorted(tables.items()))


def _list(numbers: list[float]) -> str:
    rows = [numbers[start : start + 4] for start in range(0, len(numbers), 4)]
    return "\n".join(f"  {' '.join(map(repr, row))}" for row in rows)


if __name__ == "__main__":
    PATH.write_text(make_text(), encoding="utf-8")
