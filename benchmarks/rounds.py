"""Paired, interleaved rounds: the same operands, the same minute, and equal disturbance of both sides."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

Clock = Callable[[], float]
TRIES = 3
LONG = 0.1  # seconds; one interruption is a small part of this


class Case:
    """One side of a comparison.

    Args:
        call: the function to time; the last result of a round is waited for, if it is an array.
        operands: the arguments of the call.
        units: the number of operations in one call; times are given per unit.
    """

    def __init__(self, call: Callable[..., Any], *operands: Any, units: int = 1) -> None:
        self.call = call
        self.operands = operands
        self.units = units

    def time(self, count: int, clock: Clock) -> float:
        """Returns the seconds of one unit, over ``count`` calls."""
        call, operands, result = self.call, self.operands, None
        start = clock()
        for _ in repeat(None, count):
            result = call(*operands)
        wait(result)
        return (clock() - start) / (count * self.units)


def wait(result: Any) -> None:
    """Waits until an array, the array of a Tensor, or each of a list of them has been computed."""
    if isinstance(result, list):
        for one in cast("list[Any]", result):
            wait(one)
        return
    array = getattr(result, "array", result)
    if hasattr(array, "block_until_ready"):
        array.block_until_ready()


@dataclass(frozen=True)
class Effort:
    """The duration of a measurement.

    Attributes:
        seconds: the time for one row, without warm-up.
        round_seconds: the time for one side of a round; so short that most rounds are not interrupted.
        least_rounds: the minimal number of rounds, however long they take.
        clock: returns seconds.
    """

    seconds: float = 2.0
    round_seconds: float = 0.0005
    least_rounds: int = 5
    clock: Clock = time.perf_counter


@dataclass(frozen=True)
class Comparison:
    """The result of paired rounds.

    Attributes:
        subject: seconds per unit of the subject, one number per round.
        control: seconds per unit of the control, one number per round.
    """

    subject: tuple[float, ...]
    control: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Returns subject over control, round by round."""
        return [mine / its for mine, its in zip(self.subject, self.control, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratios."""
        if len(self.subject) == 1:
            return self.ratio, self.ratio
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def ratio_of_minima(self) -> float:
        """Returns the ratio of the fastest rounds of both sides."""
        return min(self.subject) / min(self.control)


def compare(subject: Case, control: Case, effort: Effort) -> Comparison:
    """Times two cases in turns until the effort is spent."""
    sides = (subject, control)
    calls = [time_call(case, effort) for case in sides]
    # Both sides of a round take the same time, so that interruptions hit both equally often.
    counts = [round(max(effort.round_seconds, *calls) / call) for call in calls]
    gc.collect()
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + effort.seconds
    while len(times[0]) < effort.least_rounds or time.perf_counter() < end:
        # The order alternates, because the first side finds the caches as the other left them.
        for side in (0, 1) if len(times[0]) % 2 else (1, 0):
            times[side].append(sides[side].time(counts[side], effort.clock))
    return Comparison(tuple(times[0]), tuple(times[1]))


def time_call(case: Case, effort: Effort) -> float:
    """Warms a case up, and returns the seconds that one call takes."""
    case.time(1, time.perf_counter)  # compiles
    count = 1
    while True:
        # The fastest call counts: one interruption must not make the rounds of one side short.
        fastest = math.inf
        for _ in range(TRIES):
            fastest = min(fastest, case.time(count, time.perf_counter) * case.units)
            if fastest > LONG:
                break
        if fastest * count >= effort.round_seconds / 4:
            return fastest
        count *= 2
