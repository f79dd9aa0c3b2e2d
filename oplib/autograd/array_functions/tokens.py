"""Tokens: numbers that stand for classes, plans and functions in keys.

A key with the object itself would keep it alive. A key with its ``id()`` would mean another object after the
first one is freed. A token is never used again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

next_token: Callable[[], int] = itertools.count(1).__next__
"""Returns a number that this process has not used as a token."""
