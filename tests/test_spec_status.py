"""The table of the specification's rows and their tests."""

import pytest

from tests.spec_status import Mark, find_marks, read_marks, read_rows, write_page

ROWS = {row for subjects in read_rows().values() for row in subjects}


def test_a_mark_names_a_row_that_there_is():
    assert [mark for mark in find_marks() if mark.row not in ROWS] == []


MARKED = """
import pytest
pytestmark = pytest.mark.spec("A.1")

@pytest.mark.spec("A.2", "A.3")
def test_one(): ...

@pytest.mark.spec("A.4")
class TestTwo:
    @pytest.mark.slow
    @pytest.mark.spec("A.5")
    def test_inside(self): ...

CASES = [pytest.param(1, marks=pytest.mark.spec("A.6"))]
"""


def test_marks_are_found_on_files_functions_classes_and_parameters():
    assert read_marks(MARKED, "f.py") == [
        Mark("A.1", "f.py"),
        Mark("A.2", "f.py::test_one"),
        Mark("A.3", "f.py::test_one"),
        Mark("A.4", "f.py::TestTwo"),
        Mark("A.5", "f.py::TestTwo::test_inside"),
        Mark("A.6", "f.py"),
    ]


def test_a_row_without_a_test_is_marked():
    page = write_page(
        {"A": {"A.1": "one", "A.2": "two"}}, [Mark("A.2", "f.py::test_b"), Mark("A.2", "f.py::test_a")]
    )
    assert "1 of 2 rows have tests." in page
    assert "| A.1 | one | not yet |" in page
    assert "| A.2 | two | `f.py` test_a, test_b |" in page


@pytest.mark.parametrize("row", ["000.14", "001.7", "004.12", "E.9", "D.22"])
def test_rows_of_each_document_are_listed(row):
    assert row in ROWS
