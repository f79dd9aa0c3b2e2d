"""``oplib.visual.profile``: time and saved bytes of each op."""

from __future__ import annotations

import logging

import jax
import pytest

import oplib
from oplib.errors import ArgumentTypeError
from oplib.modes import modes
from oplib.visual import profile


@oplib.custom_op("profiled::slow", compile=False)
def slow(x: jax.Array) -> jax.Array:
    for _ in range(2000):
        jax.block_until_ready(x + 1)
    return x


slow.register_autograd(lambda ctx, grad: grad)


def make_step():
    weight = oplib.ones(16, 16, requires_grad=True)

    def step(x, scale=1.0):
        weight.grad = None
        hidden = (x @ weight).sin()
        loss = (hidden * hidden).sum() * scale
        loss.backward()
        return loss.detach()

    return step, weight


def test_a_row_counts_calls_and_what_the_nodes_keep():
    step, _ = make_step()
    report = profile(step, oplib.ones(4, 16), scale=2.0)
    rows = {row.op: row for row in report.rows}
    assert {name: row.calls for name, row in rows.items()} == {
        "matmul": 1,
        "sin": 1,
        "mul": 2,
        "sum": 1,
        "accumulate": 0,
    }
    assert rows["matmul"].nbytes == 4 * 16 * 4  # weight requires grad, so x is kept
    assert rows["sin"].nbytes == 4 * 16 * 4
    assert rows["mul"].nbytes == 4 * 16 * 4 + 4  # one array for both operands, and the scale
    assert rows["sum"].nbytes == 0


def step_without_backward(x):
    hidden = (x @ oplib.ones(16, 16, requires_grad=True)).sin()
    return (hidden * hidden).sum()


def test_what_a_graph_without_a_backward_keeps_is_counted():
    report = profile(step_without_backward, oplib.ones(4, 16))
    kept = sum(row.nbytes for row in report.rows)
    assert kept == 3 * 4 * 16 * 4
    assert kept == oplib.visual.graph(step_without_backward(oplib.ones(4, 16))).nbytes
    assert all(row.backward == 0 for row in report.rows)


def test_times_add_up_and_a_slow_op_takes_most_of_them():
    x = oplib.ones(3, requires_grad=True)

    def step():
        x.grad = None
        (slow(x) * 2).sum().backward()

    report = profile(step)
    assert report.rows[0].op == "profiled::slow"
    assert report.rows[0].forward > 0.5 * sum(row.seconds for row in report.rows)
    assert all(row.seconds > 0 for row in report.rows)
    assert sum(row.seconds for row in report.rows) <= report.total


def test_the_step_runs_twice_and_what_it_does_is_done_twice():
    step, weight = make_step()
    calls = []
    profile(lambda x: calls.append(step(x)), oplib.ones(4, 16))
    assert len(calls) == 2
    alone = make_step()
    alone[0](oplib.ones(4, 16))
    assert weight.grad.tolist() == alone[1].grad.tolist()


def test_no_hook_or_mode_is_left_also_after_an_error():
    step, weight = make_step()
    logged = (weight * 2).sum()

    def failing(x):
        step(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        profile(failing, oplib.ones(4, 16))
    assert modes.state.node_hooks is None
    assert modes.state.observers == ()
    logged.backward()
    assert not logged.grad_fn._post_hooks
    assert not logged.grad_fn._pre_hooks


def test_a_profile_and_the_log_of_nodes_work_together(caplog):
    step, _ = make_step()
    with caplog.at_level(logging.DEBUG, logger="oplib.autograd.graph"):
        report = profile(step, oplib.ones(4, 16))
    assert sum("SinBackward0" in record.message for record in caplog.records) == 2
    assert next(row for row in report.rows if row.op == "sin").backward > 0


def test_a_compiled_function_counts_as_one_program():
    step, _ = make_step()
    report = profile(oplib.jit(step), oplib.ones(4, 16))
    assert report.rows == []
    assert "compiled programs" in str(report)


def test_the_table_is_text_and_a_page(tmp_path):
    step, _ = make_step()
    report = profile(step, oplib.ones(4, 16))
    assert str(report).startswith("profile of step: ")
    assert "256 B" in str(report)
    page = report.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert page == report.html()
    assert "<td>matmul</td>" in report._repr_html_()
    assert "<tr><th>op</th><th>share</th><th>forward</th><th>backward</th>" in page
    assert "<tr><th>line</th>" in page
    assert "hidden = (x @ weight).sin()</td>" in page
    assert 'search.type = "search"' in page
    assert page.count('style="--share:') == len(report.rows) + 1 + len(report.lines)  # bars
    assert report.save(tmp_path / "a.txt").read_text(encoding="utf-8") == str(report)
    with pytest.raises(ValueError, match=r"profile\.save: the ending of the path names no form"):
        report.save(tmp_path / "a.png")


def test_lines_have_the_costs_of_the_ops_that_they_call():
    step, _ = make_step()
    report = profile(step, oplib.ones(4, 16))
    lines = {row.op.partition("  ")[2]: row for row in report.lines}
    hidden, loss = lines["hidden = (x @ weight).sin()"], lines["loss = (hidden * hidden).sum() * scale"]
    assert (hidden.calls, loss.calls) == (2, 3)
    assert hidden.nbytes == 2 * 4 * 16 * 4
    for cost in ("seconds", "calls", "nbytes"):
        of_lines, of_ops = (sum(getattr(row, cost) for row in rows) for rows in (report.lines, report.rows))
        assert of_lines == pytest.approx(of_ops)


def test_the_first_call_whose_result_has_a_nan_is_named():
    x = oplib.tensor([-1.0, 4.0], requires_grad=True)

    def step():
        return (x.exp() + 1 - x.log().exp()).sum()

    report = profile(step)
    assert report.first_nan.startswith("log, test_profile_report.py:")
    assert report.first_nan.endswith("return (x.exp() + 1 - x.log().exp()).sum()")
    assert f"; {report.first_nan} made the first nan" in str(report)
    assert profile(make_step()[0], oplib.ones(4, 16)).first_nan == ""


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"profile: expected a function\. Got f32\[2\]"):
        profile(oplib.ones(2))
