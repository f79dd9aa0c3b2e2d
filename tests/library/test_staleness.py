"""The warning about a static argument that changes at every call."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

from oplib.errors import CompilationWarning
from oplib.library.arguments.layout import make_layout
from oplib.library.carrier.staleness import LIMIT, StaticWatch
from oplib.library.schema import parse_schema

SCHEMA = parse_schema("t::f(Tensor x, float a, int b, str c) -> Tensor")


def note(watch: StaticWatch, *values: Any) -> None:
    watch.note(make_layout(SCHEMA, [object(), *values], frozenset(), op="t::f")[0])


def test_the_eighth_value_warns_and_names_the_cure() -> None:
    watch = StaticWatch("t::f")
    for count in range(LIMIT - 1):  # warnings are errors here
        note(watch, float(count), 1, "c")
    with pytest.warns(CompilationWarning, match=r"t::f: static argument 'a' has taken 8 .*operand=\('a',\)"):
        note(watch, 100.0, 1, "c")


def test_each_argument_warns_once_and_by_its_own_count() -> None:
    watch = StaticWatch("t::f")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in range(3 * LIMIT):
            note(watch, float(count), count, "c")
    assert [str(warning.message).split("'")[1] for warning in caught] == ["a", "b"]


def test_values_that_were_seen_do_not_count_again() -> None:
    watch = StaticWatch("t::f")
    for count in range(10 * LIMIT):
        note(watch, float(count % (LIMIT - 1)), 1, "c")


def test_what_cannot_be_an_operand_never_warns() -> None:
    watch = StaticWatch("t::f")
    for count in range(3 * LIMIT):
        note(watch, 1.0, 1, f"c{count}")


def test_two_threads_that_reach_the_limit_together_warn_once() -> None:
    watch, ready = StaticWatch("t::f"), threading.Barrier(4)

    def run(start: int) -> None:
        ready.wait()
        for count in range(LIMIT):
            note(watch, float(start + count), 1, "c")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=run, args=(100 * place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(caught) == 1
