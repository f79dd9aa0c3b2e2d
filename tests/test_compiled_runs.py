"""A run of the tests with compiled autograd fails if too much of it was not compiled."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests import compiled_runs


@pytest.fixture
def show(monkeypatch):
    """Ends a run with these counts, and returns the lines that it prints."""

    def end(passed=1000, **counts):
        lines: list[str] = []
        passes = {getattr(compiled_runs, name, name): count for name, count in counts.items()}
        monkeypatch.setattr(compiled_runs, "IS_ON", True)
        monkeypatch.setattr(compiled_runs, "MOST_EAGER", 0.05)  # also in a run of a share
        monkeypatch.setattr(compiled_runs, "totals", Counter(passes))
        stats = {"passed": [None] * passed}
        compiled_runs.show(SimpleNamespace(write_line=lines.append, stats=stats))
        return lines

    return end


def test_the_end_of_a_run_shows_eager_passes_by_reason(show):
    lines = show(compiled=96, reason=3, other=1, RECORDED=50)
    assert lines[0] == "backward passes: 96 compiled, 4 eager (4.0% of both); the bound is 5%"
    assert lines[1:3] == ["  3 eager: reason", "  1 eager: other"]
    assert "50 more, left out: create_graph=True" in lines[3]


def test_a_run_with_too_many_eager_passes_fails(show):
    with pytest.raises(pytest.exit.Exception, match="too many backward passes ran eagerly"):
        show(compiled=940, reason=60)
    show(compiled=94, reason=6)  # some files


def test_a_run_without_any_compiled_pass_fails(show):
    with pytest.raises(pytest.exit.Exception, match="no backward pass was compiled"):
        show()
    show(passed=5)


def make_items(count):
    items = [SimpleNamespace(nodeid=f"tests/test_one.py::test_{number}", marks=[]) for number in range(count)]
    for item in items:
        item.add_marker = item.marks.append
    return items


def test_a_run_with_too_many_exceptions_is_refused(monkeypatch):
    monkeypatch.setattr(compiled_runs, "IS_ON", True)
    names = [f"::test_{number}" for number in range(3)]
    monkeypatch.setattr(compiled_runs, "EXCEPTIONS", dict.fromkeys(names, "it reads XLA's text"))
    items = make_items(300)
    compiled_runs.select(items)
    assert [len(item.marks) for item in items] == [1] * 3 + [0] * 297
    with pytest.raises(pytest.UsageError, match="3 of 299 tests are left out"):
        compiled_runs.select(make_items(299))
