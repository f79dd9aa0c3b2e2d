"""What code looks up by a name: modules, the environment, loggers."""

import contextvars
import logging
import os
import sys
import types

import pytest

import oplib

pytestmark = pytest.mark.spec("J.21")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package on disk, with a module that only a function imports."""
    (tmp_path / "looked_up").mkdir()
    (tmp_path / "looked_up" / "__init__.py").write_text("")
    (tmp_path / "looked_up" / "settings.py").write_text("rate = 2.0")
    text = "def step(x):\n    from .settings import rate\n    return x * rate\n"
    (tmp_path / "looked_up" / "steps.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield "looked_up"
    for name in [name for name in sys.modules if name.partition(".")[0] == "looked_up"]:
        del sys.modules[name]


def test_a_relative_import_that_the_first_call_makes_is_noticed_later(package):
    __import__(f"{package}.steps")
    step = oplib.jit(sys.modules[f"{package}.steps"].step)
    assert f"{package}.settings" not in sys.modules
    assert step(oplib.ones(1)).tolist() == [2.0]
    assert step(oplib.ones(1)).tolist() == [2.0]
    sys.modules[f"{package}.settings"].rate = 3.0
    assert step(oplib.ones(1)).tolist() == [3.0]


def test_a_module_that_is_replaced_is_noticed(monkeypatch):
    def read(x):
        import rates_of_a_test

        return x * rates_of_a_test.rate

    step = oplib.jit(read)
    for rate in (2.0, 3.0):
        module = types.ModuleType("rates_of_a_test")
        module.rate = rate
        monkeypatch.setitem(sys.modules, "rates_of_a_test", module)
        assert step(oplib.ones(1)).tolist() == [rate]


def test_variables_of_the_environment_that_the_code_does_not_name_may_change(monkeypatch):
    monkeypatch.setenv("OPLIB_RATE", "2")
    step = oplib.jit(lambda x: x * float(os.environ["OPLIB_RATE"]))
    for number in range(3):
        monkeypatch.setenv("OPLIB_OTHER", str(number))
        step(oplib.ones(1))
    assert step.compilations == 1


def test_levels_that_the_code_does_not_ask_may_change():
    log = logging.getLogger("oplib_tests.lookups")

    def step(x):
        log.debug("called")
        return x * 2

    step = oplib.jit(step)
    for level in (10, 20, 30):
        log.setLevel(level)
        step(oplib.ones(1))
    assert step.compilations == 1


def test_an_adapter_of_a_logger_asks_its_logger():
    log = logging.LoggerAdapter(logging.getLogger("oplib_tests.adapted"), {})
    step = oplib.jit(lambda x: x * (2 if log.isEnabledFor(10) else 3))
    for level, expected in ((10, 2), (40, 3)):
        logging.getLogger("oplib_tests.adapted").setLevel(level)
        assert step(oplib.ones(1)).tolist() == [expected]


def test_a_tensor_in_a_context_variable_is_an_operand():
    held = contextvars.ContextVar("held")
    step = oplib.jit(lambda x: x * held.get())
    for number in (2.0, 3.0):
        held.set(oplib.tensor([number]))
        assert step(oplib.ones(1)).tolist() == [number]
    assert step.compilations == 1
    held.get().add_(1)
    assert step(oplib.ones(1)).tolist() == [4.0]


def test_a_context_variable_without_a_value_is_told_from_none():
    held = contextvars.ContextVar("held")

    def read(x):
        try:
            return x * (2 if held.get() is None else 3)
        except LookupError:
            return x

    step = oplib.jit(read)
    assert step(oplib.ones(1)).tolist() == [1]
    held.set(None)
    assert step(oplib.ones(1)).tolist() == [2]
