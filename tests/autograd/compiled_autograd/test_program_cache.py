"""The loggers, and the messages that say why a program is new."""

import logging

import pytest

import oplib
from oplib.autograd.compiled_autograd import (
    cpp_verbose_log_fn,
    enable,
    log,
    snapshot_verbose_logging_enabled,
    verbose_log,
)


@pytest.fixture
def verbose(caplog):
    with caplog.at_level(logging.DEBUG, verbose_log.name):
        yield caplog


@pytest.mark.spec("002.1", "D.26")
def test_both_loggers_exist_and_propagate():
    name = "oplib.autograd.compiled_autograd"
    assert log.name == f"{name}.__compiled_autograd"
    assert verbose_log.name == f"{name}.__compiled_autograd_verbose"
    assert log.propagate
    assert verbose_log.propagate


@pytest.mark.spec("002.2", "002.3")
def test_the_verbose_logger_is_off_until_it_is_switched_on(verbose):
    assert snapshot_verbose_logging_enabled()
    cpp_verbose_log_fn("a message")
    assert "a message" in verbose.text
    verbose_log.setLevel(logging.INFO)
    assert not snapshot_verbose_logging_enabled()


@pytest.mark.spec("002.3", "D.26")
def test_a_miss_names_the_new_node_or_the_facts_that_differ(verbose, x):
    with enable():
        (x * 2).sum().backward()
        assert "cache miss: this is the first program" in verbose.messages[0]
        verbose.clear()
        (x * 2).exp().sum().backward()
        assert "cache miss: ExpBackward0 (NodeCall 1) is new" in verbose.messages[0]
        assert "MulBackward0 there" in verbose.messages[0]
        verbose.clear()
        (oplib.ones(3, requires_grad=True) * 2).sum().backward()
        assert "cache miss: the nodes are known" in verbose.messages[0]
        verbose.clear()
        (oplib.ones(3, requires_grad=True) * 2).sum().backward()
        assert verbose.messages == []


@pytest.mark.spec("D.26")
def test_an_eager_run_is_logged_with_its_reason(verbose, x):
    with enable():
        (x * 2).sum().backward(create_graph=True, inputs=[x])
    assert any("create_graph=True" in message for message in verbose.messages)
