"""Rounds of one scenario, each with random numbers of its own: ``make soak``.

Without ``OPLIB_SOAK_SECONDS`` each scenario runs one round. Further random programs of a soak are those of
``tests/autograd/test_random_graphs.py`` and ``tests/parity/test_random_programs.py``.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable

from tests.counts import counts
from tests.seed import describe_seed, make_random

SECONDS = float(os.environ.get("OPLIB_SOAK_SECONDS") or 0)
SHARE = 0.05
"""Of the seconds, for each scenario: two workers then run all scenarios and the programs in these seconds."""


def repeat(scenario: str, run_round: Callable[[random.Random], object], share: float = SHARE) -> None:
    """Runs rounds until the share of the scenario is over, at least one; a failure names its round."""
    end = time.monotonic() + SECONDS * share
    for number in itertools.count():
        try:
            run_round(make_random(f"soak {scenario} {number}"))
        except BaseException as error:
            error.add_note(f"round {number} of {scenario!r}; {describe_seed()}")
            raise
        counts[f"rounds of {scenario}"] += 1
        if time.monotonic() >= end:
            return
