"""Deferred registrations: an op is registered at its first use."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import oplib
from oplib.library.op_objects import deferral
from oplib.library.op_objects.deferral import defer, settle, settle_all
from tests.threads import run_in_threads


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the registered names in order; no other op is deferred."""
    names: list[str] = []
    monkeypatch.setattr(deferral, "_waiting", {})
    defer(["later::a", "later::b", "other::c"], names.append)
    return names


def test_a_name_is_registered_once_when_it_is_first_asked_for(registered: list[str]) -> None:
    assert registered == []
    assert settle("later::b")
    assert not settle("later::b")
    assert registered == ["later::b"]


def test_a_name_that_does_not_wait_is_left_alone(registered: list[str]) -> None:
    assert not settle("later::unknown")
    assert registered == []


def test_all_that_waits_is_settled_in_order_or_one_namespace_of_it(registered: list[str]) -> None:
    settle_all("other")
    settle_all()
    assert registered == ["other::c", "later::a", "later::b"]


def test_a_registration_may_ask_for_its_own_name() -> None:
    asked: list[bool] = []
    defer(["later::own"], lambda name: asked.append(settle(name)))
    assert settle("later::own")
    assert asked == [True]


def test_a_registration_that_fails_waits_on() -> None:
    tries: list[str] = []

    def register(name: str) -> None:
        tries.append(name)
        if len(tries) == 1:
            raise ValueError("not yet")

    defer(["later::hard"], register)
    with pytest.raises(ValueError, match="not yet"):
        settle("later::hard")
    assert settle("later::hard")
    assert tries == ["later::hard", "later::hard"]


def test_another_thread_waits_until_the_registration_is_done() -> None:
    done: list[str] = []

    def register(name: str) -> None:
        time.sleep(0.05)
        done.append(name)

    defer(["later::slow"], register)

    def ask(_: int) -> int:
        settle("later::slow")
        return len(done)

    assert run_in_threads(ask) == [1, 1, 1, 1]


def test_a_built_in_op_can_be_given_a_rule_before_it_was_ever_called() -> None:
    program = """
import oplib
before = len(oplib.builtin.public_functions.registry.OVERLOADS._made)
oplib.library.register_sharding("oplib::tanh", "i -> i")
assert before == 0, before
assert oplib.ops.oplib.tanh.default.record.sharding == "i -> i"
assert "sigmoid" in dir(oplib.ops.oplib) and "oplib" in list(oplib.ops._namespaces)
"""
    check_in_new_process(program)


def check_in_new_process(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_function_of_the_package_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = oplib.nothing
