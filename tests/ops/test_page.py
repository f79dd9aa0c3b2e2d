"""What is made from the tables and stands in files: the page of the ops, and the types of their functions."""

from pathlib import Path

from oplib.ops._functions import ROWS
from oplib.ops._page import COLUMNS, PAGE, render_page
from oplib.ops._stub import METHODS_STUB, STUB, render_methods, render_stub
from oplib.ops._stub_rooms import list_room_stubs

ROOT = Path(__file__).parent.parent.parent


def test_the_page_of_the_ops_is_what_the_tables_make_of_it():
    command = 'python -c "import oplib.ops._page as p; p.write_page()"'
    assert (ROOT / PAGE).read_text() == render_page(), f"make it anew: {command}"


def test_the_page_has_a_line_for_every_overload():
    lines = [line for line in render_page().splitlines() if line.startswith("| ")]
    assert len(lines) - lines.count(COLUMNS) == len(ROWS)


def test_the_types_of_the_functions_are_what_the_tables_make_of_them():
    command = 'python -c "import oplib.ops._stub as s; s.write_stub()"'
    assert STUB.read_text() == render_stub(), f"make them anew: {command}"
    assert METHODS_STUB.read_text() == render_methods(), f"make them anew: {command}"
    for path, text in list_room_stubs().items():
        assert path.read_text() == text, f"make them anew: {command}"


def test_a_row_shows_the_path_of_its_room():
    page = render_page()
    assert all(f"| `oplib.{path}` |" in page for path in ("linalg.det", "fft.irfft", "special.ndtr"))
