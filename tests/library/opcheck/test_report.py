"""The page of a check."""

import re

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import GradcheckError
from oplib.library.opcheck.report import CheckResult, OpReport, make_report, render_jacobians


def make_failure(numerical, analytical):
    error = GradcheckError("the <numbers> differ")
    error.jacobians = numerical, analytical
    return error


@pytest.fixture
def description():
    return oplib.ops.oplib.sin.default.describe()


def test_numbers_of_the_summary(description):
    checks = {
        "test_schema": CheckResult(1.0),
        "test_gradients": CheckResult(2.5, make_failure(np.eye(2), 2 * np.eye(2))),
        "test_vmap": CheckResult(0.5, skipped="nothing to map"),
    }
    page = make_report([OpReport(description, checks)], "oplib check it")
    assert "1 / 2" in page
    assert "1 had nothing to check" in page
    assert "4.0 s" in page
    assert "title='nothing to map'" in page
    assert "the &lt;numbers&gt; differ" in page


def test_a_page_without_failures_has_no_card(description):
    page = make_report([OpReport(description, {"test_schema": CheckResult(1.0)})])
    assert "class='card failure'" not in page
    assert "<svg" not in page


def test_the_worst_entry_has_a_frame_in_each_map():
    wrong = np.eye(3)
    wrong[1, 2] = 5
    maps = render_jacobians(np.eye(3), wrong)
    framed = re.findall(r"stroke-width='2'><title>\[(\d), (\d)\] ([-\d.]+)", maps)
    assert framed == [("1", "2", "0"), ("1", "2", "5"), ("1", "2", "5")]


def test_a_large_jacobian_is_shown_around_the_worst_entry():
    wrong = np.zeros((200, 300))
    wrong[150, 250] = 1
    maps = render_jacobians(np.zeros((200, 300)), wrong)
    assert maps.count("<title>") == 3 * 24 * 24
    assert "[150, 250] 1" in maps
    assert re.findall(r"\[\d+, \d+\]", maps)[:1] == ["[138, 238]"]  # the worst one is in the middle


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_drawn(value):
    assert render_jacobians(np.eye(2), np.full((2, 2), value)).count("<svg") == 3


def test_the_results_of_opcheck_are_such_a_page(forget_ops):
    @oplib.custom_op("report::wrong")
    def wrong(x: jax.Array) -> jax.Array:
        return x * 2

    wrong.register_autograd(lambda ctx, g: g * 3)
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    tests = ("test_schema", "test_gradients", "test_vmap")
    results = oplib.library.opcheck(wrong, (x,), test_utils=tests, raise_exception=False)
    page = results.html()
    assert page.count("<svg") == 3
    assert "1.5 times the finite differences: a factor is missing" in page
    assert set(results.seconds) == set(results) == set(tests)
    assert "<table>" in results._repr_html_()
    assert "GradcheckError" in results._repr_html_()
