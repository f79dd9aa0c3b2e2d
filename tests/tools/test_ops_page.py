"""The generated files: the page of the ops, and the types of their functions."""

from pathlib import Path

from oplib.builtin.functions.families import ROWS
from tools.ops_page import COLUMNS, PAGE, render_page
from tools.stub import METHODS_STUB, render_methods
from tools.stub_packages import list_package_stubs

ROOT = Path(__file__).parent.parent.parent


def test_the_page_of_the_ops_is_up_to_date():
    assert (ROOT / PAGE).read_text() == render_page(), "run `make generate`"


def test_the_page_has_a_line_for_every_overload():
    lines = [line for line in render_page().splitlines() if line.startswith("| ")]
    assert len(lines) - lines.count(COLUMNS) == len(ROWS)


def test_the_stubs_of_the_functions_are_up_to_date():
    assert METHODS_STUB.read_text() == render_methods(), "run `make generate`"
    for path, text in list_package_stubs().items():
        assert path.read_text() == text, "run `make generate`"


def test_a_row_shows_the_path_of_its_submodule():
    page = render_page()
    assert all(f"| `oplib.{path}` |" in page for path in ("linalg.det", "fft.irfft", "special.ndtr"))
