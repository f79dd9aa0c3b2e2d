"""The warning about a static argument that changes at every call."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from oplib.errors import CompilationWarning
from oplib.library.arguments.layout import make_layout
from oplib.library.jax_primitives.staleness import LIMIT, StaticWatch
from oplib.library.schema import parse_schema
from tests.threads import run_in_threads

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
    with pytest.warns(CompilationWarning, match="has taken 8"):
        note(watch, 100.0, 1, "c")


def test_an_argument_that_cannot_be_an_operand_never_warns() -> None:
    watch = StaticWatch("t::f")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in range(3 * LIMIT):
            note(watch, 1.0, 1, f"c{count}")
    assert caught == []


def test_two_threads_that_reach_the_limit_together_warn_once() -> None:
    watch = StaticWatch("t::f")

    def run(place: int) -> None:
        for count in range(LIMIT):
            note(watch, float(100 * place + count), 1, "c")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_in_threads(run)
    assert len(caught) == 1
