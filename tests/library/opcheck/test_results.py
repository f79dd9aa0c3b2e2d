"""The results of opcheck print as a table."""

from __future__ import annotations

from oplib.library import opcheck

from .checked_ops import make_op, wrong_formula


def test_every_test_has_a_line_with_its_error(x):
    results = opcheck(make_op(formula=wrong_formula), (x,), raise_exception=False)
    lines = str(results).splitlines()
    assert len(lines) == len(results)
    assert lines[0].split() == ["test_schema", "SUCCESS"]
    (failed,) = (line for line in lines if "SUCCESS" not in line)
    assert failed.startswith("test_gradients")
    assert "GradcheckError: " in failed
    assert len({line.index(line.split(maxsplit=1)[1]) for line in lines}) == 1  # the second column is aligned


def test_no_result_prints_nothing(x):
    assert str(opcheck(make_op(), (x,), test_utils=())) == ""
